//! Changes to a graph: what a patch does, what finishing tidies, and what it refuses.

use trtforge_onnx::build::{
    attr_float, attr_graph, attr_int, graph, model, node, tensor_f32, tensor_i8, value,
};
use trtforge_onnx::proto::{GraphProto, NodeProto, ValueInfoProto};
use trtforge_onnx::{
    Dim, ElementType, Model, OnnxError, Patch, Use, attr_f, attr_i, node_label, subgraphs,
};

fn vector(name: &str) -> ValueInfoProto {
    value(name, ElementType::F32, &[Dim::Named("n".into())])
}

fn relu(name: &str, input: &str, output: &str) -> NodeProto {
    node("Relu", name, &[input], &[output], vec![])
}

/// x ─ first ─ a ─ second ─ y, with an `If` whose branch reads `a` too.
fn sample() -> Model {
    let branch = |op: &str, out: &str| {
        graph(
            vec![],
            vec![vector(out)],
            vec![node(op, &format!("inner_{out}"), &["a"], &[out], vec![])],
            vec![],
        )
    };
    let branches = vec![
        attr_graph("then_branch", branch("Neg", "t")),
        attr_graph("else_branch", branch("Abs", "e")),
    ];
    let nodes = vec![
        relu("first", "x", "a"),
        relu("second", "a", "y"),
        node("If", "choose", &["c"], &["z"], branches),
    ];
    let condition = value("c", ElementType::Bool, &[]);
    let mut main = graph(
        vec![vector("x"), condition],
        vec![vector("y"), vector("z")],
        nodes,
        vec![tensor_f32("w", &[1], &[2.0])],
    );
    main.value_info = vec![vector("a")];
    model(13, main).unwrap()
}

fn names(model: &Model) -> Vec<String> {
    model.graph().nodes().iter().enumerate().map(|(i, n)| node_label(n, i)).collect()
}

#[test]
fn a_node_goes_between_others_and_others_stay() {
    let model = sample();
    let mut patch = Patch::new(&model);
    let added = patch.add_node(node("Mul", "scale", &["a", "w"], &["scaled"], vec![]));
    assert_eq!(added, 3);
    patch.replace_input(1, 0, "scaled");
    let changed = patch.finish().unwrap();
    assert_eq!(names(&changed), ["first", "scale", "second", "choose"]);
    assert_eq!(changed.graph().consumers("scaled"), [Use { node: 2, input: 0 }]);
    // The given model is as it was.
    assert_eq!(names(&model), ["first", "second", "choose"]);
}

#[test]
fn replacing_uses_reaches_into_subgraphs() {
    let mut patch = Patch::new(&sample());
    patch.replace_uses("a", "b");
    patch.add_node(relu("extra", "a", "b"));
    // The added node came after: it still reads `a`.
    let changed = patch.finish().unwrap();
    let graph = changed.graph();
    assert_eq!(graph.consumers("a").len(), 1);
    assert!(graph.captured_by_subgraph("b") && !graph.captured_by_subgraph("a"));
    assert_eq!(graph.capturing_nodes("b"), [graph.producer("z").unwrap()]);
    let choose = &graph.nodes()[graph.producer("z").unwrap()];
    assert!(subgraphs(choose).all(|g| g.node[0].input == ["b"]));
}

#[test]
fn captures_can_be_replaced_alone_and_shadows_are_left() {
    let mut patch = Patch::new(&sample());
    patch.replace_captured(2, "a", "x");
    let changed = patch.finish().unwrap();
    assert!(changed.graph().captured_by_subgraph("x"));
    assert_eq!(changed.graph().consumers("a").len(), 1);

    // A branch that defines `a` itself does not read the outer one.
    let own: GraphProto =
        graph(vec![], vec![vector("t")], vec![relu("", "x", "a"), relu("", "a", "t")], vec![]);
    let inputs = vec![vector("x"), value("c", ElementType::Bool, &[])];
    let choose = node("If", "choose", &["c"], &["z"], vec![attr_graph("then_branch", own)]);
    let shadowing = model(13, graph(inputs, vec![vector("z")], vec![choose], vec![])).unwrap();
    let mut patch = Patch::new(&shadowing);
    patch.replace_uses("a", "nothing");
    assert_eq!(patch.finish().unwrap().proto(), shadowing.proto());
}

