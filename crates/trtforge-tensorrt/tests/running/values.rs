//! Element types, in and out.

use trtforge_double::{Batch, Recording, Tensor, TensorType, Values};
use trtforge_exec::{EvaluatedOn, ExecError, Executor, Value};
use trtforge_onnx::ElementType;
use trtforge_tensorrt::DeviceOptions;

use crate::support::{batch, classifier, floats, library, named, open, with_batch};

/// One tensor in, one out, `[n]` each, with these bytes.
fn through(input: (TensorType, &[u8]), output: (TensorType, &[u8]), n: usize) -> Recording {
    let dims = [n as i64];
    let values = |bytes| Values::new(&dims, bytes);
    Recording {
        inputs: vec![Tensor::new("x", input.0, &["n"])],
        outputs: vec![Tensor::new("y", output.0, &["n"])],
        batches: vec![Batch {
            inputs: [("x".to_owned(), values(input.1))].into(),
            outputs: [("y".to_owned(), values(output.1))].into(),
        }],
        ..Recording::default()
    }
    .with_profile(&[("x", [&[1], &[8], &[8]])])
}

#[test]
fn integers_of_any_width_become_the_declared_one() {
    let _double = trtforge_double::exclusive();
    let bytes = |values: &[i64], width: usize| -> Vec<u8> {
        values.iter().flat_map(|x| x.to_le_bytes()[..width].to_vec()).collect()
    };
    let declared = [
        (TensorType::Int64, 8),
        (TensorType::Int32, 4),
        (TensorType::Uint8, 1),
        (TensorType::Int8, 1),
        (TensorType::Bool, 1),
    ];
    for (element_type, width) in declared {
        let expected = bytes(&[1, 0], width);
        let recording = through((element_type, &expected), (element_type, &expected), 2);
        let executor = open(&recording);
        let given = [
            named("x", &[2], vec![1_i64, 0]),
            named("x", &[2], vec![1_i32, 0]),
            named("x", &[2], vec![1_u8, 0]),
            named("x", &[2], vec![1_i8, 0]),
            named("x", &[2], vec![true, false]),
        ];
        let outputs: Vec<Value> =
            given.into_iter().map(|input| executor.run(&[input]).unwrap().remove(0).1).collect();
        assert!(outputs.iter().all(|value| *value == outputs[0]), "{element_type:?}");
        assert_eq!(outputs[0].element_type(), executor.outputs()[0].element_type);
    }
}

#[test]
fn what_does_not_fit_the_declared_type_is_refused() {
    let _double = trtforge_double::exclusive();
    let cases: [(TensorType, i64); 4] = [
        (TensorType::Int32, i64::from(i32::MAX) + 1),
        (TensorType::Uint8, -1),
        (TensorType::Int8, 128),
        (TensorType::Bool, 2),
    ];
    for (element_type, value) in cases {
        let executor = open(&through((element_type, &[0; 4]), (element_type, &[0; 4]), 1));
        let error = executor.run(&[named("x", &[1], vec![value])]).unwrap_err();
        assert!(
            matches!(error, ExecError::OutOfRange { value: found, .. } if found == value),
            "{element_type:?}: {error}"
        );
        let error = executor.run(&[named("x", &[1], vec![1.0_f32])]).unwrap_err();
        assert!(matches!(error, ExecError::WrongType { .. }), "{error}");
    }
}

#[test]
fn half_floats_are_widened_and_nan_stays() {
    let _double = trtforge_double::exclusive();
    // In FP16: 1, −2, the largest (65504), +∞, NaN with a payload, the smallest subnormal (2^−24).
    let halves = [0x3c00_u16, 0xc000, 0x7bff, 0x7c00, 0x7e01, 0x0001];
    let bytes: Vec<u8> = halves.iter().flat_map(|x| x.to_le_bytes()).collect();
    let executor = open(&through((TensorType::Float16, &bytes), (TensorType::Float16, &bytes), 6));
    assert_eq!(executor.inputs()[0].element_type, ElementType::F16);
    let nan = f32::from_bits(0x7fc0_2000);
    let given = vec![1.0, -2.0, 65504.0, f32::INFINITY, nan, 2.0_f32.powi(-24)];
    let found = floats(&executor.run(&[named("x", &[6], given.clone())]).unwrap());
    assert_eq!(found[..4], given[..4]);
    assert!(found[4].is_nan());
    assert_eq!(found[5], given[5]);
}

#[test]
fn a_batch_of_no_rows_gives_no_rows() {
    let _double = trtforge_double::exclusive();
    let recording = Recording {
        profiles: Vec::new(),
        ..through((TensorType::Float32, &[]), (TensorType::Float32, &[]), 0)
    }
    .with_profile(&[("x", [&[0], &[8], &[8]])]);
    let outputs = open(&recording).run(&[named("x", &[0], Vec::<f32>::new())]).unwrap();
    assert_eq!(outputs[0].1.shape(), [0]);
}

#[test]
fn hidden_outputs_are_shown_to_taps_only() {
    let _double = trtforge_double::exclusive();
    let mut recording = with_batch(classifier(&[[4, 8]]), 1, &[1, 2], &[1, 1], &[2.0, 3.0]);
    recording.outputs.push(Tensor::new("hidden", TensorType::Float32, &["batch", "3"]));
    recording.batches[0]
        .outputs
        .insert("hidden".to_owned(), Values::f32(&[1, 3], &[7.0, f32::NAN, 9.0]));
    let hidden = ["hidden".to_owned()];
    let plan = recording.plan();
    let executor = trtforge_tensorrt::DeviceExecutor::open_tapped(
        &library(),
        &plan,
        &DeviceOptions::default(),
        &hidden,
    )
    .unwrap();
    assert_eq!(executor.evaluated_on(), EvaluatedOn::Device);
    assert_eq!(executor.outputs().len(), 1);
    assert!(executor.can_tap("hidden") && executor.can_tap("logits") && !executor.can_tap("ids"));
    let mut seen = Vec::new();
    let taps = ["logits", "hidden", "logits"].map(str::to_owned);
    let outputs = executor
        .run_tapped(&batch(1, vec![1, 2]), &taps, &mut |name, values| {
            seen.push((name.to_owned(), values.to_vec()));
        })
        .unwrap();
    assert_eq!(floats(&outputs), [2.0, 3.0]);
    assert_eq!(seen[0], ("logits".to_owned(), vec![2.0, 3.0]));
    assert_eq!((seen[1].0.as_str(), seen[1].1[0], seen[1].1[2]), ("hidden", 7.0, 9.0));
    assert!(seen[1].1[1].is_nan());
    assert_eq!(seen[2], seen[0]);
}
