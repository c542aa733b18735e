//! Small graphs by hand: what stays FP32 and why, how constants and casts are shared, what keeps its name.

mod common;

use std::collections::BTreeMap;

use common::{check_written, count, half, producer};
use trtforge_onnx::build::{
    attr_float, attr_graph, attr_int, attr_ints, attr_tensor, graph, model, node, tensor_f32,
    tensor_i64, value,
};
use trtforge_onnx::proto::{NodeProto, TensorProto};
use trtforge_onnx::{Dim, ElementType, Model};
use trtforge_quantize::{Action, Rewritten, survey};

use ElementType::{F16, F32};

/// A model of an integer input `ids` and an FP32 input `x`, both `[batch, 16]`.
fn small(outputs: &[&str], nodes: Vec<NodeProto>, weights: Vec<TensorProto>) -> Model {
    let shape = [Dim::Named("batch".into()), Dim::Fixed(16)];
    let inputs = vec![value("x", F32, &shape), value("ids", ElementType::I64, &shape)];
    let outputs =
        outputs.iter().map(|name| value(name, F32, &[Dim::Unknown, Dim::Unknown])).collect();
    model(17, graph(inputs, outputs, nodes, weights)).unwrap()
}

fn op(op: &str, inputs: &[&str], output: &str) -> NodeProto {
    node(op, "", inputs, &[output], vec![])
}

fn scalar(name: &str, value: f32) -> TensorProto {
    tensor_f32(name, &[], &[value])
}

fn rewritten(model: &Model, absmax: &[(&str, f32)]) -> Rewritten {
    let absmax: BTreeMap<String, f32> =
        absmax.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
    let half = half(model, &absmax);
    check_written(model, &half, "small");
    half
}

fn types(half: &Rewritten, tensors: &[&str]) -> Vec<ElementType> {
    tensors.iter().map(|t| half.model.graph().element_type(t).unwrap()).collect()
}

fn reason(half: &Rewritten, tensor: &str) -> String {
    half.decisions.iter().find(|d| d.tensor == tensor).unwrap().reason.clone()
}

#[test]
fn an_output_that_is_read_inside_keeps_name_and_type() {
    let nodes = vec![op("Tanh", &["x"], "h"), op("Sigmoid", &["h"], "y")];
    let half = rewritten(&small(&["h", "y"], nodes, vec![]), &[]);
    let sigmoid = half.model.graph_proto().node.iter().find(|n| n.op_type() == "Sigmoid").unwrap();
    assert_eq!(types(&half, &["h", "y", &sigmoid.input[0]]), [F32, F32, F16]);
    // One cast in, one out per output; the reader inside takes the FP16 value without a detour.
    assert_eq!(count(&half.model, "Cast"), 3);
    assert_eq!(producer(&half.model, &sigmoid.input[0]).unwrap().op_type(), "Tanh");
}

#[test]
fn activations_beyond_half_stay_fp32_with_their_readers() {
    let weight = tensor_f32("w", &[16, 16], &[0.1; 256]);
    let nodes = vec![
        op("MatMul", &["x", "w"], "large"),
        op("Tanh", &["large"], "t"),
        op("MatMul", &["t", "w"], "y"),
    ];
    let model = small(&["y"], nodes, vec![weight]);
    assert_eq!(survey(&model).unwrap().watch, ["large", "y"], "Tanh bounds itself");
    for (seen, expected) in [(70_000.0, F32), (40_000.0, F32), (30_000.0, F16)] {
        let half = rewritten(&model, &[("large", seen), ("y", 1.0)]);
        assert_eq!(types(&half, &["large", "t"]), [expected; 2], "{seen}");
        let copies = half.model.graph().initializers().count();
        assert_eq!(
            copies,
            if expected == F32 { 2 } else { 1 },
            "the weight in each precision read"
        );
    }
    let half = rewritten(&model, &[("large", 70_000.0)]);
    assert!(reason(&half, "large").contains("70000"));
    assert!(
        half.warnings.iter().any(|w| w.contains("ranges of 1 activations")),
        "{:?}",
        half.warnings
    );
}

#[test]
fn constants_beyond_half_keep_their_reader_fp32() {
    let mut values = vec![0.5; 256];
    values[7] = 1e5;
    let nodes = vec![op("MatMul", &["x", "w"], "a"), op("Tanh", &["a"], "y")];
    let half = rewritten(&small(&["y"], nodes, vec![tensor_f32("w", &[16, 16], &values)]), &[]);
    assert_eq!(types(&half, &["w", "a"]), [F32, F32]);
    assert!(reason(&half, "a").contains("100000"), "{}", reason(&half, "a"));
}

#[test]
fn lost_values_are_counted_and_many_are_a_warning() {
    let mut values = vec![0.5; 256];
    values[..2].fill(1e-9);
    let nodes = vec![op("MatMul", &["x", "w"], "y")];
    let half = rewritten(&small(&["y"], nodes, vec![tensor_f32("w", &[16, 16], &values)]), &[]);
    assert!(reason(&half, "w").contains("2 of 256"), "{}", reason(&half, "w"));
    assert!(half.warnings.iter().any(|w| w.contains("`w`: 2 of 256")));
}

