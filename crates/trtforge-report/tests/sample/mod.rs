//! Records of made-up runs, shared by the tests and by the example that writes their pages to look at.

mod diagnosis;
mod search;
mod tensors;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use trtforge_report::{
    Action, Change, Confusion, EngineLibrary, EngineLog, Evaluation, FlippedRow, Flips, InputFile,
    Inputs, LogitShift, Machine, McNemar, Outcome, Part, Place, Precision, PrecisionRecord, Rule,
    RunRecord, Stage, StageOutcome, TensorCalibration, Tool, Verdict,
};

pub use search::returned;
use tensors::{calibration, decisions, shapes};

/// A run that `--stop-after check` ended.
pub fn checked_only() -> RunRecord {
    let tool = Tool { name: "trtforge".into(), version: "0.1.0".into() };
    let machine =
        Machine { os: "linux".into(), arch: "x86_64".into(), cores: 2, gpu: None, driver: None };
    let mut record = RunRecord::new("sentiment", tool, machine);
    record.inputs.model = Some(
        InputFile::new(Path::new("/data/models/sentiment.onnx"), fingerprint(1))
            .with_bytes(69_600_000),
    );
    record.profile = json!({ "version": 1, "model": { "onnx": "/data/models/sentiment.onnx" }, "precisions": ["fp16", "int8"] });
    record.stages = vec![stage("check", StageOutcome::Ran, 212)];
    record.stopped_after = Some("check".into());
    record
}

/// A run of `layers` encoder layers where both precisions passed.
pub fn accepted(layers: usize) -> RunRecord {
    let mut record = checked_only();
    record.stopped_after = None;
    record.started = Some("2026-05-09T07:29:33Z".into());
    record.engine =
        Some(EngineLibrary { backend: "tensorrt-rtx".into(), version: Some("1.7.1.116".into()) });
    record.inputs = Inputs {
        tokenizer: Some(InputFile::new(Path::new("vocab.txt"), fingerprint(2)).with_bytes(231_508)),
        calibration: Some(
            InputFile::new(Path::new("train.jsonl"), fingerprint(3))
                .with_bytes(912_345)
                .with_rows(512),
        ),
        evaluation: Some(
            InputFile::new(Path::new("test.jsonl"), fingerprint(4))
                .with_bytes(298_117)
                .with_rows(2_500),
        ),
        ..record.inputs
    };
    record.precisions = BTreeMap::from([
        (Precision::Fp32, fp32()),
        (
            Precision::Fp16,
            judged(
                "fp16",
                34_900_000,
                0.8012,
                verdict(Outcome::Accepted, 0.0, [-0.0004, 0.0004], flips(1, 1)),
            ),
        ),
        (
            Precision::Int8,
            judged(
                "int8",
                18_300_000,
                0.7996,
                verdict(Outcome::Accepted, 0.0016, [-0.0012, 0.0043], flips(14, 10)),
            ),
        ),
    ]);
    record.decisions = decisions(layers);
    record.calibration = Some(calibration(layers));
    record.shapes = Some(shapes());
    record.warnings = vec!["3 calibration rows were cut at 128 tokens".into()];
    record.stages = [
        ("check", 212),
        ("calibrate", 8_412),
        ("quantize", 640),
        ("shapes", 30),
        ("evaluate", 21_904),
        ("build", 74_300),
    ]
    .map(|(name, ms)| stage(name, StageOutcome::Ran, ms))
    .to_vec();
    record.stages[1].outcome = StageOutcome::Cached;
    record.timings_ms =
        BTreeMap::from([("evaluate.fp32".into(), 7_120), ("evaluate.int8".into(), 7_655)]);
    record
}

/// INT8 lost too much.
pub fn rejected(layers: usize) -> RunRecord {
    let mut record = accepted(layers);
    let mut lost = verdict(Outcome::Rejected, 0.0212, [0.0151, 0.0274], flips(81, 28));
    lost.reason = "accuracy drops by 0.0212 from 0.8012 to 0.7800 (81 rows lost, 28 won, of 2500), more than the 0.005 allowed".into();
    let mut int8 = judged("int8", 18_300_000, 0.7800, lost);
    int8.plan = Some("rejected/sentiment.int8.plan".into());
    int8.published = false;
    int8.flipped = (0..20).map(flipped).collect();
    record.precisions.insert(Precision::Int8, int8);
    record.sensitivity = Some(search::sensitivity(2));
    record
}

