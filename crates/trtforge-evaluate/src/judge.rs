//! May a candidate replace the baseline? Every rule of a gate on the rows of two models.

use crate::chance;
use crate::drop::Drop;
use crate::error::EvaluateError;
use crate::evaluation::EvaluatedOn;
use crate::gate::{Gate, GateOutcome, OnInconclusive, Rule, Scope, Tolerance};
use crate::metric::Metric;
use crate::paired::{Flips, McNemar, Paired};
use crate::parts::{self, Slice};
use crate::reason;
use crate::scored::Scored;
use crate::shift::LogitShift;
use crate::speedup::{self, MeasuredSpeedup};
use crate::statistic::Part;
use crate::verdict::{RuleVerdict, Verdict};

/// What is known besides the scored rows. Rules about what is not known here are inconclusive, by name.
#[derive(Debug, Clone, Copy, Default)]
pub struct Evidence<'a> {
    /// Names of the classes, by index.
    pub classes: &'a [String],
    /// Data fields by row.
    pub slices: &'a [Slice],
    /// How far the candidate's logits moved.
    pub shift: Option<LogitShift>,
    /// What ran the candidate; unknown is like [`EvaluatedOn::Reference`].
    pub evaluated_on: Option<EvaluatedOn>,
    /// How much of the arithmetic runs in INT8, by what the engine says of itself.
    pub int8_share: Option<Int8Share>,
    /// Why the engine could not be asked for it.
    pub int8_missing: Option<&'a str>,
    /// How many times as fast as FP16 the INT8 engine is, at each shape that was timed on a device.
    pub speedup: Option<&'a [MeasuredSpeedup]>,
    /// Whether the baseline gives every row the same vector, to which any cosine is worth nothing.
    pub same_vectors: bool,
}

/// How much of an engine's arithmetic is proven to run in INT8.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Int8Share {
    /// Proven to, 0 to 1.
    pub proven: f64,
    /// Not provable either way, 0 to 1.
    pub unproven: f64,
}

/// Judges a candidate by the same rows as its baseline.
///
/// A drop is rejected when it exceeds its limit, accepted when its one-sided confidence bound is within it, else inconclusive. A NaN or
/// infinite logit of either model rejects, and so does a baseline that answers no better than chance; rows on which a metric has no value or one
/// answer is always right are inconclusive. The verdict is the worst of all rules.
pub fn judge(gate: &Gate, baseline: &Scored, candidate: &Scored) -> Result<Verdict, EvaluateError> {
    judge_with(gate, baseline, candidate, &Evidence::default())
}

/// [`judge`] for gates whose rules need more than the scored rows.
pub fn judge_with(
    gate: &Gate,
    baseline: &Scored,
    candidate: &Scored,
    evidence: &Evidence<'_>,
) -> Result<Verdict, EvaluateError> {
    gate.check()?;
    baseline.same_rows(candidate)?;
    for slice in evidence.slices {
        slice.check(baseline.len())?;
    }
    let case = Case { gate, baseline, candidate, evidence };
    let mut rules = vec![case.finite()];
    rules.extend(chance::rule(gate, baseline, evidence)?);
    let mut headline = None;
    for rule in &gate.rules {
        let (verdicts, whole) = case.rule(rule)?;
        if let (None, Some(drop)) = (&headline, whole) {
            headline = Some((drop, rules.len()));
        }
        rules.extend(verdicts);
    }
    let (drop, at) = headline.ok_or(EvaluateError::NoDropRule)?;
    case.verdict(&drop, at, rules)
}

struct Case<'a> {
    gate: &'a Gate,
    baseline: &'a Scored,
    candidate: &'a Scored,
    evidence: &'a Evidence<'a>,
}

