//! GELU in every form that exporters write, and in forms that are nearly one.

mod common;

use common::patterns::{Variant, model_of, op, replaced, scalar, weights, with};
use common::{canonical, unchanged};
use trtforge_onnx::attr_s;
use trtforge_onnx::proto::NodeProto;

/// Up to `e`, the function.
fn erf() -> Vec<NodeProto> {
    vec![op("Div", &["x", "sqrt2"], "u"), op("Erf", &["u"], "e")]
}

fn tanh(cube: &[(&str, &[&str], &str)]) -> Vec<NodeProto> {
    let argument: [(&str, &[&str], &str); 4] = [
        ("Mul", &["cubed", "cubic"], "c"),
        ("Add", &["x", "c"], "inner"),
        ("Mul", &["inner", "slope"], "u"),
        ("Tanh", &["u"], "e"),
    ];
    with(with(vec![], cube), &argument)
}

fn after(function: Vec<NodeProto>, nodes: &[(&str, &[&str], &str)]) -> Vec<NodeProto> {
    with(function, nodes)
}

fn gelus() -> Vec<Variant> {
    let plus: (&str, &[&str], &str) = ("Add", &["e", "one"], "p");
    let last: [(&str, &[&str], &str); 2] =
        [("Mul", &["x", "p"], "q"), ("Mul", &["q", "half"], "y")];
    let multiplied = vec![op("Mul", &["x", "rsqrt2"], "u"), op("Erf", &["u"], "e")];
    let swapped = vec![op("Mul", &["rsqrt2", "x"], "u"), op("Erf", &["u"], "e")];
    let cube: &[(&str, &[&str], &str)] = &[("Pow", &["x", "three"], "cubed")];
    let whole: [(&str, &[&str], &str); 3] = [plus, last[0], last[1]];
    vec![
        ("half last", 13, after(erf(), &whole)),
        (
            "half first",
            13,
            after(erf(), &[plus, ("Mul", &["x", "half"], "h"), ("Mul", &["h", "p"], "y")]),
        ),
        (
            "half first, swapped",
            13,
            after(erf(), &[plus, ("Mul", &["half", "x"], "h"), ("Mul", &["p", "h"], "y")]),
        ),
        (
            "half of the sum",
            13,
            after(erf(), &[plus, ("Mul", &["p", "half"], "h"), ("Mul", &["x", "h"], "y")]),
        ),
        (
            "half by Div",
            13,
            after(erf(), &[plus, ("Mul", &["p", "x"], "q"), ("Div", &["q", "two"], "y")]),
        ),
        ("one first", 13, after(erf(), &[("Add", &["one", "e"], "p"), last[0], last[1]])),
        (
            "half spread out",
            13,
            after(
                erf(),
                &[
                    ("Mul", &["e", "half"], "h"),
                    ("Add", &["h", "half"], "p"),
                    ("Mul", &["x", "p"], "y"),
                ],
            ),
        ),
        ("by 1/√2", 13, after(multiplied, &whole)),
        ("by 1/√2, swapped", 13, after(swapped, &whole)),
        ("opset 20", 20, after(erf(), &whole)),
        ("tanh, cubed by Pow", 13, after(tanh(cube), &whole)),
        (
            "tanh, cubed by Mul",
            13,
            after(tanh(&[("Mul", &["x", "x"], "s"), ("Mul", &["s", "x"], "cubed")]), &whole),
        ),
        (
            "tanh, half first",
            13,
            after(tanh(cube), &[plus, ("Mul", &["x", "half"], "h"), ("Mul", &["h", "p"], "y")]),
        ),
        (
            "tanh, factored",
            13,
            after(
                with(
                    vec![],
                    &[
                        ("Mul", &["x", "slope"], "sx"),
                        ("Mul", &["cubic", "x"], "cx"),
                        ("Mul", &["cx", "x"], "cxx"),
                        ("Add", &["one", "cxx"], "inner"),
                        ("Mul", &["sx", "inner"], "u"),
                        ("Tanh", &["u"], "e"),
                    ],
                ),
                &whole,
            ),
        ),
    ]
}

#[test]
fn every_written_out_gelu_becomes_the_operator() {
    for (name, opset, nodes) in gelus() {
        let canonical = canonical(&model_of(opset, &["y"], nodes, weights()), name);
        let nodes = &canonical.model.graph_proto().node;
        assert_eq!((nodes.len(), nodes[0].op_type()), (1, "Gelu"), "{name}: {canonical:?}");
        let approximate = attr_s(&nodes[0], "approximate");
        assert_eq!(approximate, name.starts_with("tanh").then_some("tanh"), "{name}");
        assert_eq!((canonical.model.opset(), &canonical.near_misses[..]), (20, &[][..]), "{name}");
    }
}

#[test]
fn nearly_a_gelu_stays_and_says_why() {
    let whole: [(&str, &[&str], &str); 3] =
        [("Add", &["e", "one"], "p"), ("Mul", &["x", "p"], "q"), ("Mul", &["q", "half"], "y")];
    let one: &[&str] = &["y"];
    let close = vec![op("Div", &["x", "close"], "u"), op("Erf", &["u"], "e")];
    let cube: &[(&str, &[&str], &str)] = &[("Pow", &["x", "three"], "cubed")];
    for (reason, outputs, nodes) in [
        ("the argument of its Erf is 0.70", one, after(close, &whole)),
        ("no multiple of a tensor", one, after(vec![op("Erf", &["x"], "e")], &whole)),
        (
            "up to there it is not x/2",
            one,
            after(
                erf(),
                &[
                    ("Add", &["e", "one"], "p"),
                    ("Mul", &["x", "p"], "q"),
                    ("Mul", &["q", "two"], "y"),
                ],
            ),
        ),
        (
            "is no part of a GELU",
            one,
            after(erf(), &[("Add", &["e", "one"], "p"), ("Mul", &["gain", "p"], "y")]),
        ),
        ("`e` is an output of the model", &["y", "e"], after(erf(), &whole)),
        ("`u` is an output of the model", &["y", "u"], after(erf(), &whole)),
        ("2 nodes read `p`", &["y", "z"], with(after(erf(), &whole), &[("Neg", &["p"], "z")])),
        (
            "`u`, inside of it, is read by `/norm/z`",
            &["y", "z"],
            with(after(erf(), &whole), &[("Neg", &["u"], "z")]),
        ),
        ("x³ of `x`", one, after(replaced(tanh(cube), op("Mul", &["cubed", "half"], "c")), &whole)),
    ] {
        let mut weights = weights();
        weights.push(scalar("close", 1.4141));
        let canonical = unchanged(&model_of(13, outputs, nodes, weights), reason);
        let reasons: Vec<_> = canonical.near_misses.iter().map(|miss| &miss.reason).collect();
        assert!(reasons.iter().any(|found| found.contains(reason)), "{reason}: {reasons:?}");
    }
}

#[test]
fn a_plain_tanh_or_root_is_no_near_miss() {
    let nodes = vec![op("Tanh", &["x"], "t"), op("Mul", &["t", "t"], "s"), op("Sqrt", &["s"], "y")];
    assert_eq!(unchanged(&model_of(13, &["y"], nodes, weights()), "plain").near_misses, []);
}
