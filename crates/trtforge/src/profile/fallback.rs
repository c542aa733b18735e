//! `gate.on_reject: fallback` and `gate.fallback:`, what is done when INT8 as a whole is refused.

use std::time::Duration;

use super::decode::{Mistakes, Section, scalar_text};

/// `gate.fallback:`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FallbackSection {
    /// No candidate is begun after this.
    pub time_limit: Duration,
    /// Most looks at the evaluation rows.
    pub max_steps: usize,
    /// Calibration rows on which units and candidates are compared.
    pub rows: usize,
}

impl Default for FallbackSection {
    fn default() -> Self {
        Self { time_limit: Duration::from_mins(30), max_steps: 8, rows: 64 }
    }
}

/// Reads both keys of `gate:`; `Some(None)` is `on_reject: fail`, which leaves `fallback` unused: turning the search off for one run
/// takes one key.
#[expect(
    clippy::option_option,
    reason = "as everywhere here, the outer none is a reported mistake"
)]
pub fn read(gate: &Section<'_>, mistakes: &Mistakes<'_>) -> Option<Option<FallbackSection>> {
    let wanted = match gate.get("on_reject") {
        Some(_) => gate.choice("on_reject", &[("fail", false), ("fallback", true)])?,
        None => false,
    };
    let Some(node) = gate.get("fallback") else {
        return Some(wanted.then(FallbackSection::default));
    };
    let section =
        Section::open(node, "gate.fallback", &["time_limit", "max_steps", "rows"], mistakes)?;
    let FallbackSection { mut time_limit, mut max_steps, mut rows } = FallbackSection::default();
    if let Some(node) = section.get("time_limit") {
        let Some(given) = scalar_text(&node.value).as_deref().and_then(duration) else {
            section.refuse(
                "time_limit",
                "a time such as `90s`, `30m` or `2h`",
                "write a number and its unit",
            );
            return None;
        };
        time_limit = given;
    }
    if section.get("max_steps").is_some() {
        max_steps = section.integer("max_steps", 1..=64)? as usize;
    }
    if section.get("rows").is_some() {
        rows = section.integer("rows", 1..=1_000_000)? as usize;
    }
    Some(wanted.then_some(FallbackSection { time_limit, max_steps, rows }))
}

/// A number of seconds, minutes or hours with its unit; `0` needs none.
fn duration(text: &str) -> Option<Duration> {
    const UNITS: [(&str, f64); 4] = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let text = text.trim();
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = (text[..unit_at].trim().parse::<f64>().ok()?, &text[unit_at..]);
    let seconds = match UNITS.iter().find(|(name, _)| *name == unit) {
        Some((_, seconds)) => number * seconds,
        None if unit.is_empty() && number == 0.0 => 0.0,
        None => return None,
    };
    // A year is more than any build takes, and well within what a duration holds.
    (0.0..=365.0 * 86_400.0).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, expected) in [
            ("90s", Some(90_000)),
            ("30m", Some(1_800_000)),
            ("2h", Some(7_200_000)),
            ("250 ms", Some(250)),
            ("0.5m", Some(30_000)),
            ("0", Some(0)),
            ("30", None),
            ("m", None),
            ("-5s", None),
            ("NaNs", None),
            ("infs", None),
            ("3 weeks", None),
            ("1e300h", None),
            ("", None),
        ] {
            assert_eq!(duration(text), expected.map(Duration::from_millis), "{text}");
        }
    }
}
