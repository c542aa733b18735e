//! The `gate:` section: when an engine is good enough.

use std::path::{Path, PathBuf};

use trtforge_evaluate::{Gate, Metric, OnInconclusive, Rule, Scope, Scored, Tolerance};

use super::Precision;
use super::decode::{Mistakes, Section, scalar_text};
use super::error::ProfileError;
use super::fallback::{self, FallbackSection};
use super::read::{empty, optional, section};
use super::tree::{self, Node, Value};

/// The drop that is tolerated where a profile does not say.
const USUAL_DROP: f64 = 0.005;

/// `gate:`
#[derive(Debug, Clone, PartialEq)]
pub struct GateSection {
    /// Metrics with their own limits, the headline first; empty means the usual metric of the task.
    pub metrics: Vec<MetricLimits>,
    /// Largest tolerated drop of metrics that have none of their own.
    pub tolerance: Tolerance,
    /// Least value of the headline metric.
    pub min_value: Option<f64>,
    /// Largest drop of each class.
    pub per_class: Option<PartLimits>,
    /// Largest drop within each value of a data field.
    pub per_slice: Vec<(String, PartLimits)>,
    /// Largest share of changed answers.
    pub max_flip_rate: Option<f64>,
    /// Largest mean absolute difference of logits.
    pub max_logit_divergence: Option<f64>,
    /// Least share of the arithmetic in INT8, on the device.
    pub require_int8_share: Option<f64>,
    /// Least speed-up against FP32, on the device.
    pub min_speedup: Option<f64>,
    /// One-sided confidence of the verdict.
    pub confidence: f64,
    /// Whether too little evidence is accepted.
    pub accept_inconclusive: bool,
    /// Whether a verdict needs the engine itself to have run.
    pub require_device: bool,
    /// Whether a baseline that answers no better than chance is tolerated.
    pub allow_chance_baseline: bool,
    /// The earlier run to compare with, instead of FP32 of this one.
    pub baseline: Option<BaselineRun>,
    /// How the most INT8 that passes is searched for when INT8 as a whole is refused; none is `on_reject: fail`.
    pub fallback: Option<FallbackSection>,
}

/// One metric with its limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MetricLimits {
    /// Which.
    pub metric: Metric,
    /// Instead of the gate's.
    pub tolerance: Option<Tolerance>,
    /// Least value.
    pub min_value: Option<f64>,
}

/// Limits of a part of the rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartLimits {
    /// Largest drop.
    pub tolerance: Tolerance,
    /// Instead of the gate's own: small parts seldom prove anything.
    pub on_inconclusive: Option<OnInconclusive>,
}

/// `gate.baseline`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaselineRun {
    /// Its output folder.
    pub run: PathBuf,
    /// Which of its precisions; none means the candidate's own.
    pub precision: Option<String>,
}

impl GateSection {
    /// The gate for these rows.
    pub fn gate(&self, scored: &Scored) -> Gate {
        let usual =
            [MetricLimits { metric: scored.metrics()[0], tolerance: None, min_value: None }];
        let metrics = if self.metrics.is_empty() { &usual } else { self.metrics.as_slice() };
        let drop = |metric, tolerance, scope, on_inconclusive| Rule::MaxDrop {
            metric,
            tolerance,
            scope,
            on_inconclusive,
        };
        let mut rules = Vec::new();
        for (index, limits) in metrics.iter().enumerate() {
            let tolerance = limits.tolerance.unwrap_or(self.tolerance);
            rules.push(drop(limits.metric, tolerance, Scope::Whole, None));
            let shared = self.min_value.filter(|_| index == 0);
            if let Some(min) = limits.min_value.or(shared) {
                rules.push(Rule::MinValue { metric: limits.metric, min });
            }
        }
        let headline = metrics[0].metric;
        if let Some(part) = self.per_class {
            rules.push(drop(headline, part.tolerance, Scope::EachClass, part.on_inconclusive));
        }
        for (field, part) in &self.per_slice {
            let scope = Scope::EachSlice(field.clone());
            rules.push(drop(headline, part.tolerance, scope, part.on_inconclusive));
        }
        rules.extend(self.max_flip_rate.map(Rule::MaxFlipRate));
        rules.extend(self.max_logit_divergence.map(Rule::MaxLogitDivergence));
        rules.extend(self.require_device.then_some(Rule::RequireDevice));
        rules.extend(self.require_int8_share.map(Rule::RequireInt8Share));
        rules.extend(self.min_speedup.map(Rule::MinSpeedup));
        Gate {
            rules,
            confidence: self.confidence,
            on_inconclusive: if self.accept_inconclusive {
                OnInconclusive::Accept
            } else {
                OnInconclusive::Refuse
            },
            allow_chance_baseline: self.allow_chance_baseline,
        }
    }

