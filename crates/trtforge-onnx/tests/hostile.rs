//! Files that are not what they should be, one by one: each gives an error that says what was found, never a panic.

use std::path::Path;

use miette::Diagnostic;
use prost::Message;
use trtforge_onnx::build::{attr_graph, graph, model, node, tensor_f32, tensor_raw, value};
use trtforge_onnx::proto::tensor_proto::DataLocation;
use trtforge_onnx::proto::{
    GraphProto, ModelProto, NodeProto, StringStringEntryProto, TensorProto, ValueInfoProto,
};
use trtforge_onnx::{Dim, ElementType, Model, OnnxError, Patch};

fn vector(name: &str) -> ValueInfoProto {
    value(name, ElementType::F32, &[Dim::Named("n".into())])
}

fn relu(input: &str, output: &str) -> NodeProto {
    node("Relu", "", &[input], &[output], vec![])
}

/// x → nodes → y, with the given weights.
fn simple(nodes: Vec<NodeProto>, weights: Vec<TensorProto>) -> ModelProto {
    model(17, graph(vec![vector("x")], vec![vector("y")], nodes, weights)).unwrap().proto().clone()
}

fn good() -> ModelProto {
    let add = node("Add", "add", &["x", "w"], &["y"], vec![]);
    simple(vec![add], vec![tensor_f32("w", &[2], &[1.0, 2.0])])
}

/// What opening (and checking) a file with these bytes says: code, message and help in one text.
fn complaint(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    std::fs::write(&path, bytes).unwrap();
    said(&Model::open(&path).and_then(|m| m.check()).unwrap_err())
}

fn said(error: &OnnxError) -> String {
    let (code, help) = (error.code().unwrap().to_string(), error.help().unwrap().to_string());
    format!("{code}: {error} [{help}]")
}

fn assert_says(complaint: &str, parts: &[&str]) {
    for part in parts {
        assert!(complaint.contains(part), "`{part}` is missing in: {complaint}");
    }
}

#[test]
fn the_good_model_is_good() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    std::fs::write(&path, good().encode_to_vec()).unwrap();
    Model::open(&path).unwrap().check().unwrap();
}

#[test]
fn other_files_are_recognised() {
    assert_says(&complaint(b""), &["onnx::not_onnx", "is empty"]);
    assert_says(&complaint(b"{\"architectures\": []}"), &["JSON", "config.json"]);
    assert_says(&complaint(b"PK\x03\x04abcdef"), &["zip", "PyTorch", "export"]);
    assert_says(&complaint(&[0xff; 64]), &["onnx::malformed", "64 bytes"]);
    // Text that happens to parse as fields of no meaning still has no graph.
    assert_says(
        &complaint(&ModelProto { ir_version: Some(8), ..ModelProto::default() }.encode_to_vec()),
        &["no graph"],
    );
}

#[test]
fn every_truncation_is_an_error_and_never_a_panic() {
    let bytes = good().encode_to_vec();
    for length in 0..bytes.len() {
        // A cut between two top-level fields parses, but then parts are missing.
        let said = complaint(&bytes[..length]);
        assert!(said.starts_with("onnx::"), "{said}");
    }
}

#[test]
fn a_directory_and_a_missing_file() {
    let folder = tempfile::tempdir().unwrap();
    assert_says(
        &said(&Model::open(folder.path()).unwrap_err()),
        &["directory", "name the .onnx file"],
    );
    assert_says(
        &said(&Model::open(&folder.path().join("no.onnx")).unwrap_err()),
        &["onnx::io", "no.onnx"],
    );
}

#[test]
fn deep_nesting_ends() {
    let mut inner = graph(vec![], vec![vector("y")], vec![relu("x", "y")], vec![]);
    for _ in 0..200 {
        let branch = node("If", "", &["c"], &["y"], vec![attr_graph("then_branch", inner)]);
        inner = graph(vec![], vec![vector("y")], vec![branch], vec![]);
    }
    let bytes = ModelProto { ir_version: Some(8), graph: Some(inner), ..ModelProto::default() }
        .encode_to_vec();
    assert_says(&complaint(&bytes), &["onnx::malformed", "recursion"]);
}

