//! A version down to the build: what a plan states of its maker, and a library of itself.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::sdk::Version;

/// A version with the build number behind it, such as 1.7.1.116.
///
/// TensorRT's standard runtime takes a plan only of exactly its own version, the build included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ExactVersion {
    /// Major, minor and patch.
    pub version: Version,
    /// The build; none where whoever states the version does not say.
    pub build: Option<u32>,
}

impl ExactVersion {
    /// Whether both are one version, as far as both say.
    pub fn agrees_with(self, other: ExactVersion) -> bool {
        let builds = self.build.zip(other.build);
        self.version == other.version && builds.is_none_or(|(one, two)| one == two)
    }
}

impl From<Version> for ExactVersion {
    fn from(version: Version) -> ExactVersion {
        ExactVersion { version, build: None }
    }
}

impl fmt::Display for ExactVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.build {
            Some(build) => write!(f, "{}.{build}", self.version),
            None => self.version.fmt(f),
        }
    }
}

impl From<ExactVersion> for String {
    fn from(version: ExactVersion) -> String {
        version.to_string()
    }
}

impl TryFrom<String> for ExactVersion {
    type Error = String;

    fn try_from(text: String) -> Result<ExactVersion, String> {
        let bad = || format!("`{text}` is no version like 11.4.0 or 11.4.0.106");
        let numbers: Result<Vec<u32>, _> = text.split('.').map(str::parse).collect();
        match numbers.map_err(|_| bad())?[..] {
            [major, minor, patch] => Ok(Version { major, minor, patch }.into()),
            [major, minor, patch, build] => {
                Ok(ExactVersion { version: Version { major, minor, patch }, build: Some(build) })
            }
            _ => Err(bad()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> ExactVersion {
        text.to_owned().try_into().unwrap()
    }

    #[test]
    fn versions_go_both_ways_and_agree_as_far_as_both_say() {
        for text in ["1.7.1", "1.7.1.116", "11.4.0.106"] {
            assert_eq!(version(text).to_string(), text);
        }
        for text in ["", "1.7", "1.7.1.116.2", "1.7.x", "1.7.1.", "-1.7.1", "1.7.1.99999999999"] {
            assert!(ExactVersion::try_from(text.to_owned()).is_err(), "{text}");
        }
        let cases = [
            ("1.7.1", "1.7.1.116", true),
            ("1.7.1.116", "1.7.1.116", true),
            ("1.7.1.115", "1.7.1.116", false),
            ("1.7.2", "1.7.1.116", false),
        ];
        for (one, two, agree) in cases {
            assert_eq!(version(one).agrees_with(version(two)), agree, "{one} {two}");
        }
    }
}