#[test]
fn names_are_unique_everywhere() {
    let mut patch = Patch::new(&sample());
    assert_eq!(patch.unique_name("fresh"), "fresh");
    // Taken by a node, a tensor, a weight, a subgraph's tensor, a subgraph's node, and the call before.
    for taken in ["first", "a", "w", "t", "inner_t", "fresh"] {
        assert_eq!(patch.unique_name(taken), format!("{taken}_1"));
    }
    patch.add_node(relu("node_name", "x", "tensor_name"));
    assert_eq!(patch.unique_name("node_name"), "node_name_1");
    assert_eq!(patch.unique_name("tensor_name"), "tensor_name_1");
}

#[test]
fn weights_change_in_place() {
    let mut patch = Patch::new(&sample());
    patch.set_initializer("w", ElementType::I8, vec![2], vec![1_u8, 255]);
    patch.add_initializer("zero", ElementType::F32, vec![], 0_f32.to_le_bytes().to_vec());
    let changed = patch.finish().unwrap();
    let graph = changed.graph();
    assert_eq!(graph.initializer("w").unwrap().proto().unwrap(), &tensor_i8("w", &[2], &[1, -1]));
    assert_eq!(*graph.initializer("zero").unwrap().to_f32().unwrap(), [0.0]);

    let mut patch = Patch::new(&changed);
    patch.remove_unused_initializers();
    assert!(patch.finish().unwrap().graph_proto().initializer.is_empty());
}

#[test]
fn attributes_are_set_and_removed() {
    let leaky = node("LeakyRelu", "l", &["x"], &["y"], vec![attr_float("alpha", 0.5)]);
    let model =
        model(13, graph(vec![vector("x")], vec![vector("y")], vec![leaky], vec![])).unwrap();
    let mut patch = Patch::new(&model);
    patch.set_attr(0, attr_float("alpha", 0.25));
    patch.set_attr(0, attr_int("extra", 0));
    assert_eq!(attr_f(patch.node(0).unwrap(), "alpha"), Some(0.25));
    assert_eq!(attr_i(patch.node(0).unwrap(), "extra"), Some(0));
    patch.remove_attr(0, "extra");
    assert_eq!(patch.finish().unwrap().graph().nodes()[0].attribute, [attr_float("alpha", 0.25)]);
}

#[test]
fn stale_types_are_dropped_and_true_ones_kept() {
    let model = sample();
    let mut patch = Patch::new(&model);
    patch.replace_input(1, 0, "x");
    assert_eq!(patch.finish().unwrap().graph_proto().value_info.len(), 1, "`a` was not touched");

    let mut patch = Patch::new(&model);
    patch.set_attr(0, attr_int("axis", 0));
    assert!(
        patch.finish().unwrap().graph_proto().value_info.is_empty(),
        "the node that makes `a` was changed"
    );

    let mut patch = Patch::new(&model);
    patch.replace_input(1, 0, "x");
    patch.replace_captured(2, "a", "x");
    patch.remove_node(0);
    assert!(patch.finish().unwrap().graph_proto().value_info.is_empty(), "`a` is gone");

    // Nothing touched `b`, but upstream a cast makes it float16, which its statement denies.
    let nodes = vec![
        node("Identity", "i", &["x"], &["a"], vec![]),
        relu("r", "a", "b"),
        node("Cast", "out", &["b"], &["y"], vec![attr_int("to", 1)]),
    ];
    let mut main = graph(vec![vector("x")], vec![vector("y")], nodes, vec![]);
    main.value_info = vec![vector("a"), vector("b")];
    let mut patch = Patch::new(&trtforge_onnx::build::model(13, main).unwrap());
    patch.add_node(node("Cast", "half", &["x"], &["h"], vec![attr_int("to", 10)]));
    patch.replace_input(0, 0, "h");
    let changed = patch.finish().unwrap();
    assert!(changed.graph_proto().value_info.is_empty());
    assert_eq!(changed.graph().element_type("b"), Some(ElementType::F16));
}