    /// The metrics to measure, the headline first.
    pub fn measured(&self, scored: &Scored) -> Vec<Metric> {
        let mut metrics: Vec<Metric> = self.metrics.iter().map(|limits| limits.metric).collect();
        for &metric in scored.metrics() {
            if !metrics.contains(&metric) {
                metrics.push(metric);
            }
        }
        metrics
    }

    /// The section of a recorded profile or of the profile at `path`, with `gate.…` assignments applied.
    pub fn reread(
        recorded: &serde_json::Value,
        path: Option<&Path>,
        assignments: &[String],
    ) -> Result<Self, ProfileError> {
        let (text, source, folder) = match path {
            None => {
                let gate = serde_json::json!({ "gate": recorded["gate"] });
                (gate.to_string(), "run.json".to_owned(), PathBuf::new())
            }
            Some(path) => {
                let unreadable = |error: std::io::Error| ProfileError::Unreadable {
                    path: path.display().to_string(),
                    reason: error.to_string(),
                };
                let text = std::fs::read_to_string(path).map_err(unreadable)?;
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                (text, name, path.parent().map(Path::to_owned).unwrap_or_default())
            }
        };
        let mut root = tree::parse(&text, &source)?;
        for assignment in assignments {
            if !assignment.starts_with("gate.") {
                return Err(ProfileError::Assignment {
                    assignment: assignment.clone(),
                    reason: "a finished run can only be judged under another `gate`".to_owned(),
                });
            }
            tree::set(&mut root, assignment)?;
        }
        let Value::Map(mut entries) = root.value else {
            return Self::reread(&serde_json::Value::Null, None, &[]);
        };
        entries.retain(|(key, _)| key == "gate");
        let root = Node { value: Value::Map(entries), place: root.place };
        let mistakes = Mistakes::new(&source);
        let top = Section::open(&root, "", &["gate"], &mistakes);
        let read = top.and_then(|top| read(&top, &folder, &mistakes));
        mistakes.finish(read)
    }
}

const KNOWN: [&str; 18] = [
    "metric",
    "metrics",
    "max_drop",
    "max_relative_drop",
    "min_value",
    "per_class",
    "per_slice",
    "max_flip_rate",
    "max_logit_divergence",
    "require_device",
    "require_int8_share",
    "min_speedup",
    "confidence",
    "on_reject",
    "fallback",
    "on_inconclusive",
    "allow_chance_baseline",
    "baseline",
];