#[test]
fn casts_to_float_and_filled_shapes_are_retargeted() {
    let fill = attr_tensor("value", tensor_f32("", &[1], &[2.5]));
    let nodes = vec![
        node("Cast", "", &["ids"], &["c"], vec![attr_int("to", 1)]),
        op("Shape", &["x"], "s"),
        node("ConstantOfShape", "", &["s"], &["filled"], vec![fill]),
        node("Constant", "", &[], &["k"], vec![attr_float("value_float", 3.0)]),
        op("Add", &["x", "c"], "a"),
        op("Mul", &["a", "filled"], "b"),
        op("Mul", &["b", "k"], "y"),
    ];
    let half = rewritten(&small(&["y"], nodes, vec![]), &[]);
    assert_eq!(types(&half, &["c", "filled", "k", "a", "b"]), [F16; 5]);
    assert_eq!(count(&half.model, "Cast"), 3, "x in, ids, y out");
    assert_eq!(half.model.graph().constant("k").unwrap().to_f32().unwrap()[0], 3.0);
}

#[test]
fn arithmetic_on_shapes_and_angles_stays_fp32() {
    let nodes = vec![
        op("Shape", &["x"], "s"),
        op("Gather", &["s", "last"], "d"),
        node("Cast", "", &["d"], &["df"], vec![attr_int("to", 1)]),
        op("Sqrt", &["df"], "root"),
        op("Div", &["x", "root"], "scaled"),
        node("Cast", "", &["ids"], &["p"], vec![attr_int("to", 1)]),
        op("Sin", &["p"], "angle"),
        op("Add", &["scaled", "angle"], "y"),
    ];
    let half = rewritten(&small(&["y"], nodes, vec![tensor_i64("last", &[], &[1])]), &[]);
    assert_eq!(types(&half, &["df", "root", "scaled", "angle"]), [F32, F32, F16, F32]);
    assert!(reason(&half, "root").contains("shapes"));
}

#[test]
fn tiny_epsilons_are_guarded_up_to_the_division() {
    let nodes = vec![
        node("ReduceL2", "", &["x"], &["n"], vec![attr_ints("axes", &[-1])]),
        op("Clip", &["n", "eps"], "c"),
        op("Shape", &["x"], "s"),
        op("Expand", &["c", "s"], "e"),
        op("Div", &["x", "e"], "unit"),
        op("Softmax", &["unit"], "y"),
    ];
    let half = rewritten(&small(&["y"], nodes, vec![scalar("eps", 1e-12)]), &[]);
    assert_eq!(types(&half, &["n", "c", "e", "unit", "eps"]), [F32; 5]);
    let softmax = half.model.graph_proto().node.iter().find(|n| n.op_type() == "Softmax").unwrap();
    assert_eq!(half.model.graph().element_type(&softmax.input[0]), Some(F16));
}

/// `x − mean`, squared in either spelling, averaged, plus epsilon, root, and one of the ways to divide.
fn normalization(square: &str, divide: &str) -> Vec<NodeProto> {
    let mean =
        |input, output| node("ReduceMean", "", &[input], &[output], vec![attr_ints("axes", &[-1])]);
    let mut nodes =
        vec![op("Softmax", &["x"], "r"), mean("r", "mean"), op("Sub", &["r", "mean"], "d")];
    nodes.push(match square {
        "Pow" => op("Pow", &["d", "two"], "sq"),
        _ => op("Mul", &["d", "d"], "sq"),
    });
    nodes.extend([mean("sq", "var"), op("Add", &["var", "eps"], "ve")]);
    match divide {
        "Div" => nodes.extend([op("Sqrt", &["ve"], "std"), op("Div", &["d", "std"], "norm")]),
        "Pow" => {
            nodes.extend([op("Pow", &["ve", "minus_half"], "rs"), op("Mul", &["d", "rs"], "norm")]);
        }
        _ => nodes.extend([
            op("Sqrt", &["ve"], "std"),
            op("Reciprocal", &["std"], "rs"),
            op("Mul", &["rs", "gamma"], "s"),
            op("Mul", &["r", "s"], "rsx"),
            op("Mul", &["mean", "s"], "ms"),
            op("Sub", &["beta", "ms"], "shift"),
            op("Add", &["rsx", "shift"], "norm"),
        ]),
    }
    nodes.push(op("Softmax", &["norm"], "y"));
    nodes
}

