//! The closing summary of a run: what a person reads at a glance.

use std::fmt::Write as _;

use crate::record::relative_name;
use crate::{Outcome, Precision, PrecisionRecord, RunOutcome, RunRecord, words};

/// How the terminal view may look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalStyle {
    /// Whether to use ANSI colours; nothing is said by colour alone.
    pub color: bool,
    /// Columns available. Below 80 the table becomes one block per precision.
    pub width: usize,
    /// The output folder as the user wrote it, put before the files' paths; none leaves them relative to it.
    pub folder: Option<String>,
}

impl Default for TerminalStyle {
    fn default() -> Self {
        Self { color: false, width: 80, folder: None }
    }
}

/// Columns the full table takes.
const TABLE_WIDTH: usize = 80;

/// Warnings listed; the report has them all.
const WARNINGS_SHOWN: usize = 5;

/// The closing summary: verdict, a table of the precisions, what was refused and why, padding, warnings, files.
pub fn render_terminal(record: &RunRecord, style: &TerminalStyle) -> String {
    let page = Page { record, style, width: style.width.clamp(30, 200) };
    let mut text = String::new();
    page.headline(&mut text);
    page.precisions(&mut text);
    page.proof(&mut text);
    page.refusals(&mut text);
    page.hurts(&mut text);
    page.fallback(&mut text);
    page.padding(&mut text);
    page.warnings(&mut text);
    page.files(&mut text);
    text
}

struct Page<'a> {
    record: &'a RunRecord,
    style: &'a TerminalStyle,
    width: usize,
}

#[derive(Clone, Copy)]
enum Paint {
    Bold,
    Dim,
    Good,
    Bad,
    Unsure,
}

impl Paint {
    fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Accepted => Self::Good,
            Outcome::Rejected => Self::Bad,
            Outcome::Inconclusive => Self::Unsure,
        }
    }

    fn code(self) -> &'static str {
        match self {
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Good => "32",
            Self::Bad => "1;31",
            Self::Unsure => "33",
        }
    }
}

