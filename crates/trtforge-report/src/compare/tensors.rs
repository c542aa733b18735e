//! What two runs decided about the same tensors: precision and threshold.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Side;
use crate::record::number;
use crate::{Action, CalibrationSummary, Decision, Precision, RunRecord};

/// A tensor that became something else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DecisionChange {
    /// The graph.
    pub precision: Precision,
    /// The tensor.
    pub tensor: String,
    /// What the baseline made of it; nothing where it has no such tensor or says nothing about it.
    pub before: Vec<Action>,
    /// What the run made of it.
    pub after: Vec<Action>,
    /// Why, in the run; where it says nothing, why in the baseline.
    pub reason: String,
}

/// Decisions by tensor; one that several nodes read may have several.
type Decided<'a> = BTreeMap<&'a str, Vec<&'a Decision>>;

fn decided(side: &Side, precision: Precision) -> Decided<'_> {
    let mut found = Decided::new();
    for decision in side.record.decisions.iter().filter(|one| one.precision == precision) {
        found.entry(&decision.tensor).or_default().push(decision);
    }
    found
}

/// What a tensor became, each thing once.
fn actions(found: Option<&Vec<&Decision>>) -> BTreeSet<Action> {
    found.into_iter().flatten().map(|decision| decision.action.clone()).collect()
}

/// Tensors that became something else, and how many did not.
pub fn decisions(
    before: &Side,
    after: &Side,
    pairs: &[(Precision, Precision)],
) -> (Vec<DecisionChange>, u64) {
    let (mut changes, mut alike) = (Vec::new(), 0);
    for &(against, precision) in pairs {
        let (old, new) = (decided(before, against), decided(after, precision));
        // A run that stopped before its graphs decided nothing, which is no change.
        if old.is_empty() || new.is_empty() {
            continue;
        }
        let tensors: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
        for tensor in tensors {
            let (old, new) = (old.get(tensor), new.get(tensor));
            let (was, is) = (actions(old), actions(new));
            if was == is {
                alike += 1;
                continue;
            }
            // The reason of what is new, or of what is no longer.
            let of = |found: Option<&Vec<&Decision>>, other: &BTreeSet<Action>| {
                let mut all = found.into_iter().flatten();
                all.find(|one| !other.contains(&one.action)).map(|one| one.reason.clone())
            };
            let reason = of(new, &was).or_else(|| of(old, &is)).unwrap_or_default();
            changes.push(DecisionChange {
                precision,
                tensor: tensor.to_owned(),
                before: was.into_iter().collect(),
                after: is.into_iter().collect(),
                reason,
            });
        }
    }
    (changes, alike)
}

/// A threshold that moved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScaleChange {
    /// The tensor.
    pub tensor: String,
    /// The baseline's threshold, in model units.
    #[serde(with = "number")]
    pub before: f32,
    /// The run's.
    #[serde(with = "number")]
    pub after: f32,
    /// `after / before`: below 1 the run clips more and resolves finer.
    #[serde(with = "number")]
    pub ratio: f64,
    /// What chose the baseline's.
    pub method_before: String,
    /// What chose the run's.
    pub method_after: String,
}

/// Thresholds of the tensors that both runs calibrated.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ScaleChanges {
    /// Tensors with a threshold in both.
    pub common: u64,
    /// Those whose threshold has the same bits.
    pub unchanged: u64,
    /// The others, the one that moved most first.
    pub moved: Vec<ScaleChange>,
    /// Tensors of the baseline alone.
    pub only_before: Vec<String>,
    /// Tensors of the run alone.
    pub only_after: Vec<String>,
}

impl ScaleChanges {
    /// Half of the common tensors moved by no more than this factor, up or down; 1 is not at all.
    pub fn typical_factor(&self) -> f64 {
        let mut factors = vec![1.0; self.unchanged as usize];
        factors.extend(self.moved.iter().map(|one| factor(one.ratio)));
        factors.sort_unstable_by(f64::total_cmp);
        factors.get(factors.len().saturating_sub(1) / 2).copied().unwrap_or(1.0)
    }
}

/// A ratio as a factor of at least 1; what is no number moved most.
fn factor(ratio: f64) -> f64 {
    if ratio.is_finite() && ratio > 0.0 { ratio.max(1.0 / ratio) } else { f64::INFINITY }
}