impl Case<'_> {
    fn verdict(
        &self,
        drop: &Drop,
        headline: usize,
        rules: Vec<RuleVerdict>,
    ) -> Result<Verdict, EvaluateError> {
        let outcome =
            rules.iter().map(|rule| rule.outcome).max().unwrap_or(GateOutcome::Inconclusive);
        let (baseline, candidate) = (self.baseline, self.candidate);
        let paired = match (baseline.right_rows(), candidate.right_rows()) {
            (Some(before), Some(after)) => Some(Paired::of(&before, &after)),
            _ => None,
        };
        Ok(Verdict {
            outcome,
            publish: rules.iter().all(|rule| rule.passes),
            metric: drop.metric,
            baseline: drop.baseline,
            candidate: drop.candidate,
            count: drop.count,
            drop: drop.drop(),
            interval: drop.interval,
            max_drop: rules[headline].limit.unwrap_or_default(),
            confidence: self.gate.confidence,
            reason: reason::overall(outcome, headline, &rules),
            rows_needed: rules[headline].rows_needed,
            paired,
            mcnemar: paired.map(|paired| McNemar::of(&paired)),
            flips: Flips::of(baseline, candidate),
            not_finite: [baseline.not_finite(), candidate.not_finite()],
            classes: parts::classes(baseline, candidate, self.evidence.classes)?,
            slices: parts::slices(drop.metric, baseline, candidate, self.evidence.slices)?,
            notes: reason::notes(baseline, candidate, self.evidence.classes),
            rules,
        })
    }

    fn rule(&self, rule: &Rule) -> Result<(Vec<RuleVerdict>, Option<Drop>), EvaluateError> {
        let one = |verdict| Ok((vec![verdict], None));
        match rule {
            Rule::MaxDrop { metric, tolerance, scope, on_inconclusive } => {
                let tolerated = on_inconclusive.unwrap_or(self.gate.on_inconclusive);
                let case = DropCase { name: rule.name(), tolerance: *tolerance, tolerated };
                match scope {
                    Scope::Whole => {
                        let drop =
                            self.drop(*metric, Part::Whole, self.baseline, self.candidate)?;
                        Ok((vec![self.judged(&case, &drop, None)], Some(drop)))
                    }
                    Scope::EachClass => Ok((self.each_class(&case, *metric)?, None)),
                    Scope::EachSlice(field) => Ok((self.each_slice(&case, *metric, field)?, None)),
                }
            }
            Rule::MinValue { metric, min } => one(self.min_value(*metric, *min)?),
            Rule::MaxFlipRate(max) => one(self.flip_rate(*max)?),
            Rule::MaxLogitDivergence(max) => one(self.divergence(*max)),
            Rule::RequireDevice => one(self.device()),
            Rule::RequireInt8Share(min) => one(self.int8_share(*min)),
            Rule::MinSpeedup(min) => one(speedup::judge(
                self.evidence.speedup,
                *min,
                self.gate.confidence,
                self.gate.on_inconclusive,
                self.baseline.len(),
            )),
        }
    }

    fn drop(
        &self,
        metric: Metric,
        part: Part<'_>,
        baseline: &Scored,
        candidate: &Scored,
    ) -> Result<Drop, EvaluateError> {
        Drop::of(metric, part, baseline, candidate, self.gate.confidence)
    }

    fn judged(&self, case: &DropCase, drop: &Drop, scope: Option<String>) -> RuleVerdict {
        let confidence = self.gate.confidence;
        let outcome = drop.decide(case.tolerance, confidence);
        let rows_needed = match outcome {
            GateOutcome::Inconclusive => drop.rows_needed(case.tolerance, confidence),
            _ => None,
        };
        // Of a part, missing evidence may be tolerated; a gate whose metric has no value at all has judged nothing.
        let tolerable = drop.undefined.is_none() || scope.is_some();
        let tolerated = outcome == GateOutcome::Inconclusive
            && case.tolerated == OnInconclusive::Accept
            && tolerable;
        RuleVerdict {
            rule: case.name.to_owned(),
            metric: Some(drop.metric),
            outcome,
            passes: outcome == GateOutcome::Accepted || tolerated,
            reason: reason::of_drop(
                drop,
                scope.as_deref(),
                outcome,
                case.tolerance,
                confidence,
                rows_needed,
            ),
            scope,
            value: Some(drop.drop()),
            limit: Some(case.tolerance.limit(drop.baseline)),
            interval: Some(drop.interval),
            count: drop.count,
            rows_needed,
        }
    }

    fn each_class(
        &self,
        case: &DropCase,
        metric: Metric,
    ) -> Result<Vec<RuleVerdict>, EvaluateError> {
        let parts = parts::of_classes(self.baseline, self.evidence.classes)?;
        parts
            .iter()
            .map(|part| {
                let (baseline, candidate) = (part.rows(self.baseline), part.rows(self.candidate));
                let metric = part.metric(metric);
                let mut drop = self.drop(metric, part.part(), &baseline, &candidate)?;
                drop.count = part.count;
                Ok(self.judged(case, &drop, Some(format!("class {}", part.name))))
            })
            .collect()
    }

    fn each_slice(
        &self,
        case: &DropCase,
        metric: Metric,
        field: &str,
    ) -> Result<Vec<RuleVerdict>, EvaluateError> {
        let slice = self.evidence.slices.iter().find(|slice| slice.field == field);
        let slice = slice.ok_or_else(|| EvaluateError::UnknownSlice(field.to_owned()))?;
        slice
            .values()
            .iter()
            .map(|value| {
                let keep = slice.mask(value);
                let (baseline, candidate) =
                    (self.baseline.filtered(&keep), self.candidate.filtered(&keep));
                let drop = self.drop(metric, Part::Whole, &baseline, &candidate)?;
                Ok(self.judged(case, &drop, Some(format!("{field}={value}"))))
            })
            .collect()
    }

    fn finite(&self) -> RuleVerdict {
        let not_finite = [self.baseline.not_finite(), self.candidate.not_finite()];
        let count = self.baseline.len();
        plain("finite_logits", not_finite == [0, 0], count, reason::finite(not_finite, count))
    }

    fn min_value(&self, metric: Metric, min: f64) -> Result<RuleVerdict, EvaluateError> {
        let drop = self.drop(metric, Part::Whole, self.baseline, self.candidate)?;
        let (value, count) = (drop.candidate, drop.count);
        if let Some(why) = &drop.undefined {
            let verdict = missing("min_value", count, why);
            return Ok(RuleVerdict { metric: Some(metric), limit: Some(min), ..verdict });
        }
        let holds = value >= min;
        let relation = if holds { "at least" } else { "below" };
        let reason =
            format!("{metric} is {value:.4} on {count} rows, {relation} the {min} required");
        let verdict = plain("min_value", holds, count, reason);
        Ok(RuleVerdict { metric: Some(metric), value: Some(value), limit: Some(min), ..verdict })
    }

    fn flip_rate(&self, max: f64) -> Result<RuleVerdict, EvaluateError> {
        let kind = self.baseline.kind();
        let flips = Flips::of(self.baseline, self.candidate)
            .ok_or(EvaluateError::NoFlips { rows: kind })?;
        let holds = flips.share <= max;
        let reason = format!(
            "{} of {} rows ({:.2} %) change their answer ({} to wrong, {} to right), {} the {} allowed",
            flips.changed,
            self.baseline.len(),
            100.0 * flips.share,
            flips.right_to_wrong,
            flips.wrong_to_right,
            if holds { "within" } else { "more than" },
            reason::percent(max),
        );
        let verdict = plain("max_flip_rate", holds, self.baseline.len(), reason);
        Ok(RuleVerdict { value: Some(flips.share), limit: Some(max), ..verdict })
    }

    fn divergence(&self, max: f64) -> RuleVerdict {
        let name = "max_logit_divergence";
        let count = self.baseline.len();
        let Some(shift) = self.evidence.shift else {
            return missing(name, count, "the logits of both models are needed and not at hand");
        };
        let holds = shift.mean_abs <= max && shift.not_finite == 0;
        let reason = format!(
            "logits move by {:.4} on average ({:.4} at most), {} the {max} allowed",
            shift.mean_abs,
            shift.max_abs,
            if holds { "within" } else { "more than" },
        );
        let verdict = plain(name, holds, count, reason);
        RuleVerdict { value: Some(shift.mean_abs), limit: Some(max), ..verdict }
    }

    fn device(&self) -> RuleVerdict {
        let count = self.baseline.len();
        if self.evidence.evaluated_on == Some(EvaluatedOn::Device) {
            return plain("require_device", true, count, "the engine ran on a GPU".to_owned());
        }
        let why =
            "`gate.require_device` is set, and this is a reference figure: no engine ran on a GPU";
        missing("require_device", count, why)
    }

    /// What is not provable could be INT8: only where even that would not be enough, the engine is INT8 in name alone.
    fn int8_share(&self, min: f64) -> RuleVerdict {
        let (name, count) = ("require_int8_share", self.baseline.len());
        let Some(Int8Share { proven, unproven }) = self.evidence.int8_share else {
            let why = self.evidence.int8_missing.unwrap_or("no engine ran on a GPU");
            return missing(
                name,
                count,
                &format!(
                    "`gate.{name}` is set, and how much of the engine runs in INT8 is not proven: {why}"
                ),
            );
        };
        let percent = reason::percent;
        let said = format!("{} of the arithmetic is proven to run in INT8", percent(proven));
        let verdict = if proven >= min {
            plain(name, true, count, format!("{said}, at least the {} required", percent(min)))
        } else if proven + unproven < min {
            let also = if unproven > 0.0 {
                format!(", and even with the {} that is not provable it is", percent(unproven))
            } else {
                ",".to_owned()
            };
            let reason = format!(
                "{said}{also} below the {} required: the engine is INT8 in name",
                percent(min)
            );
            plain(name, false, count, reason)
        } else {
            let unproven = percent(unproven);
            missing(
                name,
                count,
                &format!(
                    "{said} of the {} required, and of {unproven} it is not provable",
                    percent(min)
                ),
            )
        };
        RuleVerdict { value: Some(proven), limit: Some(min), ..verdict }
    }
}

struct DropCase {
    name: &'static str,
    tolerance: Tolerance,
    tolerated: OnInconclusive,
}

/// A rule that holds or does not.
pub(crate) fn plain(rule: &str, holds: bool, count: usize, reason: String) -> RuleVerdict {
    RuleVerdict {
        rule: rule.to_owned(),
        metric: None,
        scope: None,
        outcome: if holds { GateOutcome::Accepted } else { GateOutcome::Rejected },
        passes: holds,
        reason,
        value: None,
        limit: None,
        interval: None,
        count,
        rows_needed: None,
    }
}

/// A rule about a figure that nobody measured: never tolerated, since more rows would not help.
pub(crate) fn missing(rule: &str, count: usize, why: &str) -> RuleVerdict {
    RuleVerdict {
        outcome: GateOutcome::Inconclusive,
        passes: false,
        ..plain(rule, false, count, why.to_owned())
    }
}