impl Page<'_> {
    fn paint(&self, paint: Paint, text: &str) -> String {
        if self.style.color {
            format!("\u{1b}[{}m{text}\u{1b}[0m", paint.code())
        } else {
            text.to_owned()
        }
    }

    fn headline(&self, text: &mut String) {
        let (mark, paint) = match self.record.outcome() {
            RunOutcome::Accepted => ("✓", Paint::Good),
            RunOutcome::Refused => ("✗", Paint::Bad),
            RunOutcome::NotJudged => ("·", Paint::Dim),
        };
        let name = words::shorten(&words::run_name(self.record), self.width / 2);
        let name = self.paint(Paint::Bold, &name);
        let _ =
            writeln!(text, "{} {name}: {}", self.paint(paint, mark), words::headline(self.record));
    }

    fn precisions(&self, text: &mut String) {
        if self.record.precisions.is_empty() {
            return;
        }
        text.push('\n');
        if self.width >= TABLE_WIDTH {
            self.table(text);
        } else {
            self.blocks(text);
        }
        if let Some(note) = words::place_note(self.record) {
            let _ = writeln!(text, "{}", self.paint(Paint::Dim, &note));
        }
    }

    /// What the INT8 engine itself says of the precision it runs in.
    fn proof(&self, text: &mut String) {
        let int8 = self.record.precisions.get(&Precision::Int8);
        if let Some(proof) = int8.and_then(|one| one.proof.as_ref()) {
            let line = words::shorten(&format!("INT8 engine: {}", proof.summary), 2 * self.width);
            let _ = writeln!(text, "{}", self.paint(Paint::Dim, &line));
        }
    }

    fn table(&self, text: &mut String) {
        let metric = words::metric(self.record);
        let title = match words::evaluated(self.record).next() {
            Some((_, found)) => format!("{metric} [{}]", words::confidence(found.confidence)),
            None => metric,
        };
        let head = format!(
            "{:<4}  {:>8}  {:>8}  {:<23}  {:>6}  {:>7}  verdict",
            "",
            "ONNX",
            "engine",
            words::shorten(&title, 23),
            "rows",
            "drop"
        );
        let _ = writeln!(text, "{}", self.paint(Paint::Dim, &head));
        for (&precision, one) in &self.record.precisions {
            let cells = Cells::new(precision, one);
            let _ = writeln!(
                text,
                "{:<4}  {:>8}  {:>8}  {:<23}  {:>6}  {:>7}  {}",
                precision.key(),
                cells.onnx,
                cells.engine,
                cells.metric,
                cells.rows,
                cells.drop,
                self.verdict(&cells)
            );
        }
    }

    fn blocks(&self, text: &mut String) {
        let metric = words::metric(self.record);
        for (&precision, one) in &self.record.precisions {
            let cells = Cells::new(precision, one);
            let _ = writeln!(text, "{}  {}", precision.key(), self.verdict(&cells));
            let _ = writeln!(text, "  {metric} {}", cells.metric);
            let _ = writeln!(text, "  rows {}, drop {}", cells.rows, cells.drop);
            let _ = writeln!(text, "  ONNX {}, engine {}", cells.onnx, cells.engine);
        }
    }

    fn verdict(&self, cells: &Cells) -> String {
        match cells.outcome {
            Some(outcome) => self.paint(Paint::of(outcome), outcome.word()),
            None => self.paint(Paint::Dim, cells.unjudged),
        }
    }

    fn refusals(&self, text: &mut String) {
        for (precision, one, verdict) in
            words::judged(self.record).filter(|(.., v)| v.outcome != Outcome::Accepted)
        {
            let mut reason = words::finding(self.record, one, verdict);
            if let Some(rows) = words::rows_needed_sentence(verdict) {
                reason = format!("{reason} {rows}");
            }
            text.push('\n');
            self.entry(text, &format!("{}: ", precision.name()), &reason);
            for rule in verdict.rules.iter().filter(|rule| !rule.passes) {
                // What the verdict itself says is not said again.
                if !words::says(&verdict.reason, &rule.reason) {
                    let title =
                        format!("  {} ({}): ", words::name(&rule.title()), rule.outcome.word());
                    self.entry(text, &title, &words::sentence(&rule.reason));
                }
            }
        }
    }

    /// The parts to look at first.
    fn hurts(&self, text: &mut String) {
        if let Some(hurts) = words::hurts(self.record) {
            text.push('\n');
            self.entry(text, "", &hurts);
        }
    }

    /// The path of a search, and how much stays INT8.
    fn fallback(&self, text: &mut String) {
        let Some(fallback) = &self.record.fallback else { return };
        text.push('\n');
        self.entry(text, "", &format!("{}.", words::fallback(fallback)));
        for step in fallback.steps.iter().filter(|step| step.look.is_some()) {
            let Some(look) = &step.look else { continue };
            let verdict = self.paint(Paint::of(look.outcome), look.outcome.word());
            let _ = writeln!(
                text,
                "  {:>3} returned  {:>7} INT8  drop {:>8}  {verdict}",
                step.returned.len(),
                words::share(step.arithmetic.share),
                words::figure(look.drop),
            );
        }
        let chosen = fallback.chosen.and_then(|index| fallback.steps.get(index as usize));
        for node in chosen.iter().flat_map(|step| &step.returned) {
            let _ = writeln!(text, "  FP16 again: {}", words::one_line(node));
        }
        self.entry(text, "  ", &words::sentence(&fallback.ended));
    }

    fn padding(&self, text: &mut String) {
        let Some(shapes) = self.record.shapes.as_ref().filter(|shapes| !shapes.padding.is_empty())
        else {
            return;
        };
        text.push('\n');
        let _ = writeln!(
            text,
            "{}",
            self.paint(Paint::Dim, "padding, as a share of the tokens computed")
        );
        let modes: Vec<String> = shapes
            .padding
            .iter()
            .map(|figure| words::shorten(&words::one_line(&figure.mode), self.width - 12))
            .collect();
        let longest = modes.iter().map(|mode| mode.chars().count()).max().unwrap_or(0);
        for (mode, figure) in modes.iter().zip(&shapes.padding) {
            let _ = writeln!(text, "  {mode:<longest$}  {:>7}", words::share(figure.wasted_share));
        }
    }

    fn warnings(&self, text: &mut String) {
        let warnings = &self.record.warnings;
        if warnings.is_empty() {
            return;
        }
        text.push('\n');
        let title = words::counted(warnings.len() as u64, "warning");
        let _ = writeln!(text, "{}", self.paint(Paint::Unsure, &title));
        for warning in warnings.iter().take(WARNINGS_SHOWN) {
            self.entry(text, "  - ", &words::shorten(&words::sentence(warning), 400));
        }
        if warnings.len() > WARNINGS_SHOWN {
            let _ = writeln!(text, "  and {} more in the report", warnings.len() - WARNINGS_SHOWN);
        }
    }

    fn files(&self, text: &mut String) {
        let mut files: Vec<(&str, String)> = Vec::new();
        for one in self.record.precisions.values() {
            if let Some(plan) = &one.plan {
                files
                    .push((if one.published { "published" } else { "kept back" }, self.path(plan)));
            }
        }
        for one in self.record.precisions.values() {
            if let Some(onnx) = &one.onnx {
                files.push(("ONNX", self.path(onnx)));
            }
        }
        if files.is_empty() {
            return;
        }
        files.push(("report", self.path("report.html")));
        text.push('\n');
        for (role, path) in files {
            let _ = writeln!(text, "{} {path}", self.paint(Paint::Dim, &format!("{role:<9}")));
        }
    }

    /// A path the user can copy: never shortened, whatever the width.
    fn path(&self, path: &str) -> String {
        let path = words::one_line(relative_name(path));
        match &self.style.folder {
            Some(folder) => format!("{}/{path}", words::one_line(folder).trim_end_matches('/')),
            None => path,
        }
    }

    /// `label` and `body`, wrapped to the width, continued under the body's start.
    fn entry(&self, text: &mut String, label: &str, body: &str) {
        let indent = if label.len() > 6 { 2 } else { label.chars().count() };
        let mut line = label.to_owned();
        let mut used = label.chars().count();
        let mut first = true;
        for word in body.split(' ').filter(|word| !word.is_empty()) {
            let length = word.chars().count();
            if !first && used + 1 + length > self.width {
                let _ = writeln!(text, "{line}");
                line = " ".repeat(indent);
                used = indent;
                first = true;
            }
            if !first {
                line.push(' ');
                used += 1;
            }
            line.push_str(word);
            used += length;
            first = false;
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

/// The texts of one table row.
struct Cells {
    onnx: String,
    engine: String,
    metric: String,
    rows: String,
    drop: String,
    outcome: Option<Outcome>,
    unjudged: &'static str,
}

impl Cells {
    fn new(precision: Precision, one: &PrecisionRecord) -> Self {
        let none = || "-".to_owned();
        let evaluation = one.evaluation.as_ref();
        Self {
            onnx: one.onnx_bytes.map_or_else(none, words::bytes),
            engine: one.plan_bytes.map_or_else(none, words::bytes),
            metric: evaluation.map_or_else(none, |found| {
                let [low, high] = found.interval;
                if [found.value, low, high].iter().all(|value| value.is_finite()) {
                    format!("{:.4} [{low:.4}, {high:.4}]", found.value)
                } else {
                    words::figure(found.value)
                }
            }),
            rows: evaluation.map_or_else(none, |found| found.count.to_string()),
            drop: one.verdict.as_ref().map_or_else(none, |verdict| {
                if verdict.drop.is_finite() {
                    words::figure(verdict.drop)
                } else {
                    "NaN".to_owned()
                }
            }),
            outcome: one.verdict.as_ref().map(|verdict| verdict.outcome),
            unjudged: if precision == Precision::Fp32 { "baseline" } else { "not judged" },
        }
    }
}
