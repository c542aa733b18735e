//! Words and figures, written the same way in every view.

mod benchmark;
mod search;

use std::fmt::Write as _;

use crate::{Evaluation, Outcome, Part, Place, Precision, PrecisionRecord, RunRecord, Verdict};

pub use benchmark::benchmark;
pub use search::{arithmetic, fallback, hurts, place_of};

/// Longest name shown; longer ones lose their middle.
const LONGEST_NAME: usize = 200;

/// Longest sentence shown; longer ones lose their middle.
const LONGEST_SENTENCE: usize = 2_000;

/// A metric or a drop: four decimals, or the words for what is no number.
pub fn figure(value: f64) -> String {
    if value.is_nan() {
        return "not a number".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "infinite" } else { "-infinite" }.to_owned();
    }
    let text = format!("{value:.4}");
    if text == "-0.0000" { "0.0000".to_owned() } else { text }
}

/// `low to high`; the words for an interval that is none.
pub fn interval(interval: [f64; 2]) -> String {
    if interval.iter().any(|end| end.is_nan()) {
        return figure(f64::NAN);
    }
    format!("{} to {}", figure(interval[0]), figure(interval[1]))
}

/// Text with a capital first.
pub fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// A share from 0 to 1 as a percentage with one decimal.
pub fn share(value: f64) -> String {
    if value.is_finite() { format!("{:.1} %", value * 100.0) } else { figure(value) }
}

/// A confidence such as 0.95 as a percentage without needless decimals.
pub fn confidence(value: f64) -> String {
    let percent = format!("{:.2}", value * 100.0);
    format!("{} %", percent.trim_end_matches('0').trim_end_matches('.'))
}

/// A magnitude to four significant digits, in powers of ten outside 0.001 to 100,000.
pub fn magnitude(value: f32) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return figure(f64::from(value));
    }
    if size != 0.0 && !(1e-3..1e5).contains(&size) {
        return format!("{value:.3e}");
    }
    let decimals = if size == 0.0 { 4 } else { 3 - size.log10().floor() as i32 };
    format!("{value:.*}", decimals.max(0) as usize)
}

/// A count with thousands separated.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count of things, in the singular for one.
pub fn counted(value: u64, thing: &str) -> String {
    format!("{} {thing}{}", count(value), if value == 1 { "" } else { "s" })
}

