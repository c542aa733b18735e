//! `report.md`: the record for a job page or a pull request, without the single tensors.

mod benchmark;
mod diagnosis;
mod gate;
mod proof;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::record::relative_name;
use crate::{Action, Precision, RunRecord, words};

/// Reasons listed; a reason with a figure in it may occur once per tensor.
const REASONS: usize = 40;

/// The whole summary as GitHub-flavoured Markdown.
pub fn render_markdown(record: &RunRecord) -> String {
    let mut text =
        format!("# {}: {}\n", plain(&words::run_name(record)), plain(&words::headline(record)));
    verdicts(record, &mut text);
    accuracy(record, &mut text);
    gate::sections(record, &mut text);
    int8(record, &mut text);
    engines(record, &mut text);
    benchmark::section(record, &mut text);
    proof::section(record, &mut text);
    diagnosis::section(record, &mut text);
    canonical(record, &mut text);
    decisions(record, &mut text);
    calibration(record, &mut text);
    shapes(record, &mut text);
    warnings(record, &mut text);
    provenance(record, &mut text);
    text
}

fn verdicts(record: &RunRecord, text: &mut String) {
    for (precision, one, verdict) in words::judged(record) {
        let finding = words::finding(record, one, verdict);
        let _ = write!(
            text,
            "\n- **{} {}**: {}",
            precision.name(),
            verdict.outcome.word(),
            plain(&finding)
        );
        if let Some(rows) = words::rows_needed_sentence(verdict) {
            let _ = write!(text, " {}", plain(&rows));
        }
    }
    if words::judged(record).next().is_some() {
        text.push('\n');
    }
    if let Some(hurts) = words::hurts(record) {
        let _ = writeln!(text, "\n{}", plain(&hurts));
    }
    if let Some(note) = words::place_note(record) {
        let _ = writeln!(text, "\n_{}_", plain(&note));
    }
}

fn accuracy(record: &RunRecord, text: &mut String) {
    if words::evaluated(record).next().is_none() {
        return;
    }
    let _ = writeln!(text, "\n## Accuracy\n");
    row(
        text,
        &[
            "precision",
            &plain(&words::metric(record)),
            "interval",
            "rows",
            "drop",
            "interval of the drop",
            "answers flipped",
            "evaluated on",
            "verdict",
        ]
        .map(str::to_owned),
    );
    rule(text, 9);
    for (precision, one) in &record.precisions {
        let Some(found) = &one.evaluation else { continue };
        let verdict = one.verdict.as_ref();
        let dash = || "–".to_owned();
        let mut rows = words::count(found.count);
        if found.not_finite > 0 {
            let _ = write!(rows, " ({} not finite)", words::count(found.not_finite));
        }
        let flips = verdict.and_then(|verdict| verdict.flips);
        row(
            text,
            &[
                precision.name().to_owned(),
                words::figure(found.value),
                format!(
                    "{} ({})",
                    words::interval(found.interval),
                    words::confidence(found.confidence)
                ),
                rows,
                verdict.map_or_else(dash, |verdict| words::figure(verdict.drop)),
                verdict.map_or_else(dash, |verdict| words::interval(verdict.interval)),
                flips.map_or_else(dash, |flips| {
                    format!(
                        "{} ({} to wrong, {} to right)",
                        flips.changed(),
                        flips.to_wrong,
                        flips.to_right
                    )
                }),
                words::place(found.evaluated_on).to_owned(),
                verdict.map_or("baseline", |verdict| verdict.outcome.word()).to_owned(),
            ],
        );
    }
}

/// Units listed; `report.html` has them all.
const UNITS: usize = 10;

