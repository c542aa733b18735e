//! Calibration caches of TensorRT up to version 10: the scales a team already trusts.
//!
//! The first line is `TRT-8501-EntropyCalibration2`: the library's version and the algorithm. Each other line is a tensor,
//! `: ` and the bits of its scale as an `f32` in hexadecimal, most significant digit first. A name may itself hold `: `,
//! so a line is split at the last one.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use crate::cache_error::CacheError;
use crate::method::Method;
use crate::table::CalibrationTable;
use crate::threshold::LEVELS;

/// How TensorRT chose the scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// `IInt8EntropyCalibrator2`
    Entropy2,
    /// `IInt8EntropyCalibrator`
    Entropy,
    /// `IInt8MinMaxCalibrator`
    MinMax,
    /// `IInt8LegacyCalibrator`
    Legacy,
}

impl CacheKind {
    /// All four.
    pub const ALL: [Self; 4] = [Self::Entropy2, Self::Entropy, Self::MinMax, Self::Legacy];

    /// As in the first line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Entropy2 => "EntropyCalibration2",
            Self::Entropy => "EntropyCalibration",
            Self::MinMax => "MinMaxCalibration",
            Self::Legacy => "LegacyCalibration",
        }
    }

    /// The kind that is most like a method. TensorRT takes the scales as they are, whatever the kind; it only compares
    /// the kind with the calibrator that a program passes.
    pub const fn of(method: Method) -> Self {
        match method {
            Method::MinMax => Self::MinMax,
            _ => Self::Entropy2,
        }
    }
}

/// The first line of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheHeader {
    /// Digits as in `NV_TENSORRT_VERSION`, such as `8501` or `100300`; other tools write other words.
    pub version: String,
    /// The algorithm.
    pub kind: CacheKind,
}

impl fmt::Display for CacheHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TRT-{}-{}", self.version, self.kind.name())
    }
}

impl FromStr for CacheHeader {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let rest = line.strip_prefix("TRT-").ok_or("it does not begin with `TRT-`")?;
        let (version, name) = rest.split_once('-').ok_or("it has no algorithm")?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'.';
        if version.is_empty() || !version.bytes().all(plain) {
            return Err(format!("`{version}` is no version"));
        }
        let kind = CacheKind::ALL.into_iter().find(|kind| kind.name() == name);
        let known = CacheKind::ALL.map(CacheKind::name).join(", ");
        let kind = kind.ok_or_else(|| format!("`{name}` is not one of {known}"))?;
        Ok(Self { version: version.to_owned(), kind })
    }
}

/// The digits TensorRT writes for its version: `8.5.1` is `8501`, and from 10 on `10.3.0` is `100300`.
pub fn cache_version(text: &str) -> Option<String> {
    let number = |digits: &str| {
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u32>().ok())?
    };
    let parts: Vec<u32> = text.split('.').map(number).collect::<Option<_>>()?;
    match parts[..] {
        [whole] if (1000..=10_000_000).contains(&whole) => Some(text.to_owned()),
        [major, minor] | [major, minor, _] if major > 0 && major < 100 && minor < 100 => {
            let patch = parts.get(2).copied().unwrap_or(0);
            // From 10 on each part has two digits; before, 8.5.1 was 8 · 1000 + 5 · 100 + 1.
            let (factor, most) = if major >= 10 { (10_000, 100) } else { (1000, 10) };
            let fits = minor < most && patch < most;
            fits.then(|| (major * factor + minor * 100 + patch).to_string())
        }
        _ => None,
    }
}

/// What the numbers of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheUnits {
    /// Scales, as TensorRT writes them.
    Scales,
    /// Ranges in decimal, as ONNX Runtime's quantizer writes them (`name 3.5`); a scale is 127th of a range.
    OnnxRuntimeRanges,
}

/// A cache that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    /// The first line; none in a file of ranges.
    pub header: Option<CacheHeader>,
    /// Model units per INT8 level, by tensor.
    pub scales: BTreeMap<String, f32>,
    /// What a person should know, in words.
    pub notes: Vec<String>,
}

impl Cache {
    /// Reads a cache; the first line at fault ends the reading with an error that names it.
    pub fn load(path: &Path, units: CacheUnits) -> Result<Self, CacheError> {
        let bytes =
            fs::read(path).map_err(|source| CacheError::Read { path: path.to_owned(), source })?;
        Self::parse(path, &bytes, units)
    }

