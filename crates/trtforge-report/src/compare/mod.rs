//! Runs side by side: what went in, what was decided, how accurate, how fast and how large each engine is.
//!
//! [`Comparison`] is a pure function of the records and of [`AccuracyChange`]s, which need the recorded answers and are worked out where
//! those are read. Its three views say the same: [`Comparison::terminal`], [`Comparison::markdown`] and [`Comparison::html`].

mod causes;
mod content;
mod document;
mod error;
mod frontier;
mod inputs;
mod markdown;
mod speed;
mod tell;
mod tensors;
mod terminal;

use serde::Serialize;

pub use document::{Block, Cell, Document, Part, Table, Tone};
pub use error::CompareError;
pub use frontier::on_frontier;
pub use inputs::{InputChange, KeyChange};
pub use speed::{Latency, SizeChange, SpeedChange};
pub use tensors::{DecisionChange, ScaleChanges};

use crate::record::number;
use crate::{Evaluation, Flips, Outcome, Place, Precision, RunRecord};

/// Layout of the JSON form.
pub const SCHEMA: u32 = 1;

/// One run, or one engine of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// What it is called here; different for every side.
    pub name: String,
    /// Its record.
    pub record: RunRecord,
    /// The one precision that is meant, where a plan was given.
    pub only: Option<Precision>,
}

impl Side {
    /// The precisions that are compared, FP32 first.
    pub fn precisions(&self) -> impl Iterator<Item = Precision> {
        self.record
            .precisions
            .keys()
            .copied()
            .filter(|precision| self.only.is_none_or(|only| only == *precision))
    }

    /// The figures of one metric.
    pub fn evaluation(&self, precision: Precision, metric: &str) -> Option<&Evaluation> {
        let one = self.record.precisions.get(&precision)?;
        one.metrics.iter().chain(&one.evaluation).find(|found| found.metric == metric)
    }

    fn headline(&self) -> Option<&str> {
        let first = |precision| self.record.precisions[&precision].evaluation.as_ref();
        self.precisions().find_map(first).map(|found| found.metric.as_str())
    }

    fn task(&self) -> Option<&str> {
        self.record.profile["task"]["kind"].as_str()
    }

    /// Fingerprint of the evaluation rows.
    pub fn data(&self) -> Option<&str> {
        self.record.inputs.evaluation.as_ref().map(|file| file.fingerprint.as_str())
    }
}

/// Which engine of `after` is compared with which of `before`: the same precision, or the two that were given.
pub fn pairs(before: &Side, after: &Side) -> Vec<(Precision, Precision)> {
    if let (Some(one), Some(other)) = (before.only, after.only) {
        return vec![(one, other)];
    }
    let has = |precision: &Precision| before.precisions().any(|found| found == *precision);
    after.precisions().filter(has).map(|precision| (precision, precision)).collect()
}

/// Proves that the runs ask the same question, and says by which metric they are compared; none where nothing was evaluated.
pub fn common_metric(sides: &[Side]) -> Result<Option<String>, CompareError> {
    let [baseline, others @ ..] = sides else {
        return Err(CompareError::TooFew { found: 0 });
    };
    if others.is_empty() {
        return Err(CompareError::TooFew { found: 1 });
    }
    for run in others {
        if let (Some(task), Some(other)) = (baseline.task(), run.task())
            && task != other
        {
            return Err(CompareError::OtherTask {
                baseline: baseline.name.clone(),
                task: crate::words::name(task),
                run: run.name.clone(),
                other: crate::words::name(other),
            });
        }
    }
    let Some(asked) = sides.iter().find(|side| side.headline().is_some()) else { return Ok(None) };
    let metric = asked.headline().unwrap_or_default();
    for run in sides.iter().filter(|side| side.headline().is_some()) {
        if run.precisions().all(|precision| run.evaluation(precision, metric).is_none()) {
            let metrics = |precision: Precision| run.record.precisions[&precision].metrics.iter();
            let mut others: Vec<String> = run
                .precisions()
                .flat_map(metrics)
                .map(|found| crate::words::name(&found.metric))
                .collect();
            others.dedup();
            return Err(CompareError::OtherMetric {
                baseline: asked.name.clone(),
                metric: crate::words::name(metric),
                run: run.name.clone(),
                others,
            });
        }
    }
    Ok(Some(metric.to_owned()))
}

/// What the interval of a change rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The same rows, answer by answer.
    Paired,
    /// Each model's own interval: the answers of single rows are not at hand.
    Unpaired,
    /// Nothing: the rows are not the same.
    NotComparable,
}

/// What can be said of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// Every row has the same answer.
    SameAnswers,
    /// The interval holds 0.
    WithinNoise,
    /// All of the interval is above 0.
    Better,
    /// All of it is below 0.
    Worse,
    /// Nothing can be said.
    Unknown,
}