/// How much is INT8, the path of a search, and what costs most.
fn int8(record: &RunRecord, text: &mut String) {
    let int8 = record.precisions.get(&crate::Precision::Int8);
    if let Some(arithmetic) = int8.and_then(|one| one.arithmetic) {
        let _ = writeln!(text, "\n{}", plain(&words::arithmetic(&arithmetic)));
    }
    if let Some(fallback) = &record.fallback {
        let _ = writeln!(
            text,
            "\n## The way back from INT8\n\n{}.\n",
            plain(&words::fallback(fallback))
        );
        let columns = ["Returned to FP16", "Stays INT8", "Logit shift", "Value", "Drop", "Verdict"];
        row(text, &columns.map(str::to_owned));
        rule(text, columns.len());
        for step in &fallback.steps {
            let figure = |value: Option<f64>| value.map_or("–".to_owned(), words::figure);
            let look = step.look.as_ref();
            let cells = [
                words::count(step.returned.len() as u64),
                words::share(step.arithmetic.share),
                figure(step.shift),
                figure(look.map(|look| look.value)),
                figure(look.map(|look| look.drop)),
                look.map_or("not looked at", |look| look.outcome.word()).to_owned(),
            ];
            row(text, &cells);
        }
        let _ = writeln!(text, "\n{}", plain(&words::sentence(&fallback.ended)));
        let chosen = fallback.chosen.and_then(|index| fallback.steps.get(index as usize));
        if let Some(step) = chosen {
            let nodes: Vec<String> = step.returned.iter().map(|node| code(node)).collect();
            let _ = writeln!(text, "\nReturned to FP16: {}", nodes.join(", "));
        }
    }
    let Some(sensitivity) = &record.sensitivity else { return };
    let _ = writeln!(text, "\n## What INT8 costs, part by part\n");
    let columns = ["Node", "Place", "Logit shift", "SNR, dB", "Clipped", "Flips", "Arithmetic"];
    row(text, &columns.map(str::to_owned));
    rule(text, columns.len());
    for unit in sensitivity.units.iter().take(UNITS) {
        let cells = [
            code(&unit.node),
            plain(&words::place_of(unit)),
            words::figure(unit.shift),
            unit.snr_db.map_or("–".to_owned(), |snr| format!("{snr:.1}")),
            words::share(unit.clipped),
            words::count(unit.flips),
            words::share(unit.share),
        ];
        row(text, &cells);
    }
    if sensitivity.units.len() > UNITS {
        let _ = writeln!(text, "\nand {} more in report.html", sensitivity.units.len() - UNITS);
    }
}

fn engines(record: &RunRecord, text: &mut String) {
    if record.precisions.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n## Files\n");
    row(
        text,
        &["precision", "ONNX", "size", "engine", "size", "build time", "published"]
            .map(str::to_owned),
    );
    rule(text, 7);
    for (precision, one) in &record.precisions {
        let dash = || "–".to_owned();
        let path = |path: &Option<String>| {
            path.as_deref().map_or_else(dash, |path| code(relative_name(path)))
        };
        row(
            text,
            &[
                precision.name().to_owned(),
                path(&one.onnx),
                one.onnx_bytes.map_or_else(dash, words::bytes),
                path(&one.plan),
                one.plan_bytes.map_or_else(dash, words::bytes),
                one.build_ms.map_or_else(dash, words::duration),
                match (&one.plan, one.published) {
                    (Some(_), true) => "yes".to_owned(),
                    (Some(_), false) => "no".to_owned(),
                    (None, _) => dash(),
                },
            ],
        );
    }
}

fn canonical(record: &RunRecord, text: &mut String) {
    let Some(form) = &record.canonical else { return };
    let _ = writeln!(text, "\nCanonical form: {}.", plain(&form.summary()));
    let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
    for miss in &form.near_misses {
        *reasons.entry(&miss.reason).or_default() += 1;
    }
    for (reason, count) in reasons.iter().take(REASONS) {
        let _ = writeln!(text, "- left {}×: {}", words::count(*count), plain(&words::name(reason)));
    }
}

fn decisions(record: &RunRecord, text: &mut String) {
    let mut groups: BTreeMap<(Precision, &Action, &str), u64> = BTreeMap::new();
    for decision in &record.decisions {
        *groups
            .entry((decision.precision, &decision.action, decision.reason.as_str()))
            .or_default() += 1;
    }
    if groups.is_empty() {
        return;
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|((precision, ..), count)| (*precision, std::cmp::Reverse(*count)));
    let _ = writeln!(text, "\n## What became of the tensors\n");
    row(text, &["graph", "tensors", "became", "why"].map(str::to_owned));
    rule(text, 4);
    for ((precision, action, reason), count) in groups.iter().take(REASONS) {
        let words = [
            precision.name().to_owned(),
            words::count(*count),
            plain(&words::name(action.words())),
            plain(&words::name(reason)),
        ];
        row(text, &words);
    }
    if groups.len() > REASONS {
        let _ = writeln!(text, "\n{} more reasons are in the HTML report.", groups.len() - REASONS);
    }
}

