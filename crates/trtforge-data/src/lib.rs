//! Data sets, tokenization, sampling, length statistics, buckets and batches.
//!
//! What flows: a file becomes a [`Dataset`] (checked rows; [`WordRows`] and [`QuestionRows`] for tasks that read other fields), a [`TextEncoder`] turns its texts into token ids, their lengths give
//! [`LengthStats`], samples, batches and the [`ShapeProfile`]s of an engine, and a [`FeedPlan`] turns ids into a model's inputs.
//!
//! Nothing here depends on thread count, hash order or platform: the same file and options give the same rows and ids.

mod batch;
mod bucket;
mod cell;
mod choices;
mod conll;
mod dataset;
mod delimited;
mod encode;
mod error;
mod feed;
mod fields;
mod jsonl;
mod label;
mod lengths;
mod parquet_rows;
mod questions;
mod random;
mod row_error;
mod sample;
mod shapes;
mod source;
mod squad;
mod vocabulary;
mod windows;
mod words;

pub use batch::{
    Batch, Padding, PaddingCount, equal_length_batches, padded_batches, padding_count,
    padding_share,
};
pub use bucket::{Bucket, describe_buckets, plan_buckets};
pub use choices::{BucketChoice, bucket_choices};
pub use dataset::{Dataset, Fields, Row};
pub use encode::{Encoded, TextEncoder};
pub use error::{DataError, Place};
pub use feed::{ElementKind, FeedError, FeedInput, FeedPlan, InputRole};
pub use fields::{FieldKind, FieldSummary, describe_fields};
pub use lengths::LengthStats;
pub use questions::{QuestionFields, QuestionRow, QuestionRows};
pub use random::Random;
pub use row_error::RowError;
pub use sample::{SampleStrategy, UnknownStrategy, sample};
pub use shapes::{ShapeOptions, ShapeProfile, encoder_flops, plan_shapes};
pub use windows::{EncodedWords, Unfit, Window};
pub use words::{WordFields, WordRow, WordRows};
