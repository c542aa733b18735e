//! Changes in words, the same in every view.

use super::{AccuracyChange, Basis, Comparison, Difference, SpeedChange, Standing};
use crate::{Precision, words};

/// `+0.0040`, `-0.0012`, `0.0000`.
pub fn signed(value: f64) -> String {
    let text = words::figure(value);
    if value > 0.0 && text != "0.0000" && value.is_finite() { format!("+{text}") } else { text }
}

/// The engine's name, with the one it is compared to where that is another.
pub fn engine(precision: Precision, against: Precision) -> String {
    if precision == against {
        precision.name().to_owned()
    } else {
        format!("{} against {}", precision.name(), against.name())
    }
}

/// A change of accuracy with its figures, without the name of the engine.
pub fn change(one: &AccuracyChange) -> String {
    let values = format!("{} became {}", words::figure(one.before), words::figure(one.after));
    let (Some(change), Some(interval)) = (one.change, one.interval) else {
        return format!(
            "{values}, not comparable: {}",
            one.note.as_deref().unwrap_or("other rows")
        );
    };
    if one.standing == Standing::SameAnswers {
        return format!("the same answer on each of {}", words::counted(one.rows[1], "row"));
    }
    let basis = match one.basis {
        Basis::Paired => "paired",
        _ => "not paired",
    };
    format!(
        "{values}, {}: {} ({} interval {}, {basis}, {})",
        one.standing.words(),
        signed(change),
        words::confidence(one.confidence),
        words::interval(interval),
        words::counted(one.rows[1], "row")
    )
}

/// Changed answers.
pub fn flips(one: &AccuracyChange) -> Option<String> {
    if one.standing == Standing::SameAnswers {
        return None;
    }
    let flips = one.flips.filter(|flips| flips.changed() > 0)?;
    let mut text = format!(
        "{} ({} to wrong, {} to right)",
        words::count(flips.changed()),
        words::count(flips.to_wrong),
        words::count(flips.to_right)
    );
    if let Some(p) = one.p_value {
        text.push_str(&if p < 0.000_05 {
            ", p < 0.0001".to_owned()
        } else {
            format!(", p = {p:.4}")
        });
    }
    Some(text)
}

/// A change of latency.
pub fn speed(one: &SpeedChange) -> String {
    format!(
        "{} at batch {} × {} tokens: {} became {} (median), {}",
        one.precision.name(),
        one.after.shape.batch,
        one.after.shape.length,
        milliseconds(one.before.p50_ms),
        milliseconds(one.after.p50_ms),
        if one.standing == Standing::Worse { "slower" } else { one.standing.words() }
    )
}

/// Milliseconds to four digits.
pub fn milliseconds(ms: f64) -> String {
    format!("{} ms", words::magnitude(ms as f32))
}

/// `3.1 % smaller`, `1.25× as large`, `same`.
pub fn relative(before: u64, after: u64) -> String {
    if before == after {
        return "same".to_owned();
    }
    let ratio = after as f64 / before as f64;
    if !ratio.is_finite() || ratio >= 2.0 {
        return format!("{ratio:.2}× as large");
    }
    let (percent, word) =
        ((ratio - 1.0).abs() * 100.0, if ratio < 1.0 { "smaller" } else { "larger" });
    if percent < 0.05 {
        format!("less than 0.1 % {word}")
    } else {
        format!("{percent:.1} % {word}")
    }
}

/// How the accuracy of one run stands, in a few words: the engines by what can be said of them.
pub fn standing(difference: &Difference) -> String {
    let mut parts = Vec::new();
    for standing in [
        Standing::Worse,
        Standing::Unknown,
        Standing::Better,
        Standing::WithinNoise,
        Standing::SameAnswers,
    ] {
        let names: Vec<String> = difference
            .accuracy
            .iter()
            .filter(|one| one.standing == standing)
            .map(|one| engine(one.precision, one.against))
            .collect();
        if !names.is_empty() {
            let verb = match (standing, names.len()) {
                (Standing::SameAnswers, 1) => "gives the",
                (Standing::SameAnswers, _) => "give the",
                (_, 1) => "is",
                (_, _) => "are",
            };
            parts.push(format!("{} {verb} {}", words::list(&names), standing.words()));
        }
    }
    if parts.is_empty() {
        parts.push("accuracy was not measured in both".to_owned());
    }
    let refused = |one: &&super::VerdictChange| one.after == Some(crate::Outcome::Rejected);
    let refused: Vec<String> = difference
        .verdicts
        .iter()
        .filter(refused)
        .map(|one| one.precision.name().to_owned())
        .collect();
    if !refused.is_empty() {
        parts.push(format!("the gate now rejects {}", words::list(&refused)));
    }
    parts.join(", ")
}

/// The comparison in one line.
pub fn headline(comparison: &Comparison) -> String {
    match comparison.differences.as_slice() {
        [only] => format!("{} against {}: {}", only.run, comparison.baseline, standing(only)),
        many => {
            let worse = many.iter().filter(|one| !one.regressions.is_empty()).count();
            let rest = match worse {
                0 => "none is worse".to_owned(),
                1 => "1 regresses: worse, refused, gone or not to be told".to_owned(),
                n => format!("{n} regress: worse, refused, gone or not to be told"),
            };
            format!(
                "{} against {}: {rest}",
                words::counted(many.len() as u64, "run"),
                comparison.baseline
            )
        }
    }
}

/// What moved among the thresholds.
pub fn scales(difference: &Difference) -> Option<String> {
    let found = &difference.scales;
    if found.common == 0 && found.only_before.is_empty() && found.only_after.is_empty() {
        return None;
    }
    let moved = found.moved.len() as u64;
    let mut text = format!(
        "{} in both: {}",
        words::counted(found.common, "calibrated tensor"),
        match (moved, found.common) {
            (_, 0) => "none".to_owned(),
            (0, _) => "every threshold is the same".to_owned(),
            _ => format!(
                "{} moved, half of all by no more than a factor of {:.3}",
                words::counted(moved, "threshold"),
                found.typical_factor()
            ),
        }
    );
    for (names, whose) in [(&found.only_before, "the baseline"), (&found.only_after, "this run")] {
        if !names.is_empty() {
            text.push_str(&format!("; {} only in {whose}", words::count(names.len() as u64)));
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_in_words() {
        let signs = [
            (0.004, "+0.0040"),
            (-0.0012, "-0.0012"),
            (0.000_01, "0.0000"),
            (f64::NAN, "not a number"),
        ];
        for (value, text) in signs {
            assert_eq!(signed(value), text);
        }
        let sizes = [
            (100, 100, "same"),
            (1_000, 969, "3.1 % smaller"),
            (1_000, 1_250, "25.0 % larger"),
            (100_000, 100_001, "less than 0.1 % larger"),
            (100, 250, "2.50× as large"),
            (0, 5, "inf× as large"),
        ];
        for (before, after, text) in sizes {
            assert_eq!(relative(before, after), text);
        }
    }
}