#[test]
fn the_format_version_rises_only_where_needed() {
    let mut old = sample().proto().clone();
    old.ir_version = Some(3);
    old.opset_import[0].version = Some(8);
    // IR 3 wants every weight listed as an input.
    old.graph.as_mut().unwrap().input.push(value("w", ElementType::F32, &[Dim::Fixed(1)]));
    let old = Model::from_proto(old).unwrap();
    assert_eq!(Patch::new(&old).finish().unwrap().proto().ir_version(), 3);
    assert_eq!(old.graph().inputs().len(), 2, "weights are no inputs");

    let mut patch = Patch::new(&old);
    patch.remove_inputs_that_are_initializers();
    let changed = patch.finish().unwrap();
    assert_eq!(changed.proto().ir_version(), 4);
    assert_eq!(changed.graph_proto().input.len(), 2);

    for (opset, ir) in [(8, 3), (9, 4), (11, 6), (13, 7), (17, 8), (19, 9), (21, 10)] {
        let mut patch = Patch::new(&old);
        patch.set_opset(opset);
        let changed = patch.finish().unwrap();
        assert_eq!((changed.opset(), changed.proto().ir_version()), (opset, ir));
    }
    let mut patch = Patch::new(&old);
    patch.set_initializer("w", ElementType::U4, vec![1], vec![1_u8]);
    assert_eq!(patch.finish().unwrap().proto().ir_version(), 10);
}

#[test]
fn metadata_and_domains() {
    let mut patch = Patch::new(&sample());
    patch.set_metadata("tool", "one");
    patch.set_metadata("tool", "two");
    patch.set_opset_of("com.microsoft", 1);
    patch.set_opset_of("ai.onnx", 14);
    let proto = patch.finish().unwrap().proto().clone();
    assert_eq!(proto.metadata_props.len(), 1);
    assert_eq!(proto.metadata_props[0].value(), "two");
    let imports: Vec<_> = proto.opset_import.iter().map(|i| (i.domain(), i.version())).collect();
    assert_eq!(imports, [("", 14), ("com.microsoft", 1)]);
}

#[test]
fn mistakes_are_refused() {
    let fault = |change: fn(&mut Patch)| {
        let mut patch = Patch::new(&sample());
        change(&mut patch);
        patch.finish().unwrap_err()
    };
    for wrong in [
        fault(|p| p.replace_input(99, 0, "x")),
        fault(|p| {
            p.remove_node(0);
            p.remove_node(0);
        }),
        fault(|p| p.replace_output(0, 5, "q")),
        fault(|p| p.remove_initializer("a")),
        fault(|p| p.set_initializer("a", ElementType::F32, vec![], vec![0; 4])),
    ] {
        assert!(matches!(wrong, OnnxError::Patch { .. }), "{wrong}");
    }
    assert!(matches!(fault(|p| p.replace_input(0, 0, "gone")), OnnxError::Dangling { .. }));
    assert!(matches!(fault(|p| p.replace_input(0, 0, "y")), OnnxError::Cycle { .. }));
    assert!(matches!(fault(|p| p.remove_node(1)), OnnxError::OutputMissing { .. }));
    assert!(matches!(
        fault(|p| {
            p.add_node(relu("again", "x", "a"));
        }),
        OnnxError::Duplicate { .. }
    ));
    assert!(matches!(
        fault(|p| p.add_initializer("q", ElementType::F32, vec![2], vec![0; 4])),
        OnnxError::TensorSize { .. }
    ));
}

#[test]
fn an_optional_input_can_be_reached_over_absent_ones() {
    let clip = node("Clip", "clip", &["x"], &["y"], vec![]);
    let weights = vec![tensor_f32("top", &[], &[6.0])];
    let model =
        model(13, graph(vec![vector("x")], vec![vector("y")], vec![clip], weights)).unwrap();
    let mut patch = Patch::new(&model);
    patch.replace_input(0, 2, "top");
    assert_eq!(patch.finish().unwrap().graph().nodes()[0].input, ["x", "", "top"]);
}
