//! Damaged and malicious files of every kind: whatever the bytes, looking at them gives a result or an error, never a panic,
//! and takes neither much time nor memory.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use prost::Message;
use trtforge_onnx::build::{
    attr_graph, attr_int, attr_ints, attr_tensor, graph, model, node, tensor_f32, tensor_i64, value,
};
use trtforge_onnx::proto::ModelProto;
use trtforge_onnx::{Dim, ElementType, Model, OnnxError, Patch, convert_opset};

/// A small model with a bit of everything: shape arithmetic, subgraphs, typed and raw weights, old operators.
fn sample() -> ModelProto {
    let inner = graph(
        vec![],
        vec![value("t", ElementType::F32, &[])],
        vec![node("ReduceMean", "", &["a"], &["t"], vec![attr_ints("axes", &[1])])],
        vec![],
    );
    let nodes = vec![
        node("Add", "add", &["x", "w"], &["a"], vec![]),
        node("Shape", "", &["a"], &["s"], vec![]),
        node("Constant", "", &[], &["at"], vec![attr_tensor("value", tensor_i64("", &[1], &[0]))]),
        node("Gather", "", &["s", "at"], &["n"], vec![]),
        node("Concat", "", &["n", "rest"], &["to"], vec![attr_int("axis", 0)]),
        node("Reshape", "", &["a", "to"], &["r"], vec![]),
        node("Slice", "", &["r", "at", "rest", "at"], &["sl"], vec![]),
        node("Softmax", "", &["sl"], &["sm"], vec![attr_int("axis", 1)]),
        node("Squeeze", "", &["sm"], &["q"], vec![attr_ints("axes", &[1])]),
        node("Split", "", &["q"], &["p1", "p2"], vec![]),
        node(
            "If",
            "if",
            &["c"],
            &["y"],
            vec![attr_graph("then_branch", inner.clone()), attr_graph("else_branch", inner)],
        ),
    ];
    let mut typed = tensor_f32("w", &[3], &[]);
    typed.raw_data = None;
    typed.float_data = vec![1.0, 2.0, 3.0];
    let inputs = vec![
        value("x", ElementType::F32, &[Dim::Named("n".into()), Dim::Fixed(3)]),
        value("c", ElementType::Bool, &[]),
    ];
    let outputs = vec![value("y", ElementType::F32, &[])];
    model(11, graph(inputs, outputs, nodes, vec![typed, tensor_i64("rest", &[1], &[-1])]))
        .unwrap()
        .proto()
        .clone()
}

/// Everything that can be done with a file, one after the other.
fn use_file(path: &Path) -> Result<(), OnnxError> {
    let model = Model::open(path)?;
    let graph = model.graph();
    for node in graph.nodes() {
        for name in node.output.iter().chain(&node.input) {
            let _ = (graph.shape(name), graph.element_type(name), graph.consumers(name).len());
            if let Some(constant) = graph.constant(name) {
                let _ = (constant.to_f32().is_ok(), constant.to_i64().is_ok(), constant.len());
            }
        }
    }
    let _ = (graph.inputs(), graph.outputs());
    let _ = convert_opset(&model, 21).map(|m| m.fingerprint());
    let _ = Patch::new(&model).finish();
    model.check()?;
    model.save(&path.with_file_name("again.onnx")).map(|_| ())
}

fn temporary() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    (folder, path)
}

#[test]
fn the_unchanged_sample_is_used_without_error() {
    let (_folder, path) = temporary();
    std::fs::write(&path, sample().encode_to_vec()).unwrap();
    use_file(&path).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn changed_bytes_do_no_harm(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut bytes = sample().encode_to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let (_folder, path) = temporary();
        std::fs::write(&path, bytes).unwrap();
        let _ = use_file(&path);
    }

    #[test]
    fn changed_numbers_and_wiring_do_no_harm(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), 0..6_u8, any::<i64>(), -4..5_i64), 1..5)
    ) {
        let mut proto = sample();
        let graph = proto.graph.as_mut().unwrap();
        let names: Vec<String> = graph.node.iter().flat_map(|n| &n.input).cloned().collect();
        for (at, kind, wide, narrow) in changes {
            let number = if wide % 2 == 0 { wide } else { narrow };
            let node = at.index(graph.node.len());
            match kind {
                0 => graph.initializer[at.index(2)].dims = vec![number, wide],
                1 => graph.initializer[1].raw_data = Some(number.to_le_bytes().to_vec().into()),
                2 => graph.node[node].attribute.iter_mut().for_each(|a| {
                    a.i = a.i.map(|_| number);
                    a.ints.iter_mut().for_each(|i| *i = number);
                }),
                3 => graph.node[node].input.iter_mut().for_each(|i| i.clone_from(&names[at.index(names.len())])),
                4 => graph.node[node].output.push(names[at.index(names.len())].clone()),
                _ => graph.input[0] = value("x", ElementType::F32, &[Dim::Fixed(number), Dim::Fixed(wide), Dim::Fixed(narrow)]),
            }
        }
        let (_folder, path) = temporary();
        std::fs::write(&path, proto.encode_to_vec()).unwrap();
        let _ = use_file(&path);
    }
}
