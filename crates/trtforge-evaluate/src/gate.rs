//! The accuracy gate: may a candidate replace the baseline?

use serde::{Deserialize, Serialize};

use crate::error::EvaluateError;
use crate::metric::Metric;
use crate::outcome::Outcome;
use crate::paired::{Discordance, Flips, Paired, drop_interval};
use crate::reason;

/// What a candidate has to prove.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// What must not drop.
    pub metric: Metric,
    /// The largest drop that is acceptable, from 0 up to (not including) 1.
    pub max_drop: f64,
    /// How sure an acceptance must be, one-sided, from 0.5 up to (not including) 1.
    pub confidence: f64,
    /// What to do when the rows cannot tell.
    pub on_inconclusive: OnInconclusive,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            metric: Metric::Accuracy,
            max_drop: 0.005,
            confidence: 0.95,
            on_inconclusive: OnInconclusive::Refuse,
        }
    }
}

/// Whether an inconclusive candidate is let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnInconclusive {
    /// Too little evidence is a refusal.
    #[default]
    Refuse,
    /// Too little evidence against it is enough.
    Accept,
}

/// What the rows say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GateOutcome {
    /// The drop is within the limit, at the gate's confidence.
    Accepted,
    /// The measured drop is above the limit, or a logit is not finite.
    Rejected,
    /// The measured drop is within the limit, but too few rows say so.
    Inconclusive,
}

/// The gate's answer with its evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// What the rows say.
    pub outcome: GateOutcome,
    /// Whether the candidate may be published: accepted, or inconclusive under `on_inconclusive: accept`.
    pub publish: bool,
    /// What was compared.
    pub metric: Metric,
    /// The baseline's value.
    pub baseline: f64,
    /// The candidate's value.
    pub candidate: f64,
    /// Rows.
    pub count: usize,
    /// `baseline` − `candidate`; negative when the candidate is better.
    pub drop: f64,
    /// Confidence interval of the drop, each end one-sided at `confidence`; the upper end decides.
    pub interval: [f64; 2],
    /// The gate's limit.
    pub max_drop: f64,
    /// The gate's confidence.
    pub confidence: f64,
    /// Why, in one sentence with its numbers.
    pub reason: String,
    /// For an inconclusive verdict: about how many rows in all would decide if the models kept differing as they do; absent when no number
    /// would.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rows_needed: Option<u64>,
    /// Rows by who is right.
    pub paired: Paired,
    /// Rows whose prediction changed.
    pub flips: Flips,
    /// Rows without a finite prediction: baseline, candidate.
    pub not_finite: [usize; 2],
    /// What makes the comparison weaker than it looks, in words.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub notes: Vec<String>,
}

/// Judges a candidate by the same rows as its baseline.
///
/// Rejected when the drop exceeds `max_drop` or a logit of either model is not finite; accepted when the one-sided confidence bound of the
/// paired drop is within `max_drop`; else inconclusive.
pub fn judge(
    gate: &Gate,
    baseline: &[Outcome],
    candidate: &[Outcome],
) -> Result<Verdict, EvaluateError> {
    gate.check()?;
    same_rows(baseline, candidate)?;
    let Metric::Accuracy = gate.metric;
    let paired = Paired::of(baseline, candidate);
    let not_finite = [baseline, candidate]
        .map(|rows| rows.iter().filter(|outcome| outcome.class.is_none()).count());
    let outcome = decide(gate, &paired, not_finite);
    let inconclusive = outcome == GateOutcome::Inconclusive;
    let share = |right: usize| right as f64 / paired.count() as f64;
    let mut verdict = Verdict {
        outcome,
        publish: outcome == GateOutcome::Accepted
            || inconclusive && gate.on_inconclusive == OnInconclusive::Accept,
        metric: gate.metric,
        baseline: share(paired.both_right + paired.baseline_only),
        candidate: share(paired.both_right + paired.candidate_only),
        count: paired.count(),
        drop: paired.drop(),
        interval: drop_interval(&paired, gate.confidence),
        max_drop: gate.max_drop,
        confidence: gate.confidence,
        reason: String::new(),
        rows_needed: if inconclusive { rows_needed(gate, &paired) } else { None },
        paired,
        flips: Flips::of(baseline, candidate),
        not_finite,
        notes: reason::notes(baseline, candidate),
    };
    verdict.reason = reason::of(&verdict);
    Ok(verdict)
}

impl Gate {
    /// Checks the numbers; a profile does so before any work.
    pub fn check(&self) -> Result<(), EvaluateError> {
        let gate = |field, value, range| Err(EvaluateError::Gate { field, value, range });
        if !(0.0..1.0).contains(&self.max_drop) {
            return gate(
                "max_drop",
                self.max_drop,
                "at least 0 and below 1 (a share, not percent)",
            );
        }
        if !(0.5..1.0).contains(&self.confidence) {
            return gate("confidence", self.confidence, "at least 0.5 and below 1");
        }
        Ok(())
    }
}

fn same_rows(baseline: &[Outcome], candidate: &[Outcome]) -> Result<(), EvaluateError> {
    if baseline.len() != candidate.len() {
        let (left, right) = (baseline.len(), candidate.len());
        let (left_what, right_what) = ("the baseline", "the candidate");
        return Err(EvaluateError::RowCount { left_what, left, right_what, right });
    }
    if baseline.is_empty() {
        return Err(EvaluateError::NoRows);
    }
    let labels = baseline.iter().zip(candidate).map(|(before, after)| (before.label, after.label));
    match labels.enumerate().find(|(_, (before, after))| before != after) {
        None => Ok(()),
        Some((row, (baseline, candidate))) => {
            Err(EvaluateError::OtherRows { row, baseline, candidate })
        }
    }
}

fn decide(gate: &Gate, paired: &Paired, not_finite: [usize; 2]) -> GateOutcome {
    let rows = Discordance::from(*paired);
    // In rows, where a drop of exactly `max_drop` is a whole number; the sliver absorbs the rounding of `max_drop` itself.
    let above = rows.lost - rows.won > gate.max_drop * rows.rows * (1.0 + 1e-12);
    if above || not_finite != [0, 0] {
        GateOutcome::Rejected
    } else if rows.rules_out(gate.max_drop, gate.confidence) {
        GateOutcome::Accepted
    } else {
        GateOutcome::Inconclusive
    }
}

/// The fewest rows that would be accepted if lost and won rows kept their shares, or `None` when more rows would not help.
fn rows_needed(gate: &Gate, paired: &Paired) -> Option<u64> {
    let now = Discordance::from(*paired);
    let decides = |rows: u64| {
        let factor = rows as f64 / now.rows;
        Discordance { lost: now.lost * factor, won: now.won * factor, rows: rows as f64 }
            .rules_out(gate.max_drop, gate.confidence)
    };
    // Beyond 2^40 rows the drop is as good as equal to the limit.
    let enough = (0..40)
        .map(|power| (paired.count() as u64) << power)
        .find(|&n| n < 1 << 40 && decides(n))?;
    let (mut short, mut enough) = (enough / 2, enough);
    while enough - short > 1 {
        let middle = u64::midpoint(short, enough);
        if decides(middle) { enough = middle } else { short = middle }
    }
    Some(enough)
}
