//! Mergeable activation histograms, threshold methods and the calibration table.
//!
//! One pass over the calibration rows fills a [`Histogram`] per tensor ([`Observer`]); every threshold method
//! ([`threshold`]) then reads that same histogram; the chosen scales go to disk as a [`CalibrationTable`].

mod cache;
mod cache_error;
mod channels;
mod entropy;
mod error;
mod histogram;
mod mean_square;
mod merge;
mod method;
mod observer;
mod part;
mod part_error;
mod row_set;
mod scan;
mod search_record;
mod shard;
mod table;
mod threshold;

pub use cache::{Cache, CacheHeader, CacheKind, CacheUnits, cache_bytes, cache_version};
pub use cache_error::CacheError;
pub use channels::ChannelRanges;
pub use error::{CalibrateError, TableError, ThresholdError};
pub use histogram::{BINS, Histogram, LEAST_BINS_IN_USE};
pub use mean_square::noise_to_signal;
pub use merge::merge_parts;
pub use method::Method;
pub use observer::{Observer, Range};
pub use part::{Content, DEVICE, PART_SCHEMA, Part, Recipe};
pub use part_error::PartError;
pub use row_set::RowSet;
pub use search_record::{Chosen, MethodChange, SearchRecord, TriedMethod, TriedStrength};
pub use shard::{MOST_SHARDS, Shard, ShardError};
pub use table::{CalibrationTable, Imported, SCHEMA, TableOptions, TensorCalibration};
pub use threshold::{Guards, LEVELS, Threshold, calibrate, threshold, threshold_with};
