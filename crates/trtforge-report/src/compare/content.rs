//! The parts of a comparison in their order, and what stands in those about figures.

use super::document::{Block, Cell, Document, Part, Table, Tone};
use super::{Basis, Comparison, Difference, Engine, Standing, causes, tell};
use crate::words;

/// Says it.
pub fn of(comparison: &Comparison) -> Document {
    let parts = [
        part("overview", "Every engine", overview(comparison)),
        part("accuracy", "Accuracy against the baseline", accuracy(comparison)),
        part("speed", "Latency", speed(comparison)),
        part("size", "Size and build time", sizes(comparison)),
        part("inputs", "What went in", causes::inputs_of(comparison)),
        part("profile", "What the profiles say otherwise", causes::profile(comparison)),
        part("decisions", "Tensors that became something else", causes::decisions(comparison)),
        part("scales", "Thresholds that moved", causes::scales(comparison)),
    ];
    let tone = tone(comparison);
    Document {
        headline: words::one_line(&tell::headline(comparison)),
        tone,
        findings: comparison.differences.iter().flat_map(|one| findings(one, comparison)).collect(),
        notes: notes(comparison),
        parts: parts.into_iter().flatten().collect(),
    }
}

fn part(id: &'static str, title: &'static str, blocks: Vec<Block>) -> Option<Part> {
    (!blocks.is_empty()).then_some(Part { id, title, blocks })
}

fn tone(comparison: &Comparison) -> Tone {
    let has = |standing| {
        let all = comparison.differences.iter().flat_map(|one| &one.accuracy);
        all.into_iter().any(|one| one.standing == standing)
    };
    let regressed = comparison.regressions().next().is_some();
    match () {
        () if has(Standing::Unknown) && !has(Standing::Worse) => Tone::Unsure,
        () if regressed => Tone::Bad,
        () if has(Standing::Better) => Tone::Good,
        () => Tone::Plain,
    }
}

/// A sentence whose first word may be a name: only the full stop is added.
pub fn stop(text: &str) -> String {
    let text = words::shorten(&words::one_line(text.trim()), 2_000);
    if text.ends_with(['.', '!', '?', ':']) { text } else { format!("{text}.") }
}

/// What is to be known of one run, the accuracy of each engine first.
fn findings(difference: &Difference, comparison: &Comparison) -> Vec<(Tone, String)> {
    // With one run the headline has named it.
    let run = match comparison.differences.len() {
        1 => String::new(),
        _ => format!("{} ", words::name(&difference.run)),
    };
    let mut found: Vec<(Tone, String)> = difference
        .accuracy
        .iter()
        .map(|one| {
            let name = tell::engine(one.precision, one.against);
            let mut text = format!("{run}{name}: {}", tell::change(one));
            if let Some(flips) = tell::flips(one) {
                text.push_str(&format!("; answers changed: {flips}"));
            }
            if let Some(note) = one.note.as_ref().filter(|_| one.change.is_some()) {
                text.push_str(&format!("; {note}"));
            }
            (one.standing.tone(), stop(&text))
        })
        .collect();
    for one in &difference.verdicts {
        let word =
            |outcome: Option<crate::Outcome>| outcome.map_or("not judged", crate::Outcome::word);
        let text = format!(
            "{run}{}: the gate's word was {} and is {}",
            one.precision.name(),
            word(one.before),
            word(one.after)
        );
        let tone = match (one.before, one.after) {
            (_, Some(crate::Outcome::Rejected)) => Tone::Bad,
            (Some(_), Some(crate::Outcome::Accepted)) => Tone::Good,
            _ => Tone::Unsure,
        };
        found.push((tone, stop(&text)));
    }
    let told = |text: &String| {
        text.contains("accuracy") || text.contains(" became ") || text.contains("gate")
    };
    for text in difference.regressions.iter().filter(|text| !told(text)) {
        found.push((Tone::Bad, stop(&format!("{run}{text}"))));
    }
    found
}