/// Twenty rows do not decide.
pub fn inconclusive() -> RunRecord {
    let mut record = accepted(1);
    let mut open = verdict(Outcome::Inconclusive, 0.0, [-0.1610, 0.1610], flips(1, 1));
    open.reason = "accuracy does not change from 0.8500 to 0.8500 (1 rows lost, 1 won, of 20), within the 0.005 allowed, but 20 rows leave up to 0.1610 possible (95% confidence); about 9200 rows that differ like these would decide".into();
    open.rows_needed = Some(9_200);
    let mut int8 = judged("int8", 18_300_000, 0.85, open);
    int8.plan = Some("rejected/sentiment.int8.plan".into());
    int8.published = false;
    int8.flipped = (0..20).map(flipped).collect();
    if let Some(evaluation) = &mut int8.evaluation {
        evaluation.count = 20;
        evaluation.interval = [0.6396, 0.9476];
    }
    record.precisions.insert(Precision::Int8, int8);
    record
}

/// The INT8 graph gives NaN.
pub fn not_finite() -> RunRecord {
    let mut record = rejected(1);
    let Some(int8) = record.precisions.get_mut(&Precision::Int8) else { return record };
    int8.logit_shift = Some(LogitShift { mean: f64::NAN, max: f64::INFINITY });
    if let Some(evaluation) = &mut int8.evaluation {
        evaluation.value = f64::NAN;
        evaluation.interval = [f64::NAN, f64::NAN];
        evaluation.not_finite = 2_500;
    }
    if let Some(verdict) = &mut int8.verdict {
        verdict.drop = f64::NAN;
        verdict.interval = [f64::NEG_INFINITY, f64::INFINITY];
        verdict.reason = "2500 rows have a NaN or infinite logit".into();
    }
    for tensor in record.calibration.iter_mut().flat_map(|found| found.tensors.values_mut()) {
        (tensor.absmax, tensor.threshold, tensor.scale) = (f32::INFINITY, f32::NAN, f32::NAN);
    }
    record
}

/// Every text a file or a user can choose is `name`.
pub fn hostile(name: &str) -> RunRecord {
    let mut record = rejected(1);
    record.name = name.into();
    record.started = Some(name.into());
    record.stopped_after = Some(name.into());
    record.warnings = vec![name.into()];
    record.machine.gpu = Some(name.into());
    record.profile = json!({ name: name });
    for file in [&mut record.inputs.model, &mut record.inputs.evaluation].into_iter().flatten() {
        file.name = name.into();
    }
    for decision in &mut record.decisions {
        decision.tensor = name.into();
        decision.node = Some(format!("{name} node"));
        decision.layer = Some(name.into());
        decision.reason = name.into();
        decision.action = Action::Other(name.into());
    }
    for one in record.precisions.values_mut() {
        one.plan = Some(name.into());
        one.onnx = Some(name.into());
        one.engine_log = Some(EngineLog {
            file: Some(name.into()),
            notable: vec![name.into()],
            ..EngineLog::default()
        });
        if let Some(evaluation) = &mut one.evaluation {
            evaluation.metric = name.into();
        }
        if let Some(verdict) = &mut one.verdict {
            verdict.reason = name.into();
        }
        let text = Some(name.to_owned());
        one.flipped =
            vec![FlippedRow { label: name.into(), baseline: name.into(), text, ..flipped(1) }];
    }
    if let Some(found) = &mut record.calibration {
        found.method = name.into();
        let tensor = TensorCalibration {
            method: name.into(),
            guard: Some(name.into()),
            ..TensorCalibration::default()
        };
        found.tensors = BTreeMap::from([(name.to_owned(), tensor)]);
    }
    if let Some(shapes) = &mut record.shapes {
        shapes.from = Some(name.into());
        for profile in &mut shapes.profiles {
            let range = profile.inputs.values().next().cloned().unwrap_or_default();
            profile.inputs = BTreeMap::from([(name.to_owned(), range)]);
        }
        for figure in &mut shapes.padding {
            figure.mode = name.into();
        }
    }
    record
}

/// Names nobody should type.
pub fn hostile_names() -> [String; 7] {
    [
        "<script>alert(1)</script>".into(),
        r#"" onload="alert(1)" x='"#.into(),
        "</style></title>--><svg onload=alert(1)>]]>&amp;".into(),
        "line\nbreak\r\ttab\u{0}\u{1b}[31mred\u{202e}drow".into(),
        "`code` |cell| **bold** [link](javascript:alert(1)) # _x_".into(),
        "漢字 émoji 🦀 \u{fffe} ünïcode".into(),
        "x".repeat(10_000),
    ]
}