impl Standing {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::SameAnswers => "same answers",
            Self::WithinNoise => "within noise",
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Unknown => "not comparable",
        }
    }

    fn tone(self) -> Tone {
        match self {
            Self::Better => Tone::Good,
            Self::Worse => Tone::Bad,
            Self::Unknown => Tone::Unsure,
            Self::SameAnswers | Self::WithinNoise => Tone::Plain,
        }
    }
}

/// The metric of one engine against that of the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AccuracyChange {
    /// The engine's precision.
    pub precision: Precision,
    /// That of the baseline's engine; the same unless two plans were given.
    pub against: Precision,
    /// The baseline's value.
    #[serde(with = "number")]
    pub before: f64,
    /// The run's value.
    #[serde(with = "number")]
    pub after: f64,
    /// `after − before`, positive is better; none where that says nothing.
    #[serde(with = "number")]
    pub change: Option<f64>,
    /// Two-sided interval of `change`.
    #[serde(with = "number")]
    pub interval: Option<[f64; 2]>,
    /// Confidence of the interval.
    #[serde(with = "number")]
    pub confidence: f64,
    /// Rows of the baseline and of the run.
    pub rows: [u64; 2],
    /// What the interval rests on.
    pub basis: Basis,
    /// What can be said.
    pub standing: Standing,
    /// Rows whose answer changed.
    pub flips: Option<Flips>,
    /// McNemar's exact test, two-sided.
    #[serde(with = "number")]
    pub p_value: Option<f64>,
    /// What a reader of the figures must know.
    pub note: Option<String>,
}

/// The gate's word on an engine in both runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerdictChange {
    /// The engine.
    pub precision: Precision,
    /// In the baseline.
    pub before: Option<Outcome>,
    /// In the run.
    pub after: Option<Outcome>,
}

/// One engine of one run: a line of the overview, and a point of the chart.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Engine {
    /// The run.
    pub run: String,
    /// The precision.
    pub precision: Precision,
    /// The metric, with its interval.
    pub evaluation: Option<Evaluation>,
    /// Whether its evaluation rows are those of the baseline.
    pub same_rows: bool,
    /// The gate's word.
    pub outcome: Option<Outcome>,
    /// Size of the engine, in bytes.
    pub plan_bytes: Option<u64>,
    /// Size of the graph, in bytes.
    pub onnx_bytes: Option<u64>,
    /// Time the engine took to build, once, in milliseconds.
    pub build_ms: Option<u64>,
    /// At the shape that most engines were measured at.
    pub latency: Option<Latency>,
    /// No engine of the same rows is both at least as accurate and at most as large, one of them strictly.
    pub best_for_size: bool,
    /// The same for latency.
    pub best_for_latency: bool,
}

/// One run against the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The run.
    pub run: String,
    /// What went in.
    pub inputs: Vec<InputChange>,
    /// Tool, libraries and machine, where they differ.
    pub environment: Vec<KeyChange>,
    /// Keys of the profile, where they differ.
    pub profile: Vec<KeyChange>,
    /// Tensors that became something else.
    pub decisions: Vec<DecisionChange>,
    /// Tensors that both runs decided alike.
    pub decisions_alike: u64,
    /// Thresholds.
    pub scales: ScaleChanges,
    /// The metric, engine by engine.
    pub accuracy: Vec<AccuracyChange>,
    /// Verdicts, engine by engine.
    pub verdicts: Vec<VerdictChange>,
    /// Sizes, file by file.
    pub sizes: Vec<SizeChange>,
    /// Latency, by engine and shape.
    pub speed: Vec<SpeedChange>,
    /// What is worse for sure, or cannot be told although the baseline has it; `--fail-on-regression` asks for this.
    pub regressions: Vec<String>,
}

/// Runs side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Layout version, [`SCHEMA`].
    pub schema: u32,
    /// The run that the others are compared with.
    pub baseline: String,
    /// What accuracy is measured by.
    pub metric: Option<String>,
    /// Every engine of every run, the baseline's first.
    pub engines: Vec<Engine>,
    /// Every other run against the baseline.
    pub differences: Vec<Difference>,
    /// Inputs of every run, in the order of `runs`.
    #[serde(skip)]
    sides: Vec<Side>,
}

impl Comparison {
    /// Compares.
    ///
    /// - `sides`: the baseline first;
    /// - `metric`: what [`common_metric`] found;
    /// - `accuracy`: for each other side, what is known of its engines' accuracy.
    pub fn of(sides: &[Side], metric: Option<String>, accuracy: Vec<Vec<AccuracyChange>>) -> Self {
        let Some((baseline, others)) = sides.split_first() else {
            let (baseline, engines, differences) = (String::new(), Vec::new(), Vec::new());
            return Self { schema: SCHEMA, baseline, metric, engines, differences, sides: vec![] };
        };
        let mut accuracy = accuracy.into_iter();
        let differences = others
            .iter()
            .map(|run| Difference::of(baseline, run, accuracy.next().unwrap_or_default()))
            .collect();
        Self {
            schema: SCHEMA,
            baseline: baseline.name.clone(),
            engines: engines(sides, metric.as_deref()),
            metric,
            differences,
            sides: sides.to_vec(),
        }
    }