fn notes(comparison: &Comparison) -> Vec<String> {
    let mut notes = Vec::new();
    let all = || comparison.differences.iter().flat_map(|one| &one.accuracy);
    if all().any(|one| one.basis == Basis::Unpaired) {
        notes.push("Where a change is not paired, the answers of single rows are not at hand (`predictions/` of the run folder): its interval is wider than it would be, so a difference within it may still be real.".to_owned());
    }
    if all().any(|one| one.basis == Basis::NotComparable) {
        notes.push("Accuracy on other evaluation rows is not comparable: neither a gain nor a loss follows from the figures.".to_owned());
    }
    let reference = comparison.engines.iter().filter_map(|one| one.evaluation.as_ref());
    if reference.into_iter().any(|one| one.evaluated_on == crate::Place::Reference) {
        notes.push("Accuracy marked `reference` is that of the same graph on the embedded executor, not of the engine on a GPU.".to_owned());
    }
    notes
}

fn overview(comparison: &Comparison) -> Vec<Block> {
    if comparison.engines.is_empty() {
        return Vec::new();
    }
    let metric = comparison
        .metric
        .as_deref()
        .map_or_else(|| "metric".to_owned(), |m| words::shorten(&words::one_line(m), 40));
    let latency = comparison.engines.iter().find_map(|one| one.latency.as_ref());
    let mut columns = vec!["#", "run", "engine", &metric, "interval", "evaluated on", "size"];
    let title =
        latency.map(|found| format!("median at {} × {}", found.shape.batch, found.shape.length));
    if let Some(title) = &title {
        columns.push(title);
    }
    columns.extend(["verdict", "worth choosing"]);
    let rows = comparison.engines.iter().enumerate().map(|(index, one)| {
        let mut row = vec![
            Cell::Number((index + 1).to_string()),
            Cell::Text(words::name(&one.run)),
            Cell::Text(one.precision.name().to_owned()),
            Cell::number(one.evaluation.as_ref().map(|found| words::figure(found.value))),
            one.evaluation
                .as_ref()
                .map_or(Cell::None, |found| Cell::Text(words::interval(found.interval))),
            one.evaluation.as_ref().map_or(Cell::None, |found| {
                let rows = words::counted(found.count, "row");
                Cell::Text(format!("{rows}, {}", words::place(found.evaluated_on)))
            }),
            Cell::number(size(one)),
        ];
        if latency.is_some() {
            row.push(Cell::number(one.latency.as_ref().map(|found| {
                format!(
                    "{} ({})",
                    tell::milliseconds(found.p50_ms),
                    words::place(found.measured_on)
                )
            })));
        }
        row.extend([
            match one.outcome {
                Some(crate::Outcome::Accepted) => Cell::Word("accepted", Tone::Good),
                Some(crate::Outcome::Rejected) => Cell::Word("rejected", Tone::Bad),
                Some(crate::Outcome::Inconclusive) => Cell::Word("inconclusive", Tone::Unsure),
                None => Cell::None,
            },
            choice(one),
        ]);
        row
    });
    let caption = format!(
        "Every engine of every run; the baseline is {}. Worth choosing is what no other beats in {metric} and in size or latency together",
        words::name(&comparison.baseline)
    );
    let table = Table::new(caption, &columns, rows.collect()).most(60).detail("evaluated on");
    vec![Block::Table(table), Block::Charts]
}

fn size(one: &Engine) -> Option<String> {
    match (one.plan_bytes, one.onnx_bytes) {
        (Some(bytes), _) => Some(words::bytes(bytes)),
        (None, Some(bytes)) => Some(format!("{} (ONNX)", words::bytes(bytes))),
        (None, None) => None,
    }
}

fn choice(one: &Engine) -> Cell {
    match (one.best_for_size, one.best_for_latency) {
        (true, true) => Cell::Word("for size and latency", Tone::Good),
        (true, false) => Cell::Word("for size", Tone::Good),
        (false, true) => Cell::Word("for latency", Tone::Good),
        (false, false) if one.evaluation.is_some() && !one.same_rows => {
            Cell::Word("other rows", Tone::Unsure)
        }
        (false, false) => Cell::None,
    }
}