fn fingerprint(seed: u64) -> String {
    let parts: Vec<String> = (1..5)
        .map(|part| format!("{:016x}", (seed * 4 + part).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    parts.concat()
}

fn flipped(row: u64) -> FlippedRow {
    let (negative, positive) = ("negative".to_owned(), "positive".to_owned());
    let (change, label) =
        if row < 15 { (Change::Lost, &negative) } else { (Change::Won, &positive) };
    let label = label.clone();
    FlippedRow {
        line: 7 + row * 31,
        label,
        baseline: negative,
        candidate: positive,
        change,
        text: None,
    }
}

fn stage(name: &str, outcome: StageOutcome, ms: u64) -> Stage {
    Stage { name: name.into(), outcome, ms }
}

fn flips(to_wrong: u64, to_right: u64) -> Flips {
    Flips {
        to_wrong,
        to_right,
        wrong_to_wrong: 0,
        both_right: 2_003 - to_wrong,
        both_wrong: 497 - to_right,
    }
}

fn verdict(outcome: Outcome, drop: f64, interval: [f64; 2], flips: Flips) -> Verdict {
    let high = interval[1];
    let reason = format!(
        "accuracy drops by {drop:.4} ({} rows lost, {} won, of 2500); with 95% confidence the drop is at most {high:.4}, within the 0.005 allowed",
        flips.to_wrong, flips.to_right
    );
    Verdict {
        passed: outcome == Outcome::Accepted,
        outcome,
        drop,
        interval,
        max_drop: 0.005,
        confidence: 0.95,
        reason,
        rows_needed: None,
        flips: Some(flips),
        mcnemar: Some(McNemar { p_two_sided: 0.5413, p_worse: 0.2706 }),
        baseline: None,
        rules: rules(outcome, drop, interval),
        classes: ["negative", "positive"].map(class).to_vec(),
        slices: Vec::new(),
    }
}

fn rules(outcome: Outcome, drop: f64, interval: [f64; 2]) -> Vec<Rule> {
    let rule = |name: &str, outcome: Outcome, reason: &str| Rule {
        rule: name.into(),
        metric: None,
        scope: None,
        outcome,
        passes: outcome == Outcome::Accepted,
        reason: reason.into(),
        value: None,
        limit: None,
        interval: None,
        count: 2_500,
        rows_needed: None,
    };
    vec![
        rule("finite_logits", Outcome::Accepted, "every logit is finite"),
        Rule {
            metric: Some("accuracy".into()),
            value: Some(drop),
            limit: Some(0.005),
            interval: Some(interval),
            ..rule("max_drop", outcome, "accuracy is what this is about")
        },
        Rule {
            metric: Some("macro-f1".into()),
            scope: Some("class positive".into()),
            ..rule("max_drop", outcome, "f1 of class positive is what this is about")
        },
    ]
}

fn class(name: &str) -> Part {
    Part {
        field: None,
        name: name.into(),
        measure: "f1".into(),
        count: 1_250,
        baseline: 0.8013,
        candidate: 0.7991,
    }
}

fn evaluation(value: f64) -> Evaluation {
    let interval = [value - 0.0161, value + 0.0152];
    let evaluated_on = Place::Reference;
    Evaluation {
        metric: "accuracy".into(),
        value,
        interval,
        confidence: 0.95,
        count: 2_500,
        not_finite: 0,
        evaluated_on,
    }
}

fn fp32() -> PrecisionRecord {
    PrecisionRecord {
        onnx_bytes: Some(69_600_000),
        evaluation: Some(evaluation(0.8012)),
        ..PrecisionRecord::default()
    }
}

fn judged(key: &str, size: u64, value: f64, verdict: Verdict) -> PrecisionRecord {
    PrecisionRecord {
        proof: None,
        arithmetic: None,
        onnx: Some(format!("onnx/sentiment.{key}.onnx")),
        onnx_bytes: Some(size),
        plan: Some(format!("engines/sentiment.{key}.plan")),
        plan_bytes: Some(size + 411_000),
        build_ms: Some(36_120),
        engine_log: Some(EngineLog {
            file: Some(format!("logs/{key}.build.log")),
            lines: 214,
            warnings: 1,
            errors: 0,
            notable: vec!["Detected layernorm nodes in FP16; the accuracy may suffer".into()],
        }),
        evaluation: Some(evaluation(value)),
        verdict: Some(verdict),
        logit_shift: Some(LogitShift { mean: 0.089, max: 0.732 }),
        published: true,
        metrics: vec![
            evaluation(value),
            Evaluation { metric: "macro-f1".into(), ..evaluation(value) },
        ],
        confusion: Some(Confusion {
            classes: ["negative", "positive"].map(String::from).to_vec(),
            counts: vec![vec![1_000, 250], vec![247, 1_003]],
            not_finite: vec![0, 0],
        }),
        predictions: Some(format!("predictions/{key}.json")),
        flipped: Vec::new(),
    }
}