    /// What is worse, of all runs.
    pub fn regressions(&self) -> impl Iterator<Item = (&str, &str)> {
        self.differences.iter().flat_map(|difference| {
            difference.regressions.iter().map(|what| (difference.run.as_str(), what.as_str()))
        })
    }

    /// The page.
    pub fn html(&self) -> String {
        crate::html::render_comparison(self, &content::of(self))
    }

    /// For a job page.
    pub fn markdown(&self) -> String {
        markdown::render(&content::of(self))
    }

    /// For a terminal of so many columns.
    pub fn terminal(&self, width: usize, color: bool) -> String {
        terminal::render(&content::of(self), width, color)
    }
}

impl Difference {
    fn of(before: &Side, after: &Side, accuracy: Vec<AccuracyChange>) -> Self {
        let pairs = pairs(before, after);
        let (decisions, decisions_alike) = tensors::decisions(before, after, &pairs);
        let mut difference = Self {
            run: after.name.clone(),
            inputs: inputs::inputs(&before.record, &after.record),
            environment: inputs::environment(&before.record, &after.record),
            profile: inputs::profile(&before.record, &after.record),
            decisions,
            decisions_alike,
            scales: tensors::scales(&before.record, &after.record),
            accuracy,
            verdicts: verdicts(before, after, &pairs),
            sizes: speed::sizes(before, after, &pairs),
            speed: speed::speed(before, after, &pairs),
            regressions: Vec::new(),
        };
        difference.regressions = regressions(before, after, &difference);
        difference
    }
}

fn verdicts(before: &Side, after: &Side, pairs: &[(Precision, Precision)]) -> Vec<VerdictChange> {
    let outcome = |side: &Side, precision| {
        side.record.precisions[&precision].verdict.as_ref().map(|verdict| verdict.outcome)
    };
    let change = |&(against, precision): &(Precision, Precision)| VerdictChange {
        precision,
        before: outcome(before, against),
        after: outcome(after, precision),
    };
    pairs.iter().map(change).filter(|change| change.before != change.after).collect()
}

/// What is worse beyond doubt, refused although it passed, gone, or not to be told.
fn regressions(before: &Side, after: &Side, found: &Difference) -> Vec<String> {
    let mut worse = Vec::new();
    for one in &found.accuracy {
        let name = one.precision.name();
        match one.standing {
            Standing::Worse => worse.push(format!("{name}: {}", tell::change(one))),
            Standing::Unknown => worse.push(format!(
                "{name}: whether accuracy is worse cannot be told: {}",
                one.note.as_deref().unwrap_or("the rows are not the same")
            )),
            _ => {}
        }
    }
    let passes = |side: &Side, precision: Precision| {
        let verdict = side.record.precisions.get(&precision)?.verdict.as_ref()?;
        Some(verdict.lets_through())
    };
    for (against, precision) in pairs(before, after) {
        if passes(before, against) == Some(true) && passes(after, precision) == Some(false) {
            worse.push(format!("{}: the gate refuses it, and passed it before", precision.name()));
        }
    }
    if before.only.is_none() && after.only.is_none() {
        let gone = before.precisions().filter(|one| !after.record.precisions.contains_key(one));
        worse.extend(gone.map(|precision| format!("{}: it is gone", precision.name())));
    }
    worse.extend(found.speed.iter().filter(|one| one.standing == Standing::Worse).map(tell::speed));
    worse
}

fn engines(sides: &[Side], metric: Option<&str>) -> Vec<Engine> {
    let shape = speed::usual_shape(sides);
    let rows = sides.first().and_then(Side::data);
    let mut engines: Vec<Engine> = sides
        .iter()
        .flat_map(|side| {
            side.precisions().map(move |precision| {
                let one = &side.record.precisions[&precision];
                Engine {
                    run: side.name.clone(),
                    precision,
                    evaluation: metric.and_then(|m| side.evaluation(precision, m)).cloned(),
                    same_rows: rows.is_some() && side.data() == rows,
                    outcome: one.verdict.as_ref().map(|verdict| verdict.outcome),
                    plan_bytes: one.plan_bytes,
                    onnx_bytes: one.onnx_bytes,
                    build_ms: one.build_ms,
                    latency: shape.and_then(|shape| speed::latency(side, precision, shape)),
                    best_for_size: false,
                    best_for_latency: false,
                }
            })
        })
        .collect();
    frontier::mark(&mut engines);
    engines
}

/// Where two evaluations ran, when that is not the same place.
pub fn other_place(before: &Evaluation, after: &Evaluation) -> Option<String> {
    let words = |place| match place {
        Place::Device => "on a device",
        Place::Reference => "on the reference executor",
    };
    (before.evaluated_on != after.evaluated_on).then(|| {
        format!(
            "the baseline was evaluated {}, the run {}",
            words(before.evaluated_on),
            words(after.evaluated_on)
        )
    })
}
