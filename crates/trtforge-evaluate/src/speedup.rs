//! `min_speedup`: is the candidate's engine faster, at every shape that was timed?

use crate::gate::{GateOutcome, OnInconclusive};
use crate::judge::{missing, plain};
use crate::reason::percent;
use crate::verdict::RuleVerdict;

/// How many times as fast the engine is as the one it is compared with, at one shape, timed on a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredSpeedup {
    /// Above 1 it is faster.
    pub ratio: f64,
    /// Bounds of the ratio, each alone at `confidence`; none where there were too few rounds.
    pub interval: Option<[f64; 2]>,
    /// Of the bounds.
    pub confidence: f64,
    /// Rounds that compared the two.
    pub rounds: u64,
    /// Rows of the shape.
    pub batch: u64,
    /// Tokens of a row.
    pub length: u64,
}

impl MeasuredSpeedup {
    /// Rejected where the measured ratio is below the limit, accepted where its lower bound is not, else inconclusive.
    fn decide(&self, min: f64, confidence: f64) -> GateOutcome {
        // A bound of less confidence than the gate asks for proves nothing to it.
        let sure = self.confidence >= confidence - 1e-9;
        match self.interval.filter(|_| sure) {
            _ if self.ratio < min || !self.ratio.is_finite() => GateOutcome::Rejected,
            Some([low, _]) if low >= min => GateOutcome::Accepted,
            _ => GateOutcome::Inconclusive,
        }
    }

    fn words(&self, min: f64, confidence: f64) -> String {
        let Self { ratio, rounds, batch, length, .. } = self;
        let head = format!("INT8 is {ratio:.3} times as fast as FP16 at {batch} x {length}");
        let sure = percent(self.confidence);
        match (self.decide(min, confidence), self.interval) {
            (GateOutcome::Rejected, _) => {
                format!("{head} ({rounds} rounds), less than the {min} required")
            }
            (GateOutcome::Accepted, Some([low, _])) => format!(
                "{head}, with {sure} confidence at least {low:.3}, and {min} is required ({rounds} rounds)"
            ),
            (_, Some([low, _])) if self.confidence >= confidence - 1e-9 => format!(
                "{head}, at least the {min} required, but {rounds} rounds leave {low:.3} possible ({sure} confidence); raise `benchmark.rounds`"
            ),
            (_, Some(_)) => format!(
                "{head}, but its bounds were measured at {sure} confidence and the gate asks for {}; run `trtforge benchmark` again",
                percent(confidence)
            ),
            (_, None) => format!(
                "{head}, but {rounds} rounds are too few for a bound of {} confidence; raise `benchmark.rounds`",
                percent(confidence)
            ),
        }
    }
}

/// The rule: the worst shape decides.
///
/// - `count`: evaluation rows, for the verdict.
pub(crate) fn judge(
    measured: Option<&[MeasuredSpeedup]>,
    min: f64,
    confidence: f64,
    tolerated: OnInconclusive,
    count: usize,
) -> RuleVerdict {
    let worst = measured.unwrap_or_default().iter().max_by(|a, b| {
        let outcome = |one: &MeasuredSpeedup| one.decide(min, confidence);
        outcome(a).cmp(&outcome(b)).then(b.ratio.total_cmp(&a.ratio))
    });
    let Some(worst) = worst else {
        let why = "`gate.min_speedup` is set, and no device measured the speed-up of INT8 over FP16: no engine was timed on a GPU";
        return missing("min_speedup", count, why);
    };
    let outcome = worst.decide(min, confidence);
    let tolerates = outcome == GateOutcome::Inconclusive && tolerated == OnInconclusive::Accept;
    let others = measured.unwrap_or_default().len() - 1;
    let mut reason = worst.words(min, confidence);
    if others > 0 {
        reason.push_str(&format!("; the least of {} shapes", others + 1));
    }
    RuleVerdict {
        outcome,
        passes: outcome == GateOutcome::Accepted || tolerates,
        value: Some(worst.ratio),
        limit: Some(min),
        interval: worst.interval,
        ..plain("min_speedup", outcome == GateOutcome::Accepted, count, reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(ratio: f64, interval: Option<[f64; 2]>) -> MeasuredSpeedup {
        MeasuredSpeedup { ratio, interval, confidence: 0.95, rounds: 10, batch: 32, length: 128 }
    }

    fn outcome(found: &[MeasuredSpeedup], confidence: f64) -> (GateOutcome, bool, String) {
        let verdict = judge(Some(found), 1.2, confidence, OnInconclusive::Refuse, 100);
        (verdict.outcome, verdict.passes, verdict.reason)
    }

    #[test]
    fn the_lower_bound_decides() {
        use GateOutcome::{Accepted, Inconclusive, Rejected};
        let cases = [
            (
                measured(1.5, Some([1.3, 1.6])),
                Accepted,
                "at least 1.300, and 1.2 is required (10 rounds)",
            ),
            (measured(1.5, Some([1.2, 1.6])), Accepted, "at least 1.200"),
            (measured(1.3, Some([1.1, 1.6])), Inconclusive, "10 rounds leave 1.100 possible"),
            (measured(1.1, Some([1.0, 1.3])), Rejected, "less than the 1.2 required"),
            (
                measured(1.5, None),
                Inconclusive,
                "10 rounds are too few for a bound of 95% confidence",
            ),
            (measured(f64::NAN, None), Rejected, "less than"),
        ];
        for (found, expected, words) in cases {
            let (outcome, passes, reason) = outcome(&[found], 0.95);
            assert_eq!((outcome, passes), (expected, expected == Accepted), "{found:?}");
            assert!(reason.contains(words), "{reason}");
        }
    }

    #[test]
    fn a_stricter_gate_is_not_served_by_weaker_bounds() {
        let (outcome, passes, reason) = outcome(&[measured(1.5, Some([1.3, 1.6]))], 0.99);
        assert_eq!((outcome, passes), (GateOutcome::Inconclusive, false));
        assert!(
            reason.contains("measured at 95% confidence and the gate asks for 99%"),
            "{reason}"
        );
    }

    #[test]
    fn the_worst_shape_decides() {
        let fast = measured(1.8, Some([1.7, 1.9]));
        let slow = MeasuredSpeedup { batch: 1, ..measured(1.1, Some([1.0, 1.2])) };
        let (outcome, _, reason) = outcome(&[fast, slow, fast], 0.95);
        assert_eq!(outcome, GateOutcome::Rejected);
        assert_eq!(
            reason,
            "INT8 is 1.100 times as fast as FP16 at 1 x 128 (10 rounds), less than the 1.2 required; the least of 3 shapes"
        );
    }

    #[test]
    fn nothing_measured_is_never_tolerated() {
        for nothing in [None, Some(&[][..])] {
            let verdict = judge(nothing, 1.2, 0.95, OnInconclusive::Accept, 100);
            assert_eq!((verdict.outcome, verdict.passes), (GateOutcome::Inconclusive, false));
            assert!(verdict.reason.contains("no device measured"), "{}", verdict.reason);
        }
        let doubtful = [measured(1.3, Some([1.1, 1.6]))];
        assert!(judge(Some(&doubtful), 1.2, 0.95, OnInconclusive::Accept, 100).passes);
    }
}
