//! What a made-up run decided for its tensors, found in calibration, and planned from lengths.

use std::collections::BTreeMap;

use trtforge_report::{
    Action, CalibrationSummary, Decision, HistogramSketch, LengthBin, LengthSummary, PaddingFigure,
    Precision, ShapeProfile, ShapeRange, Shapes, TensorCalibration,
};

pub fn decisions(layers: usize) -> Vec<Decision> {
    const PARTS: [&str; 6] = [
        "attention/self/query",
        "attention/self/key",
        "attention/self/value",
        "attention/output/dense",
        "intermediate/dense",
        "output/dense",
    ];
    let mut decisions = Vec::new();
    let mut push = |precision, tensor: String, layer: Option<String>, action, reason: &str| {
        let node = Some(tensor.replace("_output_0", "")).filter(|node| *node != tensor);
        decisions.push(Decision { precision, tensor, node, layer, action, reason: reason.into() });
    };
    for layer in 0..layers {
        let named = Some(format!("layer.{layer}"));
        for part in PARTS {
            let base = format!("/bert/encoder/layer.{layer}/{part}");
            let input = format!("{base}/MatMul_input");
            push(
                Precision::Int8,
                input,
                named.clone(),
                Action::Int8Activation,
                "input of a GEMM with a weight, calibrated",
            );
            push(
                Precision::Int8,
                format!("{base}/weight"),
                named.clone(),
                Action::Int8Weight,
                "one scale per output channel",
            );
            let output = format!("{base}/MatMul_output_0");
            push(
                Precision::Int8,
                output.clone(),
                named.clone(),
                Action::Half,
                "within the range of FP16 on every calibration row",
            );
            push(
                Precision::Fp16,
                output,
                named.clone(),
                Action::Half,
                "within the range of FP16 on every calibration row",
            );
        }
        let norm = format!("/bert/encoder/layer.{layer}/output/LayerNorm/Pow_output_0");
        for precision in [Precision::Fp16, Precision::Int8] {
            push(
                precision,
                norm.clone(),
                named.clone(),
                Action::KeptFloat32,
                "the square of a value of 271.3 exceeds 65504",
            );
        }
    }
    for precision in [Precision::Fp16, Precision::Int8] {
        push(
            precision,
            "/bert/Constant_mask".into(),
            None,
            Action::ClampedConstant,
            "-3.4028e38 is beyond FP16; -65504 masks as well",
        );
        push(
            precision,
            "/bert/embeddings/word_embeddings.weight".into(),
            None,
            Action::Half,
            "looked up, not multiplied",
        );
    }
    decisions
}

pub fn calibration(layers: usize) -> CalibrationSummary {
    let mut tensors = BTreeMap::new();
    for layer in 0..layers {
        for (index, part) in ["query", "intermediate", "output"].into_iter().enumerate() {
            let absmax = 4.5 + layer as f32 * 1.7 + index as f32 * 3.1;
            let threshold = absmax * [0.93, 0.61, 0.34][index];
            let counts = (0..64)
                .map(|bin| (2e6 * (-f64::from(bin) / [14.0, 8.0, 4.0][index]).exp()) as u64)
                .collect();
            let tensor = TensorCalibration {
                absmax,
                threshold,
                scale: threshold / 127.0,
                method: "entropy".into(),
                values: 18_874_368,
                guard: (index == 2).then(|| {
                    "threshold raised: entropy alone would clip 1.2 % of the values".into()
                }),
                histogram: Some(HistogramSketch { width: f64::from(absmax) / 64.0, counts }),
            };
            tensors
                .insert(format!("/bert/encoder/layer.{layer}/{part}/dense/MatMul_input"), tensor);
        }
    }
    let strategy = Some("length-stratified".into());
    CalibrationSummary {
        method: "entropy".into(),
        rows: 512,
        seed: Some(17),
        strategy,
        lines: None,
        device: None,
        search: None,
        tensors,
    }
}

pub fn shapes() -> Shapes {
    let profile = |low: i64, high: i64, rows, share| {
        let range = ShapeRange { min: vec![1, low], opt: vec![32, high], max: vec![64, high] };
        let inputs = ["attention_mask", "input_ids", "token_type_ids"]
            .map(|name| (name.to_owned(), range.clone()));
        ShapeProfile {
            inputs: BTreeMap::from(inputs),
            rows: Some(rows),
            padding_share: Some(share),
        }
    };
    let bin = |index: u64| {
        let far = (index as f64 - 5.0) / 3.5;
        LengthBin {
            from: index * 4 + 1,
            to: index * 4 + 4,
            count: (420.0 * (-far * far / 2.0).exp()) as u64 + u64::from(index == 31) * 9,
        }
    };
    Shapes {
        from: Some("evaluation".into()),
        profiles: vec![
            profile(1, 24, 1_602, 0.124),
            profile(25, 48, 861, 0.151),
            profile(49, 128, 37, 0.305),
        ],
        lengths: Some(LengthSummary {
            count: 2_500,
            min: 3,
            max: 128,
            mean: 23.4,
            p50: 22,
            p90: 41,
            p95: 46,
            p99: 61,
            truncated: 3,
            histogram: (0..32).map(bin).collect(),
        }),
        padding: vec![
            PaddingFigure::new("fixed at 128", 58_500, 320_000),
            PaddingFigure::new("longest in batch", 58_500, 121_300),
            PaddingFigure::new("longest in batch, sorted by length", 58_500, 61_200),
            PaddingFigure::new("shape profiles", 58_500, 67_900),
        ],
    }
}
