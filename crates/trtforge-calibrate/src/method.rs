//! The names of the threshold methods.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::CalibrateError;

/// The percentile meant by plain `percentile`.
const DEFAULT_PERCENTILE: f64 = 99.99;
/// The method of scales that were not calibrated here.
const IMPORTED: &str = "imported";
/// The choice by trial, which stands for no method of its own.
const AUTO: &str = "auto";

/// How a threshold is chosen from a histogram of magnitudes.
///
/// Written and read as `entropy`, `minmax`, `percentile` (99.99), `percentile:P` or `mse`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Method {
    /// Smallest KL divergence between the values and their 128-level form.
    #[default]
    Entropy,
    /// The largest magnitude; nothing is clipped.
    MinMax,
    /// The given percentage of all values is kept unclipped.
    Percentile(f64),
    /// Smallest expected squared error of quantizing and dequantizing.
    Mse,
    /// Whichever of the others moves the logits least, found by trial. Asked for, never the method of one tensor.
    Auto,
    /// Taken over from another tool's calibration cache. It stands in tables only; nobody can ask for it.
    Imported,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entropy => f.write_str("entropy"),
            Self::MinMax => f.write_str("minmax"),
            Self::Percentile(p) => write!(f, "percentile:{p}"),
            Self::Mse => f.write_str("mse"),
            Self::Auto => f.write_str(AUTO),
            Self::Imported => f.write_str(IMPORTED),
        }
    }
}

impl FromStr for Method {
    type Err = CalibrateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || CalibrateError::UnknownMethod { given: text.to_owned() };
        match text {
            "entropy" => Ok(Self::Entropy),
            "minmax" => Ok(Self::MinMax),
            "mse" => Ok(Self::Mse),
            AUTO => Ok(Self::Auto),
            "percentile" => Ok(Self::Percentile(DEFAULT_PERCENTILE)),
            _ => {
                let p: f64 = text
                    .strip_prefix("percentile:")
                    .and_then(|p| p.parse().ok())
                    .ok_or_else(unknown)?;
                if p > 0.0 && p <= 100.0 { Ok(Self::Percentile(p)) } else { Err(unknown()) }
            }
        }
    }
}

impl TryFrom<String> for Method {
    type Error = CalibrateError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text == IMPORTED { Ok(Self::Imported) } else { text.parse() }
    }
}

impl From<Method> for String {
    fn from(method: Method) -> Self {
        method.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for (text, method) in [
            ("entropy", Method::Entropy),
            ("minmax", Method::MinMax),
            ("mse", Method::Mse),
            ("auto", Method::Auto),
            ("percentile:99.999", Method::Percentile(99.999)),
            ("percentile:100", Method::Percentile(100.0)),
        ] {
            assert_eq!(text.parse::<Method>().unwrap(), method);
            assert_eq!(method.to_string(), text);
        }
        assert_eq!("percentile".parse::<Method>().unwrap(), Method::Percentile(99.99));
    }

    #[test]
    fn only_a_table_can_say_imported() {
        let text = serde_json::to_string(&Method::Imported).unwrap();
        assert_eq!(text, "\"imported\"");
        assert_eq!(serde_json::from_str::<Method>(&text).unwrap(), Method::Imported);
        assert!("imported".parse::<Method>().is_err());
    }

    #[test]
    fn other_names_are_refused_with_the_known_ones() {
        for text in [
            "",
            "Entropy",
            "kl",
            "imported",
            "percentile:",
            "percentile:0",
            "percentile:101",
            "percentile:NaN",
            "percentile:-1",
        ] {
            let error = text.parse::<Method>().unwrap_err();
            assert_eq!(error, CalibrateError::UnknownMethod { given: text.to_owned() });
        }
    }
}
