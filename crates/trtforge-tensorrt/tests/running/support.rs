//! Engines of the double, as trtforge sees them.

use ndarray::{ArrayD, IxDyn};
use trtforge_double::{Batch, Recording, Tensor, TensorType, Values};
use trtforge_exec::{NamedValue, Value};
use trtforge_tensorrt::{DeviceExecutor, DeviceOptions, Library, Sdk, TensorRtError};

/// The double of TensorRT 11.4.
pub fn library() -> Library {
    Library::locate(Sdk::TensorRt, Some(&trtforge_double::libraries().tensorrt)).unwrap()
}

/// Opens what was recorded.
pub fn open(recording: &Recording) -> DeviceExecutor {
    open_with(recording, DeviceOptions::default()).unwrap()
}

/// The same with options, and the error if there is one.
pub fn open_with(
    recording: &Recording,
    options: DeviceOptions,
) -> Result<DeviceExecutor, TensorRtError> {
    DeviceExecutor::open(&library(), &recording.plan(), &options)
}

/// `ids` int64 and `mask` int32 `[batch, sequence]` to `logits` FP32 `[batch, 2]`, with these largest shapes of its profiles,
/// which all begin at `[1, 1]`.
pub fn classifier(largest: &[[i64; 2]]) -> Recording {
    let shape = ["batch", "sequence"];
    let mut recording = Recording {
        inputs: vec![
            Tensor::new("ids", TensorType::Int64, &shape),
            Tensor::new("mask", TensorType::Int32, &shape),
        ],
        outputs: vec![Tensor::new("logits", TensorType::Float32, &["batch", "2"])],
        ..Recording::default()
    };
    for max in largest {
        let range = |name| (name, [&[1, 1][..], max, max]);
        recording = recording.with_profile(&[range("ids"), range("mask")]);
    }
    recording
}

/// Adds one batch: the ids, the masks and the logits, row by row.
pub fn with_batch(
    mut recording: Recording,
    rows: usize,
    ids: &[i64],
    mask: &[i32],
    logits: &[f32],
) -> Recording {
    let dims = [rows as i64, (ids.len() / rows) as i64];
    let mask: Vec<u8> = mask.iter().flat_map(|x| x.to_le_bytes()).collect();
    let inputs = [
        ("ids".to_owned(), Values::i64(&dims, ids)),
        ("mask".to_owned(), Values::new(&dims, &mask)),
    ];
    let outputs = [("logits".to_owned(), Values::f32(&[rows as i64, 2], logits))];
    recording.batches.push(Batch { inputs: inputs.into(), outputs: outputs.into() });
    recording
}

/// A named tensor.
pub fn named<T>(name: &str, shape: &[usize], values: Vec<T>) -> NamedValue
where
    Value: From<ArrayD<T>>,
{
    (name.to_owned(), ArrayD::from_shape_vec(IxDyn(shape), values).unwrap().into())
}

/// One batch for [`classifier`]: a mask of ones.
pub fn batch(rows: usize, ids: Vec<i64>) -> Vec<NamedValue> {
    let shape = [rows, ids.len() / rows];
    let mask = vec![1_i64; ids.len()];
    vec![named("ids", &shape, ids), named("mask", &shape, mask)]
}

/// The FP32 values of the first output.
pub fn floats(outputs: &[NamedValue]) -> Vec<f32> {
    outputs[0].1.as_f32().unwrap().iter().copied().collect()
}

/// Uses of each allocating call so far: device memory, pinned memory, contexts.
pub fn allocations() -> [u64; 3] {
    let account = trtforge_double::account();
    ["cuMemAlloc", "cuMemHostAlloc", "createExecutionContext"]
        .map(|call| account.calls.get(call).copied().unwrap_or(0))
}
