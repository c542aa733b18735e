//! Data sets, tokenization, sampling, length statistics, buckets and batches.
//!
//! What flows: a file becomes a [`Dataset`] (checked rows), a [`TextEncoder`] turns its texts into token ids, their lengths give
//! [`LengthStats`], samples, batches and the [`ShapeProfile`]s of an engine, and a [`FeedPlan`] turns ids into a model's inputs.
//!
//! Nothing here depends on thread count, hash order or platform: the same file and options give the same rows and ids.

mod batch;
mod bucket;
mod cell;
mod dataset;
mod delimited;
mod encode;
mod error;
mod feed;
mod jsonl;
mod label;
mod lengths;
mod parquet_rows;
mod random;
mod sample;
mod shapes;
mod vocabulary;

pub use batch::{
    Batch, Padding, PaddingCount, equal_length_batches, padded_batches, padding_count,
    padding_share,
};
pub use bucket::{Bucket, describe_buckets, plan_buckets};
pub use dataset::{Dataset, Fields, Row};
pub use encode::{Encoded, TextEncoder};
pub use error::{DataError, Place};
pub use feed::{ElementKind, FeedError, FeedInput, FeedPlan, InputRole};
pub use lengths::LengthStats;
pub use random::Random;
pub use sample::{SampleStrategy, UnknownStrategy, sample};
pub use shapes::{ShapeOptions, ShapeProfile, encoder_flops, plan_shapes};
