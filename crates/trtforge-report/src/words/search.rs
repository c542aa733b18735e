//! Sentences about INT8's share, its costs and the search for the most that passes.

use super::{count, counted, figure, list, name, share};
use crate::{Arithmetic, Fallback, Precision, RunRecord, UnitCost};

/// How much of the arithmetic is INT8.
pub fn arithmetic(arithmetic: &Arithmetic) -> String {
    format!(
        "INT8 takes {} of the multiply-accumulates of a row of {}: {} of {}.",
        share(arithmetic.share),
        counted(arithmetic.length, "token"),
        count(arithmetic.int8_macs),
        count(arithmetic.all_macs)
    )
}

/// What a search found, in a sentence.
pub fn fallback(fallback: &Fallback) -> String {
    let step = fallback.chosen.and_then(|index| fallback.steps.get(index as usize));
    let looks = fallback.steps.iter().filter(|step| step.look.is_some()).count() as u64;
    let whole = if fallback.judged_again {
        "Under the rules of the build, INT8 as a whole was refused"
    } else {
        "INT8 as a whole was refused"
    };
    match step {
        Some(step) => format!(
            "{whole}; with {} returned to FP16 it passed after {}, and {} of the arithmetic stays INT8",
            counted(step.returned.len() as u64, "part"),
            counted(looks, "look"),
            share(step.arithmetic.share)
        ),
        None => format!("{whole}, and nothing with less INT8 passed in {}", counted(looks, "look")),
    }
}

/// Parts named where INT8 was refused.
const NAMED: usize = 3;

/// The parts that hurt, with the tensors they read, where INT8 was refused and they were measured.
pub fn hurts(record: &RunRecord) -> Option<String> {
    let verdict = record.precisions.get(&Precision::Int8)?.verdict.as_ref()?;
    let found = record.sensitivity.as_ref().filter(|_| !verdict.lets_through())?;
    let hurts = |unit: &&UnitCost| unit.shift > 0.0 || unit.not_finite > 0;
    let part = |unit: &UnitCost| {
        let reads: Vec<String> = unit.reads.iter().map(|tensor| name(tensor)).collect();
        let reads =
            if reads.is_empty() { String::new() } else { format!("reads {}, ", list(&reads)) };
        format!("{} ({reads}logit shift {})", name(&unit.node), figure(unit.shift))
    };
    let parts: Vec<String> = found.units.iter().filter(hurts).take(NAMED).map(part).collect();
    (!parts.is_empty()).then(|| format!("What hurts most when quantized alone: {}.", list(&parts)))
}

/// Where in the network a unit is: `layer 3, attention-output`.
pub fn place_of(unit: &UnitCost) -> String {
    match unit.encoder_layer {
        Some(layer) => format!("layer {layer}, {}", unit.kind),
        None => unit.kind.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_judged_again_is_that_of_the_build() {
        let mut path = Fallback::default();
        assert!(fallback(&path).starts_with("INT8 as a whole was refused, and nothing"));
        path.judged_again = true;
        let words = fallback(&path);
        assert!(
            words.starts_with("Under the rules of the build, INT8 as a whole was refused, and")
        );
        path.chosen = Some(0);
        path.steps.push(crate::FallbackStep::default());
        assert!(fallback(&path).starts_with("Under the rules of the build, INT8"), "{words}");
        let written = serde_json::to_string(&path).unwrap();
        assert!(!written.contains("judged_again"), "{written}");
    }
}