/// Reads the section.
pub(super) fn read(
    top: &Section<'_>,
    folder: &Path,
    mistakes: &Mistakes<'_>,
) -> Option<GateSection> {
    let empty = empty();
    let gate = section(top, "gate", &KNOWN, &empty, mistakes)?;
    let fallback = fallback::read(&gate, mistakes);
    let metrics = read_metrics(&gate, mistakes);
    let tolerance = read_tolerance(&gate);
    let per_class = match gate.get("per_class") {
        Some(node) => read_part(node, "gate.per_class", mistakes).map(Some),
        None => Some(None),
    };
    let per_slice = read_slices(&gate, mistakes);
    let baseline = read_baseline(&gate, folder, mistakes);
    let share = |key| maybe(&gate, key, 0.0..=1.0);
    let (flips, int8) = (share("max_flip_rate"), share("require_int8_share"));
    let divergence = maybe(&gate, "max_logit_divergence", 0.0..=1e6);
    let speedup = maybe(&gate, "min_speedup", 0.01..=1e6);
    let min_value = maybe(&gate, "min_value", -1.0..=1.0);
    let confidence = optional(&gate, "confidence", |g| g.number("confidence", 0.5..=0.9999), 0.95);
    let accept =
        optional(&gate, "on_inconclusive", |g| g.choice("on_inconclusive", &WORDS), REFUSE);
    let device = optional(&gate, "require_device", |g| g.boolean("require_device"), false);
    let chance =
        optional(&gate, "allow_chance_baseline", |g| g.boolean("allow_chance_baseline"), false);
    Some(GateSection {
        metrics: metrics?,
        tolerance: tolerance?.unwrap_or(Tolerance::Absolute(USUAL_DROP)),
        min_value: min_value?,
        per_class: per_class?,
        per_slice: per_slice?,
        max_flip_rate: flips?,
        max_logit_divergence: divergence?,
        require_int8_share: int8?,
        min_speedup: speedup?,
        confidence: confidence?,
        accept_inconclusive: accept? == OnInconclusive::Accept,
        require_device: device?,
        allow_chance_baseline: chance?,
        baseline: baseline?,
        fallback: fallback?,
    })
}

const REFUSE: OnInconclusive = OnInconclusive::Refuse;
const WORDS: [(&str, OnInconclusive); 2] =
    [("fail", OnInconclusive::Refuse), ("accept", OnInconclusive::Accept)];

/// What was read, or `None` after a reported mistake; what may be absent is an `Option` in it.
type Read<T> = Option<T>;

/// A number that may be absent.
fn maybe(
    section: &Section<'_>,
    key: &str,
    range: std::ops::RangeInclusive<f64>,
) -> Read<Option<f64>> {
    if section.get(key).is_none() { Some(None) } else { section.number(key, range).map(Some) }
}

/// `max_drop` or `max_relative_drop`, never both.
fn read_tolerance(section: &Section<'_>) -> Read<Option<Tolerance>> {
    let absolute = maybe(section, "max_drop", 0.0..=0.999);
    let relative = maybe(section, "max_relative_drop", 0.0..=0.999);
    match (absolute?, relative?) {
        (Some(_), Some(_)) => {
            section.refuse(
                "max_relative_drop",
                "only one of `max_drop` and `max_relative_drop`",
                "`max_drop` is in the metric's units, `max_relative_drop` a share of the baseline's value",
            );
            None
        }
        (Some(drop), None) => Some(Some(Tolerance::Absolute(drop))),
        (None, Some(share)) => Some(Some(Tolerance::Relative(share))),
        (None, None) => Some(None),
    }
}

/// `metric` (one name or several) or `metrics` (with their own limits).
fn read_metrics(gate: &Section<'_>, mistakes: &Mistakes<'_>) -> Option<Vec<MetricLimits>> {
    match (gate.get("metric"), gate.get("metrics")) {
        (Some(_), Some(_)) => {
            gate.refuse(
                "metrics",
                "only one of `metric` and `metrics`",
                "`metrics` lists metrics that have limits of their own",
            );
            None
        }
        (Some(node), None) => {
            let names = match node.value {
                Value::List(_) => gate.texts("metric")?,
                _ => vec![gate.text("metric")?],
            };
            let metric = |name: &String| metric(gate, "metric", name);
            let metrics: Vec<Metric> = names.iter().map(metric).collect::<Option<_>>()?;
            let limits = |metric| MetricLimits { metric, tolerance: None, min_value: None };
            distinct(gate, "metric", metrics.into_iter().map(limits).collect())
        }
        (None, Some(node)) => {
            let Value::List(items) = &node.value else {
                gate.refuse(
                    "metrics",
                    "a list",
                    "write `metrics: [{ metric: f1, max_drop: 0.01 }]`",
                );
                return None;
            };
            let read = |(index, node): (usize, &Node)| {
                let path = format!("gate.metrics[{index}]");
                let known = ["metric", "max_drop", "max_relative_drop", "min_value"];
                let one = Section::open(node, &path, &known, mistakes)?;
                let name = one.require_text("metric", "one of the metrics, such as `macro-f1`")?;
                let (tolerance, min_value) =
                    (read_tolerance(&one), maybe(&one, "min_value", -1.0..=1.0));
                Some(MetricLimits {
                    metric: metric(&one, "metric", &name)?,
                    tolerance: tolerance?,
                    min_value: min_value?,
                })
            };
            let read: Vec<Option<MetricLimits>> = items.iter().enumerate().map(read).collect();
            distinct(gate, "metrics", read.into_iter().collect::<Option<_>>()?)
        }
        (None, None) => Some(Vec::new()),
    }
}