/// Compares the thresholds.
pub fn scales(before: &RunRecord, after: &RunRecord) -> ScaleChanges {
    let empty = CalibrationSummary::default();
    let (old, new) = match (&before.calibration, &after.calibration) {
        (Some(old), Some(new)) => (old, new),
        // A run that stopped before it calibrated moved nothing.
        _ => (&empty, &empty),
    };
    let only = |one: &CalibrationSummary, other: &CalibrationSummary| {
        one.tensors.keys().filter(|name| !other.tensors.contains_key(*name)).cloned().collect()
    };
    let mut found = ScaleChanges {
        only_before: only(old, new),
        only_after: only(new, old),
        ..ScaleChanges::default()
    };
    for (name, old) in &old.tensors {
        let Some(new) = new.tensors.get(name) else { continue };
        found.common += 1;
        if old.threshold.to_bits() == new.threshold.to_bits() {
            found.unchanged += 1;
            continue;
        }
        found.moved.push(ScaleChange {
            tensor: name.clone(),
            before: old.threshold,
            after: new.threshold,
            ratio: f64::from(new.threshold) / f64::from(old.threshold),
            method_before: old.method.clone(),
            method_after: new.method.clone(),
        });
    }
    found.moved.sort_by(|a, b| {
        factor(b.ratio).total_cmp(&factor(a.ratio)).then_with(|| a.tensor.cmp(&b.tensor))
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TensorCalibration;

    fn record(thresholds: &[(&str, f32)]) -> RunRecord {
        let tensor = |&(name, threshold): &(&str, f32)| {
            (name.to_owned(), TensorCalibration { threshold, ..TensorCalibration::default() })
        };
        let tensors = thresholds.iter().map(tensor).collect();
        let calibration = CalibrationSummary { tensors, ..CalibrationSummary::default() };
        RunRecord { calibration: Some(calibration), ..RunRecord::default() }
    }

    #[test]
    fn thresholds_by_hand() {
        let before = record(&[("a", 4.0), ("b", 2.0), ("c", 1.0), ("gone", 1.0), ("bad", 1.0)]);
        let after = record(&[("a", 1.0), ("b", 3.0), ("c", 1.0), ("new", 1.0), ("bad", f32::NAN)]);
        let found = scales(&before, &after);
        assert_eq!((found.common, found.unchanged), (4, 1));
        let moved: Vec<_> = found.moved.iter().map(|one| one.tensor.as_str()).collect();
        // Not a number, then by a factor of 4, then by 1.5.
        assert_eq!(moved, ["bad", "a", "b"]);
        assert_eq!((found.moved[1].ratio, found.moved[2].ratio), (0.25, 1.5));
        assert_eq!(
            (found.only_before, found.only_after),
            (vec!["gone".into()], vec!["new".into()])
        );
        // Factors 1, 1.5, 4 and infinite: the second is the lower middle.
        assert_eq!(scales(&before, &after).typical_factor(), 1.5);
        assert_eq!(scales(&before, &RunRecord::default()), ScaleChanges::default());
        assert_eq!(ScaleChanges::default().typical_factor(), 1.0);
    }

    #[test]
    fn decisions_differ_by_action() {
        let decision = |tensor: &str, action: Action, reason: &str| Decision {
            precision: Precision::Int8,
            tensor: tensor.into(),
            node: None,
            layer: None,
            action,
            reason: reason.into(),
        };
        let side = |decisions| Side {
            name: "x".into(),
            record: RunRecord { decisions, ..RunRecord::default() },
            only: None,
        };
        let before = side(vec![
            decision("a", Action::Int8Activation, "one"),
            decision("b", Action::Half, "same"),
            decision("gone", Action::Half, "was"),
        ]);
        let after = side(vec![
            decision("a", Action::Skipped, "listed"),
            decision("b", Action::Half, "in other words"),
        ]);
        let pairs = [(Precision::Int8, Precision::Int8)];
        let (changes, alike) = decisions(&before, &after, &pairs);
        assert_eq!(alike, 1);
        let told: Vec<_> = changes
            .iter()
            .map(|one| (one.tensor.as_str(), &*one.before, &*one.after, &*one.reason))
            .collect();
        let expected = [
            ("a", &[Action::Int8Activation][..], &[Action::Skipped][..], "listed"),
            ("gone", &[Action::Half][..], &[][..], "was"),
        ];
        assert_eq!(told, expected);
        assert_eq!(decisions(&before, &side(vec![]), &pairs), (vec![], 0));
    }
}