fn accuracy(comparison: &Comparison) -> Vec<Block> {
    let all = comparison
        .differences
        .iter()
        .flat_map(|run| run.accuracy.iter().map(move |one| (run, one)));
    let rows: Vec<Vec<Cell>> = all
        .map(|(run, one)| {
            vec![
                Cell::Text(words::name(&run.run)),
                Cell::Text(tell::engine(one.precision, one.against)),
                Cell::Number(words::figure(one.before)),
                Cell::Number(words::figure(one.after)),
                Cell::number(one.change.map(tell::signed)),
                one.interval.map_or(Cell::None, |found| Cell::Text(words::interval(found))),
                match (one.change, one.interval) {
                    (Some(change), Some(interval)) => Cell::Strip(change, interval),
                    _ => Cell::None,
                },
                Cell::Text(match one.basis {
                    Basis::Paired => "paired".to_owned(),
                    Basis::Unpaired => "not paired".to_owned(),
                    Basis::NotComparable => "other rows".to_owned(),
                }),
                Cell::Word(one.standing.words(), one.standing.tone()),
                tell::flips(one).map_or(Cell::None, Cell::Text),
            ]
        })
        .collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let confidence = comparison
        .differences
        .iter()
        .flat_map(|one| &one.accuracy)
        .map(|one| one.confidence)
        .next();
    let caption = format!(
        "Change against the baseline, positive is better, with its two-sided {} interval; within noise is what holds 0",
        words::confidence(confidence.unwrap_or(0.95))
    );
    let columns = [
        "run",
        "engine",
        "baseline",
        "this run",
        "change",
        "interval",
        "",
        "basis",
        "in words",
        "answers changed",
    ];
    vec![Block::Table(
        Table::new(caption, &columns, rows).detail("answers changed").of_runs(comparison),
    )]
}

fn speed(comparison: &Comparison) -> Vec<Block> {
    let all =
        comparison.differences.iter().flat_map(|run| run.speed.iter().map(move |one| (run, one)));
    let rows: Vec<Vec<Cell>> = all
        .map(|(run, one)| {
            vec![
                Cell::Text(words::name(&run.run)),
                Cell::Text(one.precision.name().to_owned()),
                Cell::Text(format!("{} × {}", one.after.shape.batch, one.after.shape.length)),
                Cell::Number(tell::milliseconds(one.before.p50_ms)),
                Cell::Number(tell::milliseconds(one.after.p50_ms)),
                Cell::Number(if one.speedup.is_finite() {
                    format!("{:.3}×", one.speedup)
                } else {
                    words::figure(one.speedup)
                }),
                Cell::Text(words::place(one.after.measured_on).to_owned()),
                Cell::Word(
                    match one.standing {
                        Standing::Better => "faster",
                        Standing::Worse => "slower",
                        Standing::Unknown => "other device",
                        _ => "within the spread",
                    },
                    one.standing.tone(),
                ),
            ]
        })
        .collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let caption = "Median of a batch from copy to copy, each run measured at its own time; faster or slower is what lies beyond the slowest tenth of the other";
    let columns = [
        "run",
        "engine",
        "batch × tokens",
        "baseline",
        "this run",
        "speed-up",
        "measured on",
        "in words",
    ];
    vec![Block::Table(
        Table::new(caption, &columns, rows).detail("answers changed").of_runs(comparison),
    )]
}

fn sizes(comparison: &Comparison) -> Vec<Block> {
    let mut rows = Vec::new();
    for run in &comparison.differences {
        for one in &run.sizes {
            rows.push(vec![
                Cell::Text(words::name(&run.run)),
                Cell::Text(format!("{} {}", one.precision.name(), one.file)),
                Cell::Number(words::bytes(one.before)),
                Cell::Number(words::bytes(one.after)),
                Cell::Text(tell::relative(one.before, one.after)),
            ]);
        }
        for engine in comparison.engines.iter().filter(|one| one.run == run.run) {
            let of =
                |one: &&Engine| one.run == comparison.baseline && one.precision == engine.precision;
            let before = comparison.engines.iter().find(of).and_then(|one| one.build_ms);
            if let (Some(before), Some(after)) = (before, engine.build_ms) {
                rows.push(vec![
                    Cell::Text(words::name(&run.run)),
                    Cell::Text(format!("{} build time", engine.precision.name())),
                    Cell::Number(words::duration(before)),
                    Cell::Number(words::duration(after)),
                    Cell::Text("for information: one build each".to_owned()),
                ]);
            }
        }
    }
    if rows.is_empty() {
        return Vec::new();
    }
    let caption =
        "Sizes are exact; a build time is that of one build and depends on the machine's load";
    let columns = ["run", "file", "baseline", "this run", "change"];
    vec![Block::Table(Table::new(caption, &columns, rows).of_runs(comparison))]
}
