//! What these tests share: the double's libraries as trtforge sees them, and a small recording.

use ndarray::{ArrayD, IxDyn};
use trtforge_double::{Recording, Row, Tensor, TensorType, Values};
use trtforge_exec::NamedValue;
use trtforge_tensorrt::{Library, Sdk};

/// The double of `sdk`.
pub fn library(sdk: Sdk) -> Library {
    let found = trtforge_double::libraries();
    let folder = match sdk {
        Sdk::TensorRt => found.tensorrt,
        Sdk::TensorRtRtx => found.rtx,
    };
    Library::locate(sdk, Some(&folder)).unwrap()
}

/// `ids` and `mask` int64 `[batch, sequence]` to `logits` `[batch, 2]`, without any outputs recorded.
pub fn classifier() -> Recording {
    let shape = ["batch", "sequence"];
    Recording {
        inputs: vec![
            Tensor::new("ids", TensorType::Int64, &shape),
            Tensor::new("mask", TensorType::Int64, &shape),
        ],
        outputs: vec![Tensor::new("logits", TensorType::Float32, &["batch", "2"])],
        layers: vec!["first".into(), "second".into()],
        mask: Some("mask".to_owned()),
        keys: vec!["ids".to_owned()],
        ..Recording::default()
    }
}

/// The same with two profiles: up to 4 rows of 8 positions, up to 2 rows of 32.
pub fn with_profiles() -> Recording {
    let mut recording = classifier();
    for max in [[4, 8], [2, 32]] {
        let range = |name| (name, [&[1, 1][..], &max, &max]);
        recording = recording.with_profile(&[range("ids"), range("mask")]);
    }
    recording
}

/// Adds a row: its ids, all of them tokens, and its logits.
pub fn with_row(mut recording: Recording, ids: &[i64], logits: [f32; 2]) -> Recording {
    let outputs = [("logits".to_owned(), Values::f32(&[2], &logits))];
    recording.rows.push(Row { key: vec![ids.to_vec()], outputs: outputs.into() });
    recording
}

/// One row without padding.
pub fn one_row(ids: &[i64]) -> Vec<NamedValue> {
    rows(&[ids])
}

/// A batch of rows, padded with zeros.
pub fn rows(rows: &[&[i64]]) -> Vec<NamedValue> {
    let length = rows.iter().map(|row| row.len()).max().unwrap_or(0);
    let padded = |of: fn(i64) -> i64| -> ArrayD<i64> {
        let value = |row: &[i64], at: usize| row.get(at).map_or(0, |&id| of(id));
        let values = rows.iter().flat_map(|row| (0..length).map(move |at| value(row, at)));
        ArrayD::from_shape_vec(IxDyn(&[rows.len(), length]), values.collect()).unwrap()
    };
    vec![("ids".to_owned(), padded(|id| id).into()), ("mask".to_owned(), padded(|_| 1).into())]
}

/// The FP32 values of the first output.
pub fn floats(outputs: &[NamedValue]) -> Vec<f32> {
    outputs[0].1.as_f32().unwrap().iter().copied().collect()
}