/// A size in decimal units.
pub fn bytes(value: u64) -> String {
    let size = value as f64;
    match value {
        0..1_000 => format!("{value} B"),
        1_000..1_000_000 => format!("{:.1} kB", size / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", size / 1e6),
        _ => format!("{:.2} GB", size / 1e9),
    }
}

/// A duration given in milliseconds.
pub fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{:.1} s", ms as f64 / 1e3),
        60_000..3_600_000 => format!("{} min {:02} s", ms / 60_000, ms % 60_000 / 1_000),
        _ => format!("{} h {:02} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

/// Dimensions, such as `32 × 128`.
pub fn dims(dims: &[i64]) -> String {
    let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
    if dims.is_empty() { "scalar".to_owned() } else { dims.join(" × ") }
}

/// Any text on one line: characters that move the cursor, reorder text or end a line are shown as escapes.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        let hostile = character.is_control()
            || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
        if hostile {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

/// A name on one line, its middle left out when it is very long.
pub fn name(text: &str) -> String {
    shorten(&one_line(text), LONGEST_NAME)
}

/// Leaves out the middle of `text` so that at most `longest` characters remain.
pub fn shorten(text: &str, longest: usize) -> String {
    let length = text.chars().count();
    if length <= longest {
        return text.to_owned();
    }
    let head = longest.saturating_sub(1) / 2;
    let tail = longest.saturating_sub(1) - head;
    text.chars().take(head).chain(['…']).chain(text.chars().skip(length - tail)).collect()
}

/// `a`, `a and b`, `a, b and c`.
pub fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// The run's name, or a word in its place.
pub fn run_name(record: &RunRecord) -> String {
    if record.name.trim().is_empty() { "unnamed run".to_owned() } else { name(&record.name) }
}

/// The verdict of the run in one sentence without its full stop, the bad news first.
pub fn headline(record: &RunRecord) -> String {
    let mut parts = Vec::new();
    for outcome in [Outcome::Rejected, Outcome::Inconclusive, Outcome::Accepted] {
        let names: Vec<String> = judged(record)
            .filter(|(_, _, verdict)| verdict.outcome == outcome)
            .map(|(precision, _, _)| precision.name().to_owned())
            .collect();
        if !names.is_empty() {
            parts.push(format!("{} {}", list(&names), outcome.word()));
        }
    }
    if !parts.is_empty() {
        return parts.join(", ");
    }
    match &record.stopped_after {
        Some(stage) => format!("Not judged: the run stopped after {}", name(stage)),
        None => "Not judged: no precision has a verdict".to_owned(),
    }
}

/// The precisions with a verdict.
pub fn judged(record: &RunRecord) -> impl Iterator<Item = (Precision, &PrecisionRecord, &Verdict)> {
    record.precisions.iter().filter_map(|(&precision, one)| {
        one.verdict.as_ref().map(|verdict| (precision, one, verdict))
    })
}

/// The precisions with an evaluation.
pub fn evaluated(record: &RunRecord) -> impl Iterator<Item = (Precision, &Evaluation)> {
    record
        .precisions
        .iter()
        .filter_map(|(&precision, one)| one.evaluation.as_ref().map(|found| (precision, found)))
}

/// The metric's name, as the first evaluation gives it.
pub fn metric(record: &RunRecord) -> String {
    evaluated(record)
        .next()
        .map_or_else(|| "metric".to_owned(), |(_, found)| shorten(&one_line(&found.metric), 40))
}

/// Why one precision got its verdict: the gate's own reason, or the figures where it gave none.
pub fn finding(record: &RunRecord, precision: &PrecisionRecord, verdict: &Verdict) -> String {
    if verdict.reason.trim().is_empty() {
        figures(record, precision, verdict)
    } else {
        sentence(&verdict.reason)
    }
}

/// The figures of a verdict, as a sentence.
pub fn figures(record: &RunRecord, precision: &PrecisionRecord, verdict: &Verdict) -> String {
    let metric = metric(record);
    let mut text = if !verdict.drop.is_finite() {
        format!("The drop in {metric} is {}", figure(verdict.drop))
    } else if figure(verdict.drop) == "0.0000" {
        format!("No drop in {metric}")
    } else if verdict.drop > 0.0 {
        format!("Drop in {metric} {}", figure(verdict.drop))
    } else {
        format!("Gain in {metric} {}", figure(-verdict.drop))
    };
    let _ = write!(
        text,
        "; {} interval of the drop {}, {} allowed",
        confidence(verdict.confidence),
        interval(verdict.interval),
        figure(verdict.max_drop)
    );
    if let Some(evaluation) = &precision.evaluation {
        let rows = counted(evaluation.count, "row");
        let _ = write!(text, ", on {rows} ({})", place(evaluation.evaluated_on));
    }
    text.push('.');
    text
}

/// Where an evaluation ran, in a few words.
pub fn place(place: Place) -> &'static str {
    match place {
        Place::Device => "device",
        Place::Reference => "reference",
    }
}

/// Where the accuracy figures come from, in a sentence; none when nothing was evaluated.
pub fn place_note(record: &RunRecord) -> Option<String> {
    let on = |wanted| evaluated(record).any(|(_, found)| found.evaluated_on == wanted);
    let gpu = record.machine.gpu.as_deref().map_or_else(|| "a GPU".to_owned(), name);
    match (on(Place::Device), on(Place::Reference)) {
        (false, false) => None,
        (true, false) => Some(format!("Evaluated on the device: the engines ran on {gpu}.")),
        (false, true) => Some("Evaluated on the reference executor, not on a GPU.".to_owned()),
        (true, true) => Some(format!(
            "Evaluated partly on the device ({gpu}), partly on the reference executor; each figure says where."
        )),
    }
}

/// How many evaluation rows would decide, in a sentence; none when the reason says so itself.
pub fn rows_needed_sentence(verdict: &Verdict) -> Option<String> {
    verdict
        .rows_needed
        .filter(|rows| !verdict.reason.contains(&rows.to_string()))
        .map(|rows| format!("About {} evaluation rows would decide.", count(rows)))
}

/// A class, or a field with its value.
pub fn part(part: &Part) -> String {
    match &part.field {
        Some(field) => name(&format!("{field}={}", part.name)),
        None => name(&part.name),
    }
}

/// Whether `text` holds the whole of `part`.
pub fn says(text: &str, part: &str) -> bool {
    text.contains(part.trim())
}

/// A reason as a sentence on one line: capital first, full stop last.
pub fn sentence(text: &str) -> String {
    let mut sentence = capital(&shorten(&one_line(text.trim()), LONGEST_SENTENCE));
    if sentence.is_empty() {
        return sentence;
    }
    if !sentence.ends_with(['.', '!', '?', ':']) {
        sentence.push('.');
    }
    sentence
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_four_decimals_or_words() {
        let cases = [
            (0.801_25, "0.8013"),
            (-0.000_01, "0.0000"),
            (-0.0042, "-0.0042"),
            (f64::NAN, "not a number"),
            (f64::NEG_INFINITY, "-infinite"),
        ];
        for (value, text) in cases {
            assert_eq!(figure(value), text);
        }
    }

    #[test]
    fn magnitudes_keep_four_digits() {
        let cases = [
            (0.0, "0.0000"),
            (0.5, "0.5000"),
            (0.012_345, "0.01235"),
            (1.0, "1.000"),
            (12.3456, "12.35"),
            (99_999.0, "99999"),
            (123_456.0, "1.235e5"),
            (0.000_5, "5.000e-4"),
            (f32::INFINITY, "infinite"),
        ];
        for (value, text) in cases {
            assert_eq!(magnitude(value), text);
        }
    }

    #[test]
    fn sizes_counts_and_times_have_their_unit() {
        assert_eq!(
            [bytes(999), bytes(1_500), bytes(66_400_000), bytes(2_000_000_000)],
            ["999 B", "1.5 kB", "66.4 MB", "2.00 GB"]
        );
        assert_eq!(
            [count(0), count(999), count(1_000), count(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [duration(850), duration(12_340), duration(125_000), duration(3_840_000)],
            ["850 ms", "12.3 s", "2 min 05 s", "1 h 04 min"]
        );
        assert_eq!(
            [confidence(0.95), confidence(0.999), confidence(1.0)],
            ["95 %", "99.9 %", "100 %"]
        );
        assert_eq!([counted(1, "row"), counted(2, "row")], ["1 row", "2 rows"]);
    }

    #[test]
    fn one_line_shows_what_would_move_the_cursor() {
        assert_eq!(one_line("a\nb\u{1b}[2J\u{202e}é漢"), "a\\nb\\u{1b}[2J\\u{202e}é漢");
    }

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(shorten("abcdefghij", 5), "ab…ij");
        assert_eq!(shorten("abcde", 5), "abcde");
        assert_eq!(name(&"x".repeat(10_000)).chars().count(), LONGEST_NAME);
    }

    #[test]
    fn reasons_become_sentences() {
        let cases = [
            ("", ""),
            ("too far", "Too far."),
            (" Done. ", "Done."),
            ("éa\nb", "Éa\\nb."),
            ("why?", "Why?"),
        ];
        for (reason, text) in cases {
            assert_eq!(sentence(reason), text);
        }
    }

    #[test]
    fn lists_read_as_prose() {
        let items = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(
            [list(&items[..0]), list(&items[..1]), list(&items[..2]), list(&items)],
            ["", "a", "a and b", "a, b and c"]
        );
    }
}