fn broken_weight(weight: TensorProto) -> String {
    complaint(
        &simple(vec![node("Add", "add", &["x", "w"], &["y"], vec![])], vec![weight])
            .encode_to_vec(),
    )
}

#[test]
fn impossible_shapes() {
    let sized =
        |dims: &[i64]| broken_weight(tensor_raw("w", ElementType::F32, dims.to_vec(), vec![0; 8]));
    assert_says(&sized(&[3]), &["onnx::tensor_size", "`w`", "8 bytes", "12 are needed"]);
    assert_says(&sized(&[-2]), &["onnx::tensor_size", "[-2]"]);
    assert_says(&sized(&[i64::MAX, i64::MAX]), &["onnx::tensor_size", "a sensible number"]);
    // 2^62 elements of 4 bytes: the element count fits 64 bits, the byte count does not.
    assert_says(&sized(&[1 << 62]), &["onnx::tensor_size", "a sensible number"]);
    assert_says(
        &broken_weight(tensor_raw("w", ElementType::Other(99), vec![2], vec![0; 8])),
        &["onnx::tensor_type", "type 99"],
    );
    assert_says(
        &broken_weight(TensorProto { raw_data: None, ..tensor_f32("w", &[2], &[]) }),
        &["0 bytes", "8 are needed"],
    );
}

#[test]
fn faults_of_structure() {
    let broken = |nodes| complaint(&simple(nodes, vec![]).encode_to_vec());
    assert_says(&broken(vec![relu("nowhere", "y")]), &["onnx::dangling", "`Relu(y)`", "`nowhere`"]);
    assert_says(&broken(vec![relu("x", "z")]), &["onnx::output_missing", "`y`"]);
    assert_says(&broken(vec![relu("x", "y"), relu("x", "y")]), &["onnx::duplicate", "`y`"]);
    assert_says(
        &broken(vec![relu("x", "x"), relu("x", "y")]),
        &["onnx::duplicate", "`x`", "a graph input"],
    );
    assert_says(
        &broken(vec![relu("a", "y"), relu("x", "a")]),
        &["onnx::unsorted", "before `Relu(a)`"],
    );
    let cycle = broken(vec![
        node("Add", "n1", &["b", "x"], &["a"], vec![]),
        node("Relu", "n2", &["a"], &["b"], vec![]),
        relu("a", "y"),
    ]);
    assert_says(&cycle, &["onnx::cycle", "n1", "n2"]);
    assert_says(
        &broken(vec![node("", "odd", &["x"], &["y"], vec![])]),
        &["onnx::incomplete", "operator", "odd"],
    );
    let foreign = NodeProto { domain: Some("com.example".into()), ..relu("x", "y") };
    assert_says(&broken(vec![foreign]), &["onnx::opset_missing", "com.example", "`Relu(y)`"]);
    assert_says(
        &broken(vec![node(
            "Add",
            "",
            &["x", "x"],
            &["y"],
            vec![attr_graph("body", graph(vec![], vec![vector("q")], vec![], vec![]))],
        )]),
        &["`q`"],
    );
}

#[test]
fn types_must_agree() {
    let half = |name: &str| tensor_raw(name, ElementType::F16, vec![1], vec![0; 2]);
    let mixed = simple(vec![node("Add", "sum", &["x", "h"], &["y"], vec![])], vec![half("h")]);
    assert_says(
        &complaint(&mixed.encode_to_vec()),
        &["onnx::mixed_types", "`sum`", "`h` is float16", "Cast"],
    );
    let output = simple(vec![node("Identity", "", &["h"], &["y"], vec![])], vec![half("h")]);
    assert_says(
        &complaint(&output.encode_to_vec()),
        &["onnx::output_type", "`y`", "float32", "float16"],
    );
}

