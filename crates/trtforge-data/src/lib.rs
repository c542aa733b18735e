//! Data sets, tokenization, sampling, length statistics, buckets and batches.
