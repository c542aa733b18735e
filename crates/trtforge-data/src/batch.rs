//! Batches: without padding for calibration, with padding and its cost for everything else.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Rows that run together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Row indices.
    pub rows: Vec<usize>,
    /// Tokens that each row is padded to.
    pub length: usize,
}

/// What rows are padded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Padding {
    /// Always to this length (or a row's own, if it is longer: padding never cuts).
    Fixed(usize),
    /// To the longest row of the batch.
    LongestInBatch,
}

/// Tokens that a set of batches computes, and how many of them are real.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PaddingCount {
    /// Tokens of the texts.
    pub real_tokens: usize,
    /// Tokens computed, padding included.
    pub padded_tokens: usize,
    /// The share of `padded_tokens` that is padding; 0 for no rows.
    pub share: f64,
}

/// Groups rows of the same length, so that no batch holds padding.
///
/// - `max_tokens`: tokens a batch may hold (a row longer than that runs alone);
/// - `max_rows`: rows a batch may hold.
/// - returns: batches from short to long, rows in file order; every row once.
pub fn equal_length_batches(
    lengths: &[usize],
    max_tokens: usize,
    max_rows: usize,
) -> Vec<Vec<usize>> {
    let mut by_length: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (row, &length) in lengths.iter().enumerate() {
        by_length.entry(length).or_default().push(row);
    }
    by_length
        .iter()
        .flat_map(|(&length, rows)| {
            let fitting = (max_tokens / length.max(1)).min(max_rows).max(1);
            rows.chunks(fitting).map(<[usize]>::to_vec)
        })
        .collect()
}

/// Cuts rows into batches of `batch_rows`; the last one may be smaller, and no row is ever left out or repeated.
///
/// - `sorted`: take the rows by length (file order among equals) instead of in file order.
pub fn padded_batches(
    lengths: &[usize],
    batch_rows: usize,
    padding: Padding,
    sorted: bool,
) -> Vec<Batch> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    if sorted {
        order.sort_by_key(|&row| lengths[row]);
    }
    let batch = |rows: &[usize]| {
        let longest = rows.iter().map(|&row| lengths[row]).max().unwrap_or(0);
        let length = match padding {
            Padding::Fixed(length) => length.max(longest),
            Padding::LongestInBatch => longest,
        };
        Batch { rows: rows.to_vec(), length }
    };
    order.chunks(batch_rows.max(1)).map(batch).collect()
}

/// Counts the real and the padded tokens of `batches`.
pub fn padding_count(lengths: &[usize], batches: &[Batch]) -> PaddingCount {
    let real_tokens =
        batches.iter().flat_map(|batch| &batch.rows).map(|&row| lengths[row]).sum::<usize>();
    let padded_tokens = batches.iter().map(|batch| batch.rows.len() * batch.length).sum::<usize>();
    let share = match padded_tokens {
        0 => 0.0,
        all => (all - real_tokens) as f64 / all as f64,
    };
    PaddingCount { real_tokens, padded_tokens, share }
}

/// The share of computed tokens that is padding, from 0 to 1.
pub fn padding_share(lengths: &[usize], batches: &[Batch]) -> f64 {
    padding_count(lengths, batches).share
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn padding_by_hand() {
        // Batches (2, 4) and (3): padded to 4 and 3 → 8 + 3 = 11 tokens, 9 real; sorted (2, 3) and (4): 6 + 4 = 10.
        let lengths = [2, 4, 3];
        let share = |padding, sorted| {
            padding_share(&lengths, &padded_batches(&lengths, 2, padding, sorted))
        };
        assert_eq!(share(Padding::LongestInBatch, false), 2.0 / 11.0);
        assert_eq!(share(Padding::LongestInBatch, true), 1.0 / 10.0);
        assert_eq!(share(Padding::Fixed(6), false), 9.0 / 18.0);
        assert_eq!(padding_share(&[], &[]), 0.0);
    }

    #[test]
    fn equal_batches_by_hand() {
        // Budget 8 tokens, 3 rows: length 1 → 3 rows, length 4 → 2 rows, length 9 → alone.
        let lengths = [4, 1, 4, 9, 1, 4, 1, 1];
        let batches = equal_length_batches(&lengths, 8, 3);
        assert_eq!(batches, [vec![1, 4, 6], vec![7], vec![0, 2], vec![5], vec![3]]);
    }

    proptest! {
        #[test]
        fn every_row_runs_once(lengths in prop::collection::vec(0usize..40, 0..60), rows in 0usize..9, tokens in 0usize..90, sorted: bool) {
            let all: Vec<usize> = (0..lengths.len()).collect();
            let equal = equal_length_batches(&lengths, tokens, rows);
            for batch in &equal {
                let length = lengths[batch[0]];
                prop_assert!(batch.iter().all(|&row| lengths[row] == length));
                prop_assert!(batch.len() == 1 || (batch.len() <= rows && batch.len() * length <= tokens));
            }
            let mut seen: Vec<usize> = equal.concat();
            seen.sort_unstable();
            prop_assert_eq!(&seen, &all);

            let padded = padded_batches(&lengths, rows, Padding::LongestInBatch, sorted);
            let mut seen: Vec<usize> = padded.iter().flat_map(|batch| batch.rows.clone()).collect();
            seen.sort_unstable();
            prop_assert_eq!(&seen, &all);
            prop_assert!(padded.iter().all(|batch| batch.rows.iter().all(|&row| lengths[row] <= batch.length)));
        }
    }
}