#[test]
fn missing_parts_of_the_model() {
    let without = |change: fn(&mut ModelProto)| {
        let mut proto = good();
        change(&mut proto);
        complaint(&proto.encode_to_vec())
    };
    assert_says(&without(|m| m.opset_import.clear()), &["onnx::no_opset"]);
    assert_says(&without(|m| m.ir_version = None), &["ir_version"]);
    assert_says(&without(|m| m.graph.as_mut().unwrap().output.clear()), &["no graph output"]);
    let twice = without(|m| {
        let graph = m.graph.as_mut().unwrap();
        graph.initializer.push(graph.initializer[0].clone());
    });
    assert_says(&twice, &["onnx::duplicate", "`w`", "an initializer"]);
    let nameless = without(|m| m.graph.as_mut().unwrap().initializer[0].name = None);
    assert_says(&nameless, &["name for one of its initializers"]);
    let inputs = without(|m| m.graph.as_mut().unwrap().input.push(vector("x")));
    assert_says(&inputs, &["onnx::duplicate", "`x`"]);
}

fn external(entries: &[(&str, &str)]) -> ModelProto {
    let entry = |(key, value): &(&str, &str)| StringStringEntryProto {
        key: Some((*key).into()),
        value: Some((*value).into()),
    };
    let mut proto = good();
    let graph: &mut GraphProto = proto.graph.as_mut().unwrap();
    graph.initializer[0].raw_data = None;
    graph.initializer[0].data_location = Some(DataLocation::External as i32);
    graph.initializer[0].external_data = entries.iter().map(entry).collect();
    proto
}

fn open_external(entries: &[(&str, &str)], prepare: impl Fn(&Path)) -> Result<Model, OnnxError> {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    let path = folder.path().join("model.onnx");
    std::fs::write(&path, external(entries).encode_to_vec()).unwrap();
    Model::open(&path)
}

fn data_file(folder: &Path) {
    std::fs::write(folder.join("w.bin"), [0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 64, 64]).unwrap();
}

#[test]
fn external_data_is_read_where_it_says() {
    let values = |entries: &[(&str, &str)]| {
        let model = open_external(entries, data_file).unwrap();
        model.check().unwrap();
        model.graph().initializer("w").unwrap().to_f32().unwrap().to_vec()
    };
    assert_eq!(values(&[("location", "w.bin"), ("offset", "0"), ("length", "8")]), [1.0, 2.0]);
    assert_eq!(values(&[("location", "w.bin"), ("offset", "4"), ("length", "8")]), [2.0, 3.0]);
    // Without a length, the shape says how much.
    assert_eq!(values(&[("location", "w.bin"), ("offset", "4")]), [2.0, 3.0]);
    assert_eq!(values(&[("location", "w.bin")]), [1.0, 2.0]);
    assert_eq!(values(&[("location", "./w.bin"), ("checksum", "ignored")]), [1.0, 2.0]);
}

#[test]
fn external_data_outside_of_the_folder_is_refused() {
    for (location, why) in [
        ("/etc/hostname", "absolute"),
        ("../w.bin", "outside"),
        ("a/../../w.bin", "outside"),
        ("..\\w.bin", "outside"),
        ("C:\\w.bin", "absolute"),
        ("\\\\server\\w.bin", "absolute"),
        ("", "no file"),
        ("w\0.bin", "no file name"),
    ] {
        let error = open_external(&[("location", location)], data_file).unwrap_err();
        assert_says(&said(&error), &["onnx::external_location", "`w`", location, why]);
    }
}

#[test]
fn external_data_faults() {
    let fault = |entries: &[(&str, &str)]| {
        said(&open_external(entries, data_file).and_then(|m| m.check()).unwrap_err())
    };
    assert_says(&fault(&[("location", "no.bin")]), &["onnx::external_missing", "no.bin", "`w`"]);
    assert_says(&fault(&[]), &["onnx::external_entry", "location", "absent"]);
    assert_says(
        &fault(&[("location", "w.bin"), ("offset", "8")]),
        &["onnx::external_range", "w.bin", "12 bytes", "8..8+8"],
    );
    assert_says(
        &fault(&[("location", "w.bin"), ("offset", "many")]),
        &["onnx::external_entry", "`many`", "a number"],
    );
    assert_says(
        &fault(&[("location", "w.bin"), ("offset", "-4")]),
        &["onnx::external_entry", "`-4`"],
    );
    let huge = u64::MAX.to_string();
    assert_says(
        &fault(&[("location", "w.bin"), ("offset", &huge), ("length", "8")]),
        &["onnx::external_range"],
    );
    assert_says(&fault(&[("location", "w.bin"), ("length", &huge)]), &["onnx::external_range"]);
    assert_says(
        &fault(&[("location", "w.bin"), ("length", "4")]),
        &["onnx::tensor_size", "4 bytes", "8 are needed"],
    );
    let folder_instead = said(
        &open_external(&[("location", "d")], |f| std::fs::create_dir(f.join("d")).unwrap())
            .unwrap_err(),
    );
    assert_says(&folder_instead, &["onnx::external_missing", "not a regular file"]);
    let pointer = |folder: &Path| {
        std::fs::write(folder.join("w.bin"), "version https://git-lfs.github.com/spec/v1\n")
            .unwrap();
    };
    let lfs =
        said(&open_external(&[("location", "w.bin"), ("offset", "40")], pointer).unwrap_err());
    assert_says(&lfs, &["git lfs pull"]);
}