    /// Reads the bytes of a cache.
    ///
    /// - `path`: for messages.
    pub fn parse(path: &Path, bytes: &[u8], units: CacheUnits) -> Result<Self, CacheError> {
        let path_owned = || path.to_owned();
        let mut notes = Vec::new();
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        let text =
            std::str::from_utf8(bytes).map_err(|_| CacheError::NotText { path: path_owned() })?;
        if text.trim_start().starts_with(['{', '[']) {
            return Err(CacheError::Json { path: path_owned() });
        }
        let mut lines = text
            .lines()
            .map(|line| line.strip_suffix('\r').unwrap_or(line))
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
            .peekable();
        let (_, first) = *lines.peek().ok_or_else(|| CacheError::Empty { path: path_owned() })?;
        let header = match units {
            CacheUnits::Scales => Some(header(path, first)?),
            CacheUnits::OnnxRuntimeRanges if first.starts_with("TRT-") => {
                return Err(CacheError::HasScales { path: path_owned() });
            }
            CacheUnits::OnnxRuntimeRanges => None,
        };
        if let Some(header) = &header {
            lines.next();
            if !header.version.bytes().all(|byte| byte.is_ascii_digit()) {
                let version = &header.version;
                notes.push(format!("its version `{version}` is not TensorRT's: another tool wrote it; check that it holds scales, not ranges"));
            }
        }
        let mut scales: BTreeMap<String, (usize, f32)> = BTreeMap::new();
        for (index, line) in lines {
            let number = index + 1;
            let fault = |what: String| CacheError::Line { path: path_owned(), line: number, what };
            let (tensor, scale) = match units {
                CacheUnits::Scales => scale_line(line),
                CacheUnits::OnnxRuntimeRanges => range_line(line),
            }
            .map_err(fault)?;
            match scales.insert(tensor.to_owned(), (number, scale)) {
                Some((before, other)) if other.to_bits() != scale.to_bits() => {
                    let what = format!(
                        "tensor `{tensor}` has the scale {scale} here and {other} in line {before}"
                    );
                    return Err(fault(what));
                }
                Some((before, _)) => notes.push(format!(
                    "tensor `{tensor}` stands in lines {before} and {number}, with the same scale"
                )),
                None => {}
            }
        }
        if scales.is_empty() {
            return Err(CacheError::Empty { path: path_owned() });
        }
        let scales = scales.into_iter().map(|(tensor, (_, scale))| (tensor, scale)).collect();
        Ok(Self { header, scales, notes })
    }
}

/// The bytes of a cache with a table's scales.
///
/// A table of a smoothed model is refused: its scales are not those of the model that TensorRT would be given.
pub fn cache_bytes(table: &CalibrationTable, header: &CacheHeader) -> Result<Vec<u8>, CacheError> {
    if table.options.smooth > 0.0 {
        return Err(CacheError::Smoothed { strength: table.options.smooth });
    }
    let mut text = format!("{header}\n");
    for (tensor, calibration) in &table.tensors {
        if tensor.contains(['\n', '\r']) {
            return Err(CacheError::Name { tensor: tensor.clone() });
        }
        text.push_str(&format!("{tensor}: {:08x}\n", calibration.scale.to_bits()));
    }
    Ok(text.into_bytes())
}

fn header(path: &Path, line: &str) -> Result<CacheHeader, CacheError> {
    let path = path.to_owned();
    if line.starts_with("TRT-") {
        let reason = |reason| CacheError::Header { path, line: line.to_owned(), reason };
        return line.trim_end().parse().map_err(reason);
    }
    if range_line(line).is_ok() {
        return Err(CacheError::OnnxRuntime { path });
    }
    Err(CacheError::NoHeader { path, line: line.chars().take(60).collect() })
}

/// `name: 3c008912`
fn scale_line(line: &str) -> Result<(&str, f32), String> {
    let (tensor, digits) = line.rsplit_once(": ").ok_or("there is no `: ` before the scale")?;
    let digits = digits.trim_end();
    if tensor.is_empty() {
        return Err("there is no tensor name".to_owned());
    }
    let fault = |what: String| format!("tensor `{tensor}` has {what}");
    let hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if digits.len() != 8 || !hexadecimal {
        return Err(fault(format!("`{digits}`, not a scale of 8 hexadecimal digits")));
    }
    let bits = u32::from_str_radix(digits, 16).map_err(|error| fault(error.to_string()))?;
    let scale = f32::from_bits(bits);
    usable(scale).map_err(fault)?;
    Ok((tensor, scale))
}

/// `name 3.5`
fn range_line(line: &str) -> Result<(&str, f32), String> {
    let (tensor, number) =
        line.trim_end().rsplit_once(' ').ok_or("there is no space before the range")?;
    if tensor.is_empty() || tensor.ends_with(':') {
        return Err("it is not `name range`".to_owned());
    }
    let fault = |what: String| format!("tensor `{tensor}` has {what}");
    let range: f32 =
        number.parse().map_err(|_| fault(format!("`{number}`, not a range such as 3.5")))?;
    let scale = range / LEVELS as f32;
    usable(scale).map_err(fault)?;
    Ok((tensor, scale))
}

fn usable(scale: f32) -> Result<(), String> {
    if scale.is_nan() {
        Err("the scale NaN".to_owned())
    } else if scale == 0.0 {
        Err("the scale 0: no value was ever seen of it".to_owned())
    } else if scale < 0.0 {
        Err(format!("the negative scale {scale}"))
    } else if !(scale * LEVELS as f32).is_finite() {
        Err(format!("the scale {scale}, whose threshold no float holds"))
    } else if scale < f32::MIN_POSITIVE {
        Err(format!("the scale {scale:e}, which a GPU takes for 0"))
    } else {
        Ok(())
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
