//! One of the `N` machines that calibrate together, and which rows are its own.

use std::fmt;
use std::str::FromStr;

use miette::Diagnostic;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// More machines than this are a typing error.
pub const MOST_SHARDS: u32 = 65_536;

/// Shard `index` of `of`, counted from 1; written `3/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shard {
    index: u32,
    of: u32,
}

/// What is no shard.
#[derive(Clone, Debug, Diagnostic, Error, PartialEq, Eq)]
#[error("`{given}` is not a shard: {reason}")]
#[diagnostic(
    code(calibrate::shard),
    help("write I/N, counted from 1: the third of eight machines runs `--shard 3/8`")
)]
pub struct ShardError {
    /// What was written.
    pub given: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Shard {
    /// All rows.
    pub const WHOLE: Self = Self { index: 1, of: 1 };

    /// Shard `index`, from 1, of `of`.
    pub fn new(index: u32, of: u32) -> Result<Self, ShardError> {
        let refuse = |reason: String| Err(ShardError { given: format!("{index}/{of}"), reason });
        if of == 0 {
            return refuse("there must be at least one".into());
        }
        if of > MOST_SHARDS {
            return refuse(format!("more than {MOST_SHARDS} are not supported"));
        }
        if index == 0 || index > of {
            return refuse(format!("the number must be from 1 to {of}"));
        }
        Ok(Self { index, of })
    }

    /// Which one, from 1.
    pub const fn index(self) -> u32 {
        self.index
    }

    /// Of how many.
    pub const fn of(self) -> u32 {
        self.of
    }

    /// The places of the rows that are this shard's, ascending.
    ///
    /// - `lengths`: tokens of every sampled row.
    ///
    /// Rows are put in order of length and cut where each shard has its share of the tokens, so that all take about as
    /// long and rows of one length still run together. Every row belongs to exactly one shard; where there are more
    /// shards than rows, some have none.
    pub fn pick(self, lengths: &[usize]) -> Vec<usize> {
        // A row without tokens would have no place of its own on the scale.
        let cost = |row: usize| lengths[row].max(1) as u128;
        let mut order: Vec<usize> = (0..lengths.len()).collect();
        order.sort_by_key(|&row| (lengths[row], row));
        let total: u128 = order.iter().map(|&row| cost(row)).sum();
        let mut before = 0;
        let mut own: Vec<usize> = order
            .into_iter()
            .filter(|&row| {
                let twice_middle = 2 * before + cost(row);
                before += cost(row);
                twice_middle * u128::from(self.of) / (2 * total) == u128::from(self.index - 1)
            })
            .collect();
        own.sort_unstable();
        own
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl FromStr for Shard {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        let refuse =
            |reason: &str| ShardError { given: text.to_owned(), reason: reason.to_owned() };
        let (index, of) = text.split_once('/').ok_or_else(|| refuse("it has no `/`"))?;
        let number = |digits: &str| {
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            if plain { digits.parse::<u32>().ok() } else { None }
        };
        match (number(index), number(of)) {
            (Some(index), Some(of)) => Self::new(index, of),
            _ => Err(refuse("both sides must be whole numbers")),
        }
    }
}

impl TryFrom<String> for Shard {
    type Error = ShardError;

    fn try_from(text: String) -> Result<Self, ShardError> {
        text.parse()
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> Self {
        shard.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shard(text: &str) -> Shard {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_no_shard_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "no `/`"),
            ("3", "no `/`"),
            ("0/4", "from 1 to 4"),
            ("5/4", "from 1 to 4"),
            ("1/0", "at least one"),
            ("1/65537", "65536"),
            ("1/4/2", "whole numbers"),
            ("-1/4", "whole numbers"),
            ("+1/4", "whole numbers"),
            (" 1/4", "whole numbers"),
            ("1.0/4", "whole numbers"),
            ("/4", "whole numbers"),
            ("99999999999/4", "whole numbers"),
        ] {
            let error = text.parse::<Shard>().unwrap_err();
            assert!(error.to_string().contains(reason), "{text}: {error}");
        }
        assert_eq!((shard("3/8").index(), shard("3/8").of()), (3, 8));
        assert_eq!(shard("1/1"), Shard::WHOLE);
    }

    #[test]
    fn shards_have_like_shares_of_the_tokens() {
        // By hand: 24 tokens, so 8 for each of 3; in order of length 2 2 4 | 8 | 8.
        let lengths = [8, 2, 8, 4, 2];
        assert_eq!(shard("1/3").pick(&lengths), [1, 3, 4]);
        assert_eq!(shard("2/3").pick(&lengths), [0]);
        assert_eq!(shard("3/3").pick(&lengths), [2]);
        assert_eq!(Shard::WHOLE.pick(&lengths), [0, 1, 2, 3, 4]);
        assert_eq!(shard("2/3").pick(&[]), [0_usize; 0]);
    }

    proptest! {
        #[test]
        fn every_row_belongs_to_exactly_one_shard(
            lengths in prop::collection::vec(0usize..600, 0..60),
            of in 1u32..80,
        ) {
            let mut seen: Vec<usize> = Vec::new();
            for index in 1..=of {
                let own = Shard::new(index, of).unwrap().pick(&lengths);
                prop_assert!(own.windows(2).all(|pair| pair[0] < pair[1]));
                // No shard has more than its share of the tokens and one row.
                let tokens: usize = own.iter().map(|&row| lengths[row].max(1)).sum();
                let all: usize = lengths.iter().map(|length| length.max(&1)).sum();
                let longest = lengths.iter().max().copied().unwrap_or(0).max(1);
                prop_assert!(tokens <= all.div_ceil(of as usize) + longest);
                seen.extend(own);
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..lengths.len()).collect::<Vec<_>>());
        }
    }
}
