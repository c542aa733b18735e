//! Which rows go together, and what they are padded to.

/// What the rows of a batch are padded to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PadTo {
    /// Always so many tokens, or those of the longest row where it has more.
    Fixed(usize),
    /// The longest row of the batch.
    Longest,
    /// The smallest of these ascending lengths that holds the batch; no batch takes rows of two of them.
    Buckets(Vec<usize>),
}

/// How rows become batches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchOptions {
    /// Rows of a batch at most.
    pub rows: usize,
    /// Rows that are sorted by length together: as many as a batch keeps the order of the rows, `usize::MAX` sorts all.
    pub window: usize,
    /// Padding.
    pub padding: PadTo,
}

impl BatchOptions {
    /// Rows of a batch, at least 1.
    pub(super) fn batch_rows(&self) -> usize {
        self.rows.max(1)
    }

    /// Rows that are looked at together, out of `rows` in all.
    pub(super) fn window_rows(&self, rows: usize) -> usize {
        self.window.clamp(self.batch_rows(), rows.max(self.batch_rows()))
    }
}

/// Rows of a window, by their index in it, and what they are padded to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Planned {
    pub members: Vec<usize>,
    pub length: usize,
}

/// Cuts a window into batches: sorted by length (the order of the rows among equals), full ones but the last of each padded length.
pub(super) fn plan(lengths: &[usize], options: &BatchOptions) -> Vec<Planned> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    if options.window > options.batch_rows() {
        order.sort_by_key(|&row| lengths[row]);
    }
    let bucket = |length: usize| match &options.padding {
        PadTo::Buckets(bounds) => bounds.partition_point(|&bound| bound < length),
        _ => 0,
    };
    if matches!(options.padding, PadTo::Buckets(_)) {
        // Stable: sorted rows are in this order already, unsorted ones keep theirs within a bucket.
        order.sort_by_key(|&row| bucket(lengths[row]));
    }
    order
        .chunk_by(|&a, &b| bucket(lengths[a]) == bucket(lengths[b]))
        .flat_map(|group| group.chunks(options.batch_rows()))
        .map(|members| {
            let longest = members.iter().map(|&row| lengths[row]).max().unwrap_or(0);
            let length = match &options.padding {
                PadTo::Fixed(length) => longest.max(*length),
                PadTo::Longest => longest,
                PadTo::Buckets(bounds) => bounds.get(bucket(longest)).copied().unwrap_or(longest),
            };
            Planned { members: members.to_vec(), length }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn planned(rows: usize, window: usize, padding: PadTo) -> Vec<(Vec<usize>, usize)> {
        let lengths = [9, 3, 4, 12, 3];
        let plan = plan(&lengths, &BatchOptions { rows, window, padding });
        plan.into_iter().map(|batch| (batch.members, batch.length)).collect()
    }

    #[test]
    fn batches_by_hand() {
        assert_eq!(
            planned(2, 2, PadTo::Longest),
            [(vec![0, 1], 9), (vec![2, 3], 12), (vec![4], 3)]
        );
        assert_eq!(
            planned(2, 5, PadTo::Longest),
            [(vec![1, 4], 3), (vec![2, 0], 9), (vec![3], 12)]
        );
        assert_eq!(planned(3, 5, PadTo::Fixed(10)), [(vec![1, 4, 2], 10), (vec![0, 3], 12)]);
        // 3, 3, 4 go to 4; 9 to 10; 12 is longer than every bucket and keeps its length.
        let buckets = || PadTo::Buckets(vec![4, 10]);
        assert_eq!(
            planned(2, 5, buckets()),
            [(vec![1, 4], 4), (vec![2], 4), (vec![0], 10), (vec![3], 12)]
        );
        assert_eq!(
            planned(2, 2, buckets()),
            [(vec![1, 2], 4), (vec![4], 4), (vec![0], 10), (vec![3], 12)]
        );
    }

    proptest! {
        #[test]
        fn every_row_goes_once_and_fits(
            lengths in prop::collection::vec(1_usize..50, 0..40),
            rows in 0_usize..9,
            window in 0_usize..50,
            padding in prop::sample::select(vec![PadTo::Fixed(20), PadTo::Longest, PadTo::Buckets(vec![8, 16, 32])]),
        ) {
            let batches = plan(&lengths, &BatchOptions { rows, window, padding });
            let mut all: Vec<usize> = batches.iter().flat_map(|batch| batch.members.clone()).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..lengths.len()).collect::<Vec<_>>());
            for batch in &batches {
                prop_assert!(batch.members.len() <= rows.max(1));
                prop_assert!(batch.members.iter().all(|&row| lengths[row] <= batch.length));
            }
        }
    }
}
