//! A timing cache, and the hash it must have.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A file of tactic timings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimingCache {
    /// Where it lies.
    pub path: PathBuf,
    /// The hash it must have. A pinned cache is read and never written.
    pub pin: Option<Pin>,
    /// Whether a cache that cannot serve (cut short, of another version or GPU) makes way for a new one. Where not, it is
    /// an error: the file may be someone else's.
    pub replace: bool,
}

/// The BLAKE3 hash that a file must have, `blake3:` and 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin(blake3::Hash);

impl Pin {
    /// The pin of these bytes.
    pub fn of(bytes: &[u8]) -> Pin {
        Pin(blake3::hash(bytes))
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blake3:{}", self.0.to_hex())
    }
}

impl FromStr for Pin {
    type Err = String;

    fn from_str(text: &str) -> Result<Pin, String> {
        let Some(hex) = text.strip_prefix("blake3:") else {
            return Err(
                "it begins with `blake3:`, the hash that manifests and records state".to_owned()
            );
        };
        blake3::Hash::from_hex(hex)
            .map(Pin)
            .map_err(|_| "64 hexadecimal digits follow `blake3:`".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_read_as_it_is_written() {
        // BLAKE3 of nothing, from its specification.
        let text = "blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(Pin::of(b"").to_string(), text);
        assert_eq!(text.parse(), Ok(Pin::of(b"")));
        for (text, word) in [("sha256:00", "begins with"), ("blake3:00", "64"), ("", "begins with")]
        {
            assert!(text.parse::<Pin>().unwrap_err().contains(word), "{text}");
        }
    }
}
