//! A run that found its INT8 by returning parts to FP16.

use trtforge_report::{
    Arithmetic, Fallback, FallbackLook, FallbackStep, LeftUnit, Outcome, Precision, RunRecord,
    Sensitivity, UnitCost,
};

use super::accepted;

const KINDS: [&str; 6] = ["query", "key", "value", "attention-output", "intermediate", "output"];

/// A run of `layers` encoder layers whose worst two parts went back to FP16.
pub fn returned(layers: usize) -> RunRecord {
    let mut record = accepted(layers);
    let sensitivity = sensitivity(layers);
    let nodes: Vec<String> = sensitivity.units.iter().map(|unit| unit.node.clone()).collect();
    let look = |value: f64, outcome: Outcome| {
        let drop = 0.8012 - value;
        let interval = [drop - 0.004, drop + 0.004];
        Some(FallbackLook { value, drop, interval, outcome, passed: outcome == Outcome::Accepted })
    };
    let step = |returned: usize, share: f64, shift: Option<f64>, look| FallbackStep {
        returned: nodes[..returned].to_vec(),
        arithmetic: arithmetic(share),
        shift,
        look,
    };
    record.fallback = Some(Fallback {
        rows: 64,
        confidence: 0.975,
        steps: vec![
            step(0, 0.947, None, look(0.7684, Outcome::Rejected)),
            step(layers * 5, 0.112, Some(0.0031), look(0.8012, Outcome::Accepted)),
            step(4, 0.742, Some(0.0102), None),
            step(2, 0.842, Some(0.0107), look(0.8008, Outcome::Accepted)),
            step(1, 0.895, Some(0.0391), look(0.7921, Outcome::Inconclusive)),
        ],
        chosen: Some(3),
        ended: "a refusal ends the sequence: what has more INT8 is not looked at any more".into(),
        judged_again: false,
    });
    record.sensitivity = Some(sensitivity);
    record.diagnosis = Some(super::diagnosis::diagnosis());
    record.precisions.entry(Precision::Int8).or_default().arithmetic = Some(arithmetic(0.842));
    record
}

fn arithmetic(share: f64) -> Arithmetic {
    let all_macs = 11_174_674_432;
    Arithmetic { int8_macs: (share * all_macs as f64) as u64, all_macs, share, length: 128 }
}

pub fn sensitivity(layers: usize) -> Sensitivity {
    let unit = |index: usize| {
        let (layer, kind) = (index / KINDS.len(), KINDS[index % KINDS.len()]);
        UnitCost {
            node: format!("/bert/encoder/layer.{layer}/{kind}/MatMul"),
            kind: kind.into(),
            encoder_layer: Some(layer as u64),
            layer: Some(format!("bert.encoder.layer.{layer}.{kind}")),
            reads: vec![format!("/bert/encoder/layer.{layer}/{kind}/MatMul_input")],
            shift: 0.214 / (1.0 + ((index * 7) % (layers * KINDS.len())) as f64).powi(2),
            relative_shift: 0.031,
            max_shift: 0.9,
            snr_db: Some(8.4 + index as f64),
            clipped: 0.0001,
            flips: 3,
            not_finite: u64::from(index == 1),
            share: 0.01,
        }
    };
    let mut units: Vec<UnitCost> = (0..layers * KINDS.len()).map(unit).collect();
    units.sort_by(|a, b| b.shift.total_cmp(&a.shift));
    let left = LeftUnit {
        node: "/classifier/Gemm".into(),
        kind: "other".into(),
        reason: "`quantize.skip` pattern `*classifier*`".into(),
    };
    Sensitivity { rows: 64, fresh_rows: 64, units, left: vec![left] }
}