fn calibration(record: &RunRecord, text: &mut String) {
    let Some(found) = &record.calibration else { return };
    let tensors = found.tensors.len() as u64;
    let guarded = found.tensors.values().filter(|tensor| tensor.guard.is_some()).count();
    let _ = writeln!(
        text,
        "\n## Calibration\n\nMethod {}, {}, {} observed, {guarded} held by a guard. Thresholds are in {}.",
        code(&found.method),
        words::counted(found.rows, "row"),
        words::counted(tensors, "tensor"),
        code("calibration.json")
    );
    let Some(search) = &found.search else { return };
    let _ = writeln!(text, "\n{}:\n", search.title());
    row(text, &["variant", "mean logit shift", ""].map(str::to_owned));
    rule(text, 3);
    for tried in &search.tried {
        let chosen = if tried.chosen { "chosen" } else { "" };
        row(text, &[plain(&tried.words()), tried.shift_words(), chosen.to_owned()]);
    }
    for change in &search.changes {
        let tensors: Vec<String> = change.tensors.iter().map(|name| code(name)).collect();
        let _ = writeln!(
            text,
            "\n{} instead of {} for {}: {:.4} became {:.4}.",
            plain(&words::name(&change.to)),
            plain(&words::name(&change.from)),
            tensors.join(", "),
            change.before,
            change.after
        );
    }
    if let Some(note) = &search.note {
        let _ = writeln!(text, "\n{}.", plain(&words::name(note)));
    }
}

fn shapes(record: &RunRecord, text: &mut String) {
    let Some(shapes) = &record.shapes else { return };
    let _ = writeln!(text, "\n## Shapes and padding");
    if !shapes.profiles.is_empty() {
        text.push('\n');
        row(text, &["profile", "input", "min", "opt", "max", "rows", "padding"].map(str::to_owned));
        rule(text, 7);
    }
    for (index, profile) in shapes.profiles.iter().enumerate() {
        for (input, range) in &profile.inputs {
            let dash = || "–".to_owned();
            row(
                text,
                &[
                    (index + 1).to_string(),
                    code(input),
                    words::dims(&range.min),
                    words::dims(&range.opt),
                    words::dims(&range.max),
                    profile.rows.map_or_else(dash, words::count),
                    profile.padding_share.map_or_else(dash, words::share),
                ],
            );
        }
    }
    if !shapes.padding.is_empty() {
        text.push('\n');
        row(
            text,
            &["batches", "real tokens", "computed tokens", "wasted on padding"].map(str::to_owned),
        );
        rule(text, 4);
    }
    for figure in &shapes.padding {
        let [real, computed] = [figure.real_tokens, figure.padded_tokens].map(words::count);
        row(
            text,
            &[plain(&words::name(&figure.mode)), real, computed, words::share(figure.wasted_share)],
        );
    }
}

fn warnings(record: &RunRecord, text: &mut String) {
    if record.warnings.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n## Warnings\n");
    for warning in &record.warnings {
        let _ = writeln!(text, "- {}", plain(&words::sentence(warning)));
    }
}

fn provenance(record: &RunRecord, text: &mut String) {
    let _ = writeln!(text, "\n## Provenance\n");
    for (role, file) in record.inputs.files() {
        let _ = writeln!(text, "- {role}: {} {}", code(&file.name), code(&file.fingerprint));
    }
    let _ = writeln!(
        text,
        "- tool: {} {}",
        plain(&words::name(&record.tool.name)),
        plain(&words::name(&record.tool.version))
    );
    if let Some(engine) = &record.engine {
        let version = engine.version.as_deref().unwrap_or("version unknown");
        let _ = writeln!(
            text,
            "- engine library: {} {}",
            plain(&words::name(&engine.backend)),
            plain(&words::name(version))
        );
    }
    let machine = &record.machine;
    let gpu = machine.gpu.as_deref().unwrap_or("no GPU");
    let cores = words::counted(machine.cores as u64, "core");
    let _ = writeln!(
        text,
        "- machine: {} {}, {cores}, {}",
        plain(&words::name(&machine.os)),
        plain(&words::name(&machine.arch)),
        plain(&words::name(gpu))
    );
    for stage in &record.stages {
        let _ = writeln!(
            text,
            "- stage {}: {}, {}",
            plain(&words::name(&stage.name)),
            stage.outcome.word(),
            words::duration(stage.ms)
        );
    }
}

pub fn row(text: &mut String, cells: &[String]) {
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

pub fn rule(text: &mut String, columns: usize) {
    let _ = writeln!(text, "|{}", " --- |".repeat(columns));
}

/// Text with everything Markdown or HTML could read into it escaped.
pub fn plain(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '!' => {
                escaped.push('\\');
                escaped.push(character);
            }
            _ => escaped.push(character),
        }
    }
    escaped
}

/// A name as a code span, or as escaped text when it holds what a code span would not keep in.
pub fn code(name: &str) -> String {
    let name = words::name(name);
    if name.is_empty() || name.contains(['`', '|', '<', '>', '&', '\\']) {
        plain(&name)
    } else {
        format!("`{name}`")
    }
}
