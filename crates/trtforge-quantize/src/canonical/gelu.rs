//! Finding GELU written out: `x · Φ(x)` in any order of its operands, exact with `Erf` or approximated with `Tanh`.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

use super::NearMiss;
use super::expression::{Expression, Reader};
use super::fuse::{Fusion, Operator};
use super::view::View;

/// How far from the exact constants those of the graph may be: FP32 holds 1/√2 to 3e-8.
const TOLERANCE: f64 = 1e-6;
/// Of the cubic term of the tanh form.
const CUBIC: f64 = 0.044_715;
/// Nodes after the function: a sum and two products, whatever their order, and one to spare.
const NODES_AFTER: usize = 4;

/// The GELU around an `Erf` or a `Tanh`; `None` when that is used for something else.
pub(super) fn find(view: &View, function: usize) -> Option<Result<Fusion, NearMiss>> {
    let exact = view.is(function, "Erf");
    let argument = view.input(function, 0)?;
    let (x, mut reader) = match source(view, argument, exact) {
        Source::Found(x, reader) => (x, reader),
        Source::Other => return None,
        Source::Near(reason) => return Some(Err(view.miss([function], reason))),
    };
    reader.nodes.insert(function);
    reader.known.insert(view.output(function), Expression::f());
    let found = result(&mut reader, function).and_then(|output| {
        if !view.is_single(output) {
            return Err(format!("`{output}` is not FP32"));
        }
        match view.needed_outside(&reader.nodes, output) {
            Some(reason) => Err(reason),
            None => Ok(output),
        }
    });
    Some(match found {
        Ok(output) => Ok(Fusion {
            operator: Operator::Gelu { tanh: !exact },
            nodes: reader.nodes,
            input: x.to_owned(),
            output: output.to_owned(),
        }),
        Err(reason) => Err(view.miss(reader.nodes, reason)),
    })
}

enum Source<'v, 'm> {
    /// The tensor, and the reader that has read the argument.
    Found(&'m str, Reader<'v, 'm>),
    /// The argument is nothing like GELU's.
    Other,
    /// It nearly is.
    Near(String),
}

/// The tensor that the argument of the function is made of.
fn source<'v, 'm>(view: &'v View<'m>, argument: &'m str, exact: bool) -> Source<'v, 'm> {
    let slope = if exact { FRAC_1_SQRT_2 } else { FRAC_2_PI.sqrt() };
    let mut near = None;
    for x in Reader::candidates(view, argument) {
        let mut reader = Reader::new(view, x);
        let Some(found) = reader.read(argument) else { continue };
        let exact_form = [((1, 0), slope)];
        let tanh_form = [((1, 0), slope), ((3, 0), slope * CUBIC)];
        if found.is(if exact { &exact_form[..] } else { &tanh_form }, TOLERANCE) {
            return Source::Found(x, reader);
        }
        let (linear, cubic) = (found.coefficient(1, 0), found.coefficient(3, 0));
        if exact && x != argument && near.is_none() {
            near = Some(format!(
                "the argument of its Erf is {linear} · `{x}`, and that of GELU is {slope} · x"
            ));
        } else if !exact && cubic != 0.0 {
            near = Some(format!(
                "the argument of its Tanh is {linear} · x + {cubic} · x³ of `{x}`, and that of GELU is {slope} · (x + {CUBIC} · x³)"
            ));
        }
    }
    let plain = format!(
        "the argument of its Erf is no multiple of a tensor, and that of GELU is {slope} · x"
    );
    match near {
        Some(reason) => Source::Near(reason),
        None if exact => Source::Near(plain),
        None => Source::Other,
    }
}

/// Follows the function to `x/2 + x/2 · f`.
fn result<'m>(reader: &mut Reader<'_, 'm>, function: usize) -> Result<&'m str, String> {
    let view = reader.view;
    let mut at = view.output(function);
    for _ in 0..NODES_AFTER {
        if let Some(reason) = view.shown(at) {
            return Err(format!("{reason}, and up to there it is not x/2 · (1 + f)"));
        }
        let [next] = view.readers(at)[..] else {
            let count = view.readers(at).len();
            return Err(format!("{count} nodes read `{at}`, which is inside of the GELU"));
        };
        let Some(found) = reader.read(view.output(next)) else {
            let (label, op) = (view.label(next), view.node(next).op_type());
            return Err(format!("`{label}`, a {op}, reads `{at}` and is no part of a GELU"));
        };
        at = view.output(next);
        if found.is(&[((1, 0), 0.5), ((1, 1), 0.5)], TOLERANCE) {
            return Ok(at);
        }
    }
    Err(format!("up to `{at}`, it is not x/2 · (1 + f)"))
}
