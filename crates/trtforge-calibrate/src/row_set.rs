//! A set of row or line numbers, written as ranges: `1-40,43,51-52`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Numbers from 1, in ascending order and each at most once.
///
/// All rows of a file are one short range however long the file is, so recording a sample by row costs little.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RowSet {
    /// First and last of each run; runs ascend and never touch.
    runs: Vec<(u64, u64)>,
}

impl RowSet {
    /// All numbers from 1 to `last`; none when that is 0.
    pub fn up_to(last: u64) -> Self {
        Self { runs: if last == 0 { vec![] } else { vec![(1, last)] } }
    }

    /// How many numbers there are.
    pub fn len(&self) -> u64 {
        self.runs.iter().fold(0, |sum, (first, last)| sum.saturating_add(last - first + 1))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The first numbers, at most `most` of them: a set read from a file may claim to be immense.
    pub fn head(&self, most: usize) -> Vec<u64> {
        self.runs.iter().flat_map(|&(first, last)| first..=last).take(most).collect()
    }

    /// Adds the numbers of `other`.
    ///
    /// - returns: how many of them were here already.
    pub fn merge(&mut self, other: &Self) -> u64 {
        let before = self.len().saturating_add(other.len());
        let mut runs: Vec<(u64, u64)> = self.runs.iter().chain(&other.runs).copied().collect();
        runs.sort_unstable();
        self.runs = joined(runs);
        before - self.len()
    }

    /// The numbers of this set that `other` lacks.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut left = Vec::new();
        for &(first, last) in &self.runs {
            let mut next = first;
            for &(from, to) in other.runs.iter().filter(|(from, to)| *from <= last && *to >= first)
            {
                if from > next {
                    left.push((next, from - 1));
                }
                next = to.saturating_add(1);
            }
            if next <= last {
                left.push((next, last));
            }
        }
        Self { runs: left }
    }
}

impl FromIterator<u64> for RowSet {
    fn from_iter<I: IntoIterator<Item = u64>>(numbers: I) -> Self {
        let mut runs: Vec<(u64, u64)> =
            numbers.into_iter().map(|number| (number, number)).collect();
        runs.sort_unstable();
        Self { runs: joined(runs) }
    }
}

/// Runs in order of their first number, put together where they touch or overlap.
fn joined(runs: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (first, last) in runs {
        match joined.last_mut() {
            Some(run) if first <= run.1.saturating_add(1) => run.1 = run.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    joined
}

impl fmt::Display for RowSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.runs.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for RowSet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let bad = || format!("`{part}` is neither a number nor a range such as 3-7");
            let number = |digits: &str| {
                let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
                digits.parse::<u64>().ok().filter(|number| plain && *number > 0)
            };
            let (first, last) = number(first).zip(number(last)).ok_or_else(bad)?;
            let follows = runs.last().is_none_or(|run| first > run.1.saturating_add(1));
            if first > last || !follows {
                return Err(format!("`{part}` is not in ascending order"));
            }
            runs.push((first, last));
        }
        Ok(Self { runs })
    }
}

impl TryFrom<String> for RowSet {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<RowSet> for String {
    fn from(set: RowSet) -> Self {
        set.to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set(numbers: &[u64]) -> RowSet {
        numbers.iter().copied().collect()
    }

    #[test]
    fn runs_are_written_as_ranges() {
        assert_eq!(set(&[]).to_string(), "");
        assert_eq!(set(&[5]).to_string(), "5");
        assert_eq!(set(&[3, 1, 2, 7, 9, 8, 12, 7]).to_string(), "1-3,7-9,12");
        assert_eq!(RowSet::up_to(40).to_string(), "1-40");
        assert_eq!(RowSet::up_to(0), set(&[]));
    }

    #[test]
    fn what_is_no_set_is_refused() {
        for text in [
            "0",
            "a",
            "1,",
            ",",
            "-",
            "1-",
            "3-1",
            "2,1",
            "1,1",
            "1-2,3",
            "+1",
            " 1",
            "99999999999999999999",
        ] {
            assert!(text.parse::<RowSet>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_immense_set_stays_small_in_memory() {
        let all: RowSet = "1-18446744073709551615".parse().unwrap();
        assert_eq!(all.len(), u64::MAX);
        assert_eq!(all.head(2), [1, 2]);
        let mut both = all.clone();
        both.merge(&set(&[4]));
        assert_eq!(both, all);
        assert_eq!(set(&[4]).without(&all), set(&[]));
        assert_eq!(all.without(&set(&[1, 3])).to_string(), "2,4-18446744073709551615");
    }

    proptest! {
        #[test]
        fn sets_are_those_of_the_standard_library(
            a in prop::collection::btree_set(1u64..60, 0..40),
            b in prop::collection::btree_set(1u64..60, 0..40),
        ) {
            let (left, right): (RowSet, RowSet) =
                (a.iter().copied().collect(), b.iter().copied().collect());
            prop_assert_eq!(left.to_string().parse::<RowSet>().unwrap(), left.clone());
            prop_assert_eq!(left.len(), a.len() as u64);
            prop_assert_eq!(left.head(100), a.iter().copied().collect::<Vec<_>>());
            let mut union = left.clone();
            let twice = union.merge(&right);
            prop_assert_eq!(twice, a.intersection(&b).count() as u64);
            prop_assert_eq!(union, a.union(&b).copied().collect::<RowSet>());
            let difference: BTreeSet<u64> = a.difference(&b).copied().collect();
            prop_assert_eq!(left.without(&right), difference.into_iter().collect::<RowSet>());
        }
    }
}