#[test]
fn normalizations_are_found_in_every_spelling() {
    for (square, divide) in [("Pow", "Div"), ("Mul", "Div"), ("Mul", "Pow"), ("Mul", "Reciprocal")]
    {
        // An epsilon FP16 could hold, so that the pattern alone decides.
        let constants = vec![
            scalar("two", 2.0),
            scalar("eps", 1e-3),
            scalar("minus_half", -0.5),
            tensor_f32("gamma", &[16], &[1.0; 16]),
            tensor_f32("beta", &[16], &[0.0; 16]),
        ];
        let half = rewritten(&small(&["y"], normalization(square, divide), constants), &[]);
        let block = ["mean", "d", "sq", "var", "ve", "norm"];
        assert_eq!(types(&half, &block), [F32; 6], "{square} {divide}");
        assert_eq!(types(&half, &["r"]), [F16], "{square} {divide}");
        // x in, r into the block, the block out, y out.
        assert_eq!(count(&half.model, "Cast"), 4, "{square} {divide}");
    }
}

#[test]
fn a_mask_is_clamped_wherever_it_comes_from() {
    let fill = attr_tensor("value", tensor_f32("", &[1], &[f32::MIN]));
    let filled =
        vec![op("Shape", &["x"], "s"), node("ConstantOfShape", "", &["s"], &["m"], vec![fill])];
    let stored = vec![op("Identity", &["sentinel"], "m")];
    let where_ = vec![
        node("Cast", "", &["ids"], &["keep"], vec![attr_int("to", 9)]),
        op("Where", &["keep", "zero", "sentinel"], "m"),
    ];
    for (mut nodes, what) in [(filled, "filled"), (stored, "stored"), (where_, "where")] {
        nodes.push(op("Add", &["x", "m"], "masked"));
        nodes.push(node("Softmax", "", &["masked"], &["y"], vec![attr_int("axis", -1)]));
        let constants = vec![scalar("sentinel", f32::NEG_INFINITY), scalar("zero", 0.0)];
        let model = small(&["y"], nodes, constants);
        let survey = survey(&model).unwrap();
        assert!(survey.masked.contains("m") && survey.masked.contains("masked"), "{what}");
        assert!(survey.watch.is_empty() && survey.observe.is_empty(), "{what}: {:?}", survey.watch);
        let half = rewritten(&model, &[]);
        assert_eq!(types(&half, &["m", "masked"]), [F16; 2], "{what}");
        let clamped =
            |d: &&trtforge_quantize::Decision| matches!(d.action, Action::ClampedConstant { .. });
        assert_eq!(half.decisions.iter().filter(clamped).count(), 1, "{what}");
        assert!(half.warnings[0].contains("-30000"), "{what}: {:?}", half.warnings);
    }
}

#[test]
fn a_large_constant_that_reaches_no_softmax_is_no_mask() {
    let nodes = vec![op("Mul", &["x", "k"], "a"), op("Tanh", &["a"], "y")];
    let model = small(&["y"], nodes, vec![scalar("k", -10_000.0)]);
    assert!(survey(&model).unwrap().masked.is_empty());
    assert_eq!(types(&rewritten(&model, &[]), &["k", "a"]), [F16, F16]);
}

#[test]
fn branches_stay_as_they_are_and_read_fp32() {
    let branch = |name: &str| {
        let nodes = vec![op("Mul", &["h", "w"], name)];
        attr_graph(name, graph(vec![], vec![value(name, F32, &[])], nodes, vec![]))
    };
    let mut then = branch("then_branch");
    let mut other = branch("else_branch");
    then.name = Some("then_branch".into());
    other.name = Some("else_branch".into());
    let nodes = vec![
        op("Tanh", &["x"], "h"),
        op("Mul", &["h", "w"], "a"),
        op("ReduceMax", &["ids"], "m"),
        node("Cast", "", &["m"], &["c"], vec![attr_int("to", 9)]),
        node("If", "", &["c"], &["i"], vec![then, other]),
        op("Add", &["a", "i"], "y"),
    ];
    let half = rewritten(&small(&["y"], nodes, vec![scalar("w", 2.0)]), &[]);
    assert_eq!(types(&half, &["h", "w", "i", "a"]), [F32, F32, F32, F16]);
    let mul = producer(&half.model, "a").unwrap();
    assert_eq!(producer(&half.model, &mul.input[0]).unwrap().op_type(), "Tanh");
}

#[test]
fn operators_without_a_half_form_stay_and_say_so() {
    let nodes = vec![
        op("Softmax", &["x"], "t"),
        op("Relu", &["x"], "island"),
        node("Bernoulli", "", &["t"], &["b"], vec![]),
        node("Bernoulli", "", &["island"], &["b2"], vec![]),
        op("Max", &["b", "b2"], "between"),
        node("Bernoulli", "", &["between"], &["b3"], vec![]),
        op("Softmax", &["b3"], "y"),
    ];
    let half = rewritten(&small(&["y"], nodes, vec![]), &[]);
    assert_eq!(types(&half, &["t", "b"]), [F16, F32]);
    assert!(reason(&half, "b").contains("no FP16 form"));
    // Light operators that only connect FP32 ones do not go to FP16 and back.
    assert_eq!(types(&half, &["island", "between"]), [F32, F32]);
    assert!(reason(&half, "between").contains("two casts"));
    assert_eq!(reason(&half, "x"), "a graph input keeps its type");
}
