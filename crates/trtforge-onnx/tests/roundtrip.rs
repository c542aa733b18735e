//! What is written reads back the same, whatever the model holds; weights are not copied on the way.

use std::path::Path;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use trtforge_onnx::build::{attr_graph, graph, model, node, tensor_f32, tensor_raw, value};
use trtforge_onnx::proto::attribute_proto::AttributeType;
use trtforge_onnx::proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    SparseTensorProto, StringStringEntryProto, TensorAnnotation, TensorProto, TrainingInfoProto,
};
use trtforge_onnx::{ElementType, Model, SaveOptions};

fn name() -> impl Strategy<Value = Option<String>> {
    option::of("[a-zA-Z0-9/._: µ]{0,12}")
}

fn entries() -> impl Strategy<Value = Vec<StringStringEntryProto>> {
    vec((name(), name()).prop_map(|(key, value)| StringStringEntryProto { key, value }), 0..3)
}

/// Tensors need not make sense here, only to survive; some are large enough to be streamed.
fn tensor() -> impl Strategy<Value = TensorProto> {
    let raw = option::of(prop_oneof![vec(any::<u8>(), 0..40), Just(vec![7_u8; 90_000])]);
    (
        vec(any::<i64>(), 0..3),
        any::<i32>(),
        vec(any::<i32>(), 0..4),
        vec(any::<u64>(), 0..4),
        name(),
        raw,
        entries(),
    )
        .prop_map(|(dims, data_type, int32_data, uint64_data, name, raw, metadata_props)| {
            TensorProto {
                dims,
                data_type: Some(data_type),
                int32_data,
                uint64_data,
                string_data: vec![vec![0xff, 0], vec![]],
                name,
                raw_data: raw.map(Bytes::from),
                metadata_props,
                ..TensorProto::default()
            }
        })
}

fn attribute(
    inner: impl Strategy<Value = GraphProto> + 'static,
) -> impl Strategy<Value = AttributeProto> {
    let lists = (vec(any::<i64>(), 0..4), vec(vec(any::<u8>(), 0..5), 0..3));
    let children = (option::of(tensor()), vec(tensor(), 0..2), option::of(inner));
    (name(), option::of(any::<i64>()), lists, children).prop_map(
        |(name, i, (ints, strings), (t, tensors, g))| AttributeProto {
            name,
            i,
            ints,
            strings,
            t,
            tensors,
            graphs: g.iter().cloned().collect(),
            g,
            r#type: Some(AttributeType::Ints as i32),
            f: Some(-0.0),
            s: Some(vec![0xfe]),
            ..AttributeProto::default()
        },
    )
}

fn any_graph(depth: u32) -> BoxedStrategy<GraphProto> {
    let inner = if depth == 0 { Just(GraphProto::default()).boxed() } else { any_graph(depth - 1) };
    let one_node = (vec("[a-z]{0,3}", 0..3), name(), vec(attribute(inner), 0..2)).prop_map(
        |(input, name, attribute)| NodeProto {
            output: input.clone(),
            input,
            op_type: name.clone(),
            overload: name.clone(),
            name,
            attribute,
            ..NodeProto::default()
        },
    );
    (vec(one_node, 0..3), vec(tensor(), 0..3), name(), entries())
        .prop_map(|(node, initializer, name, metadata_props)| GraphProto {
            node,
            sparse_initializer: vec![SparseTensorProto {
                values: initializer.first().cloned(),
                indices: None,
                dims: vec![1, 2],
            }],
            initializer,
            quantization_annotation: vec![TensorAnnotation {
                tensor_name: name.clone(),
                ..TensorAnnotation::default()
            }],
            value_info: vec![value("v", ElementType::F16, &[])],
            doc_string: name.clone(),
            name,
            metadata_props,
            ..GraphProto::default()
        })
        .boxed()
}