#[test]
fn external_regions_may_overlap() {
    // Tied weights share their bytes; reading them twice harms nobody.
    let mut proto = external(&[("location", "w.bin"), ("offset", "0")]);
    let graph = proto.graph.as_mut().unwrap();
    let mut second = graph.initializer[0].clone();
    second.name = Some("v".into());
    second.external_data[1].value = Some("4".into());
    graph.initializer.push(second);
    let folder = tempfile::tempdir().unwrap();
    data_file(folder.path());
    std::fs::write(folder.path().join("m.onnx"), proto.encode_to_vec()).unwrap();
    let model = Model::open(&folder.path().join("m.onnx")).unwrap();
    assert_eq!(*model.graph().initializer("w").unwrap().to_f32().unwrap(), [1.0, 2.0]);
    assert_eq!(*model.graph().initializer("v").unwrap().to_f32().unwrap(), [2.0, 3.0]);
}

#[cfg(unix)]
#[test]
fn a_linked_data_file_is_followed() {
    // Model hubs keep files as links into a folder of blobs beside the model's.
    let hub = tempfile::tempdir().unwrap();
    let (blobs, snapshot) = (hub.path().join("blobs"), hub.path().join("snapshot"));
    std::fs::create_dir(&blobs).unwrap();
    std::fs::create_dir(&snapshot).unwrap();
    data_file(&blobs);
    std::os::unix::fs::symlink("../blobs/w.bin", snapshot.join("w.bin")).unwrap();
    std::fs::write(blobs.join("m"), external(&[("location", "w.bin")]).encode_to_vec()).unwrap();
    std::os::unix::fs::symlink("../blobs/m", snapshot.join("model.onnx")).unwrap();
    let model = Model::open(&snapshot.join("model.onnx")).unwrap();
    assert_eq!(*model.graph().initializer("w").unwrap().to_f32().unwrap(), [1.0, 2.0]);
}

#[test]
fn a_message_has_no_folder_to_find_data_in() {
    let error = Model::from_proto(external(&[("location", "w.bin")])).unwrap_err();
    assert_says(&said(&error), &["onnx::external_location", "not read from a file"]);
    assert_says(&said(&Model::from_proto(ModelProto::default()).unwrap_err()), &["no graph"]);
}

#[test]
fn looking_at_a_broken_graph_does_not_panic() {
    let cyclic = simple(
        vec![
            relu("b", "a"),
            node("Identity", "", &["a"], &["b"], vec![]),
            node("Identity", "", &["i"], &["i"], vec![]),
        ],
        vec![],
    );
    let model = Model::from_proto(cyclic).unwrap();
    let graph = model.graph();
    assert!(graph.constant("i").is_none());
    assert_eq!(graph.element_type("a"), None);
    assert_eq!(graph.shape("x").unwrap(), [Dim::Named("n".into())]);
    assert!(Patch::new(&model).finish().is_err());
}

#[test]
fn saving_where_nothing_can_be_written() {
    let model = Model::from_proto(good()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let error = model.save(&folder.path().join("no/such/model.onnx")).unwrap_err();
    assert_says(&said(&error), &["onnx::io", "cannot write", "model.onnx"]);
    assert!(model.save(Path::new("..")).is_err());
    // A folder of that name is in the way: nothing is left behind.
    std::fs::create_dir(folder.path().join("taken")).unwrap();
    assert!(model.save(&folder.path().join("taken")).is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