fn distinct(
    gate: &Section<'_>,
    key: &str,
    metrics: Vec<MetricLimits>,
) -> Option<Vec<MetricLimits>> {
    let repeated = (1..metrics.len())
        .any(|at| metrics[..at].iter().any(|one| one.metric == metrics[at].metric));
    if repeated || metrics.is_empty() {
        gate.refuse(key, "one or more different metrics", "name each metric once");
        return None;
    }
    Some(metrics)
}

fn metric(section: &Section<'_>, key: &str, name: &str) -> Option<Metric> {
    let parsed = name.parse().ok();
    if parsed.is_none() {
        let known = Metric::ALL.map(Metric::name);
        let help = match super::decode::nearest(name, &known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "choose one that fits `task.kind`".to_owned(),
        };
        section.refuse(key, &format!("one of {}", known.join(", ")), &help);
    }
    parsed
}

fn read_part(node: &Node, path: &str, mistakes: &Mistakes<'_>) -> Option<PartLimits> {
    let known = ["max_drop", "max_relative_drop", "on_inconclusive"];
    let part = Section::open(node, path, &known, mistakes)?;
    limits(&part)
}

fn limits(part: &Section<'_>) -> Option<PartLimits> {
    let tolerance = read_tolerance(part)?;
    if tolerance.is_none() {
        part.missing("max_drop", "the largest drop, for example `max_drop: 0.02`");
    }
    let on_inconclusive = match part.get("on_inconclusive") {
        Some(_) => Some(part.choice("on_inconclusive", &WORDS)?),
        None => None,
    };
    Some(PartLimits { tolerance: tolerance?, on_inconclusive })
}

/// One mapping or a list of them.
fn read_slices(gate: &Section<'_>, mistakes: &Mistakes<'_>) -> Option<Vec<(String, PartLimits)>> {
    let Some(node) = gate.get("per_slice") else { return Some(Vec::new()) };
    let nodes = match &node.value {
        Value::List(items) => items.iter().collect(),
        _ => vec![node],
    };
    let read = |node: &Node| {
        let known = ["field", "max_drop", "max_relative_drop", "on_inconclusive"];
        let slice = Section::open(node, "gate.per_slice", &known, mistakes)?;
        let field = slice.require_text("field", "a field of the evaluation data");
        let limits = limits(&slice);
        Some((field?, limits?))
    };
    let read: Vec<Option<(String, PartLimits)>> = nodes.into_iter().map(read).collect();
    read.into_iter().collect()
}

/// A run folder, or `{ run, precision }`.
fn read_baseline(
    gate: &Section<'_>,
    folder: &Path,
    mistakes: &Mistakes<'_>,
) -> Read<Option<BaselineRun>> {
    let Some(node) = gate.get("baseline") else { return Some(None) };
    if scalar_text(&node.value).is_some() {
        let run = gate.text("baseline")?;
        // `fp32` says what is the case anyway.
        let run = (run != "fp32").then(|| BaselineRun { run: folder.join(run), precision: None });
        return Some(run);
    }
    let section = Section::open(node, "gate.baseline", &["run", "precision"], mistakes)?;
    let run = section.require_text("run", "the output folder of an earlier build");
    let names = ["fp32", Precision::Fp16.name(), Precision::Int8.name()].map(|name| (name, name));
    let precision = match section.get("precision") {
        Some(_) => Some(section.choice("precision", &names)?.to_owned()),
        None => None,
    };
    Some(Some(BaselineRun { run: folder.join(run?), precision }))
}