fn any_model() -> impl Strategy<Value = ModelProto> {
    (any_graph(2), any_graph(0), name(), any::<i64>(), entries()).prop_map(
        |(graph, other, name, version, metadata_props)| ModelProto {
            ir_version: Some(version),
            opset_import: vec![OperatorSetIdProto { domain: name.clone(), version: Some(version) }],
            producer_name: name.clone(),
            model_version: Some(-1),
            training_info: vec![TrainingInfoProto {
                algorithm: Some(other.clone()),
                ..TrainingInfoProto::default()
            }],
            functions: vec![FunctionProto { name, node: other.node, ..FunctionProto::default() }],
            graph: Some(graph),
            metadata_props,
            ..ModelProto::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn everything_survives(proto in any_model()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.onnx");
        let model = Model::from_proto(proto.clone()).unwrap();
        let written = model.save(&path).unwrap();
        prop_assert_eq!(written.bytes, std::fs::metadata(&path).unwrap().len());
        prop_assert_eq!(written.data, None);
        let back = Model::open(&path).unwrap();
        prop_assert_eq!(back.proto(), &proto);
        prop_assert_eq!(back.fingerprint(), model.fingerprint());
    }
}

fn weighty() -> Model {
    let large: Vec<f32> = (0..50_000_u16).map(f32::from).collect();
    let weights = vec![
        tensor_f32("large", &[50_000], &large),
        tensor_f32("small", &[2], &[1.0, 2.0]),
        TensorProto {
            raw_data: None,
            float_data: large[..3000].to_vec(),
            ..tensor_f32("typed", &[3000], &[])
        },
    ];
    let nodes = vec![node(
        "Concat",
        "",
        &["large", "small", "typed"],
        &["y"],
        vec![trtforge_onnx::build::attr_int("axis", 0)],
    )];
    model(17, graph(vec![], vec![value("y", ElementType::F32, &[])], nodes, weights)).unwrap()
}

#[test]
fn large_models_are_split_and_complete_in_themselves() {
    let model = weighty();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    let written = model.save_with(&path, &SaveOptions { external_above: 100_000 }).unwrap();
    // Two tensors move: 200,000 bytes at 0, 12,000 at the next multiple of 4,096, which is 200,704.
    assert_eq!(written.data, Some((folder.path().join("model.onnx.data"), 212_704)));
    assert!(written.bytes < 1000, "{}", written.bytes);
    // Complete in itself: it can be moved.
    let elsewhere = tempfile::tempdir().unwrap();
    for file in ["model.onnx", "model.onnx.data"] {
        std::fs::copy(folder.path().join(file), elsewhere.path().join(file)).unwrap();
    }
    let back = Model::open(&elsewhere.path().join("model.onnx")).unwrap();
    for name in ["large", "small", "typed"] {
        let (before, after) =
            (model.graph().initializer(name).unwrap(), back.graph().initializer(name).unwrap());
        assert_eq!((before.bytes(), before.dims), (after.bytes(), after.dims));
    }
    // The same weights in one file are the same model.
    let single = elsewhere.path().join("single.onnx");
    back.save(&single).unwrap();
    assert_eq!(Model::open(&single).unwrap().fingerprint(), back.fingerprint());
}

#[test]
fn weights_are_not_copied_on_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    let weights = vec![
        tensor_raw("a", ElementType::U8, vec![70_000], vec![1; 70_000]),
        tensor_raw("b", ElementType::U8, vec![80_000], vec![2; 80_000]),
    ];
    model(17, graph(vec![], vec![], vec![], weights)).unwrap().save(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let start = |value: u8, count: usize| {
        bytes.windows(count).position(|w| w.iter().all(|&b| b == value)).unwrap()
    };
    let in_file = start(2, 1000) - start(1, 1000);
    let opened = Model::open(&path).unwrap();
    let address =
        |i: usize| opened.graph_proto().initializer[i].raw_data.as_ref().unwrap().as_ptr().addr();
    // Both lie as far apart in memory as in the file: in one mapping, not in buffers of their own.
    assert_eq!(address(1) - address(0), in_file);
}

#[test]
fn a_model_can_be_written_over_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    weighty().save_with(&path, &SaveOptions { external_above: 0 }).unwrap();
    let opened = Model::open(&path).unwrap();
    let before = opened.fingerprint();
    opened.save_with(&path, &SaveOptions { external_above: 0 }).unwrap();
    assert_eq!(Model::open(&path).unwrap().fingerprint(), before);
    assert_eq!(opened.fingerprint(), before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary file is left");
}

#[cfg(unix)]
#[test]
fn written_models_can_be_read_by_others() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    weighty().save(&folder.path().join("m.onnx")).unwrap();
    std::fs::write(folder.path().join("plain"), "").unwrap();
    let mode =
        |file: &str| std::fs::metadata(folder.path().join(file)).unwrap().permissions().mode();
    assert_eq!(mode("m.onnx"), mode("plain"));
}

#[test]
fn the_fingerprint_is_of_the_content() {
    let fingerprint = |w: f32, depth: usize| {
        let mut inner = graph(vec![], vec![], vec![], vec![tensor_f32("w", &[1], &[w])]);
        for _ in 0..depth {
            inner = graph(
                vec![],
                vec![],
                vec![node("If", "", &["c"], &[], vec![attr_graph("then_branch", inner)])],
                vec![],
            );
        }
        model(17, inner).unwrap().fingerprint()
    };
    assert_eq!(fingerprint(1.0, 2), fingerprint(1.0, 2));
    assert_ne!(fingerprint(1.0, 2), fingerprint(1.5, 2));
    assert_ne!(fingerprint(1.0, 0), fingerprint(1.0, 1));
    let folder = tempfile::tempdir().unwrap();
    let paths = [folder.path().join("a.onnx"), folder.path().join("b.onnx")];
    let opened = paths.each_ref().map(|path: &std::path::PathBuf| {
        weighty().save(Path::new(path)).unwrap();
        Model::open(path).unwrap().fingerprint()
    });
    assert_eq!(opened[0], opened[1]);
}
