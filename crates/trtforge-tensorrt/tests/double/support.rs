//! What these tests share: the double's libraries as trtforge sees them, and a small recording.

use trtforge_double::{Recording, Tensor, TensorType};
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
