//! Which rows to calibrate with.

use std::fmt;
use std::str::FromStr;

use miette::Diagnostic;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::random::Random;

/// How calibration rows are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SampleStrategy {
    /// Any rows, each as likely as the next.
    Random,
    /// One random row from each of `n` equally full length classes, so that short and long texts are all represented.
    #[default]
    LengthStratified,
    /// The first rows of the file.
    First,
}

/// A strategy name that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Diagnostic, Error)]
#[error("unknown sampling strategy `{0}`")]
#[diagnostic(code(data::strategy), help("known: random, length-stratified, first"))]
pub struct UnknownStrategy(pub String);

impl FromStr for SampleStrategy {
    type Err = UnknownStrategy;

    fn from_str(name: &str) -> Result<Self, UnknownStrategy> {
        match name {
            "random" => Ok(Self::Random),
            "length-stratified" => Ok(Self::LengthStratified),
            "first" => Ok(Self::First),
            _ => Err(UnknownStrategy(name.to_owned())),
        }
    }
}

impl fmt::Display for SampleStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Random => "random",
            Self::LengthStratified => "length-stratified",
            Self::First => "first",
        })
    }
}

/// Chooses `n` of the rows whose token counts are `lengths`.
///
/// - returns: row indices, ascending and distinct; all rows when there are no more than `n`.
///
/// The choice depends on nothing but the arguments, on any machine and in any version.
pub fn sample(lengths: &[usize], n: usize, seed: u64, strategy: SampleStrategy) -> Vec<usize> {
    let rows = lengths.len();
    if n >= rows {
        return (0..rows).collect();
    }
    let mut random = Random::new(seed);
    let mut chosen = match strategy {
        SampleStrategy::First => (0..n).collect(),
        SampleStrategy::Random => shuffled_head(rows, n, &mut random),
        SampleStrategy::LengthStratified => one_per_class(lengths, n, &mut random),
    };
    chosen.sort_unstable();
    chosen
}

/// The first `n` places of a Fisher–Yates shuffle.
fn shuffled_head(rows: usize, n: usize, random: &mut Random) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rows).collect();
    for place in 0..n {
        let other = place + random.below((rows - place) as u64) as usize;
        order.swap(place, other);
    }
    order.truncate(n);
    order
}

fn one_per_class(lengths: &[usize], n: usize, random: &mut Random) -> Vec<usize> {
    let mut by_length: Vec<usize> = (0..lengths.len()).collect();
    by_length.sort_by_key(|&row| lengths[row]);
    let edge = |class: usize| (class as u128 * lengths.len() as u128 / n as u128) as usize;
    let mut pick = |class: usize| {
        let (from, to) = (edge(class), edge(class + 1));
        by_length[from + random.below((to - from) as u64) as usize]
    };
    (0..n).map(&mut pick).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STRATEGIES: [SampleStrategy; 3] =
        [SampleStrategy::Random, SampleStrategy::LengthStratified, SampleStrategy::First];

    #[test]
    fn a_seed_names_the_same_rows_forever() {
        // Computed by an independent Python program from the published algorithms; a change breaks every recorded calibration.
        let lengths: Vec<usize> = (0..20).map(|row| (row * 7) % 20 + 1).collect();
        assert_eq!(sample(&lengths, 4, 17, SampleStrategy::First), [0, 1, 2, 3]);
        assert_eq!(sample(&lengths, 4, 17, SampleStrategy::Random), [0, 2, 13, 17]);
        let strata = sample(&lengths, 4, 17, SampleStrategy::LengthStratified);
        assert_eq!(strata, [7, 10, 12, 14]);
    }

    #[test]
    fn strata_keep_the_rare_lengths() {
        // 90 rows of 5 tokens and 10 of 100: ten classes of ten, so exactly one row is long.
        let lengths: Vec<usize> = (0..100).map(|row| if row % 10 == 3 { 100 } else { 5 }).collect();
        for seed in 0..50 {
            let chosen = sample(&lengths, 10, seed, SampleStrategy::LengthStratified);
            assert_eq!(chosen.iter().filter(|&&row| lengths[row] == 100).count(), 1, "seed {seed}");
        }
    }

    #[test]
    fn seeds_differ_and_every_row_has_its_chance() {
        let lengths = vec![8; 10];
        let mut counts = [0; 10];
        for seed in 0..1_000 {
            for row in sample(&lengths, 3, seed, SampleStrategy::Random) {
                counts[row] += 1;
            }
        }
        // 300 each; 4 standard deviations are 4 * sqrt(1000 * 0.3 * 0.7) = 58.
        assert!(counts.iter().all(|&count| (242..=358).contains(&count)), "{counts:?}");
    }

    #[test]
    fn names_round_trip() {
        for strategy in STRATEGIES {
            assert_eq!(strategy.to_string().parse(), Ok(strategy));
            let json = serde_json::to_string(&strategy).unwrap();
            assert_eq!(json, format!("\"{strategy}\""));
        }
        assert_eq!("longest".parse::<SampleStrategy>(), Err(UnknownStrategy("longest".into())));
    }

    proptest! {
        #[test]
        fn samples_are_distinct_rows(lengths in prop::collection::vec(1usize..50, 0..80), n in 0usize..100, seed: u64) {
            for strategy in STRATEGIES {
                let chosen = sample(&lengths, n, seed, strategy);
                prop_assert_eq!(chosen.len(), n.min(lengths.len()));
                prop_assert!(chosen.windows(2).all(|pair| pair[0] < pair[1]));
                prop_assert!(chosen.iter().all(|&row| row < lengths.len()));
            }
        }
    }
}
