//! One suite for every executor.
//!
//! Each [`Check`] brings its model; a backend loads that model its own way and runs the check, and keeps its own list of the
//! checks it cannot pass, with the reason.
//!
//! ```no_run
//! # use trtforge_exec::{EmbeddedExecutor, EmbeddedOptions, conformance};
//! for check in conformance::checks() {
//!     let keep = check.keep.iter().map(ToString::to_string).collect();
//!     let options = EmbeddedOptions { keep, ..EmbeddedOptions::default() };
//!     let executor = EmbeddedExecutor::from_model(&check.model().unwrap(), options).unwrap();
//!     check.run(&executor).unwrap();
//! }
//! ```

use ndarray::{ArrayD, IxDyn};
use trtforge_onnx::build::{attr_int, graph, model, node, tensor_f32, tensor_i8, value};
use trtforge_onnx::{Dim, ElementType, Model, OnnxError};

use crate::error::ExecError;
use crate::executor::{Executor, NamedValue, Value};

/// One property that every executor has.
#[derive(Clone, Copy)]
pub struct Check {
    /// What must hold.
    pub name: &'static str,
    /// Tensors that the model must be loaded with as tappable.
    pub keep: &'static [&'static str],
    build: fn() -> Result<Model, OnnxError>,
    run: fn(&dyn Executor) -> Outcome,
}

type Outcome = Result<(), String>;

impl Check {
    /// The model this check is about.
    pub fn model(&self) -> Result<Model, OnnxError> {
        (self.build)()
    }

    /// Runs the check; the error says what was found instead.
    pub fn run(&self, executor: &dyn Executor) -> Result<(), String> {
        (self.run)(executor).map_err(|found| format!("{}: {found}", self.name))
    }
}

/// All checks.
pub fn checks() -> Vec<Check> {
    let classifier =
        |name, run| Check { name, keep: &["hidden", "scaled"], build: classifier, run };
    vec![
        classifier("ports are those declared, without weights", ports),
        classifier("outputs are right for any batch size and input order", outputs),
        classifier("integers of any width become the declared one", integer_widths),
        classifier("bad inputs are refused, each with its own error", bad_inputs),
        classifier("taps are shown in the order asked for", taps),
        classifier("unknown taps are refused", unknown_taps),
        classifier("two threads can run at once", threads),
        Check { name: "NaN and infinity pass through", keep: &[], build: adder, run: not_finite },
        Check {
            name: "Q/DQ rounds to even and saturates",
            keep: &[],
            build: quantizer,
            run: quantization,
        },
    ]
}

/// `ids` int64 `[batch, 2]`, `mask` int32 `[batch, 2]`, to `logits` `[batch, 2, 2]`:
/// `hidden = table[ids]`, `scaled = hidden * mask`, `logits = scaled · weight + 0.5`.
fn classifier() -> Result<Model, OnnxError> {
    let batch = |name: &str, element_type| {
        value(name, element_type, &[Dim::Named("batch".to_owned()), Dim::Fixed(2)])
    };
    let weight = tensor_f32("weight", &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let table = tensor_f32("table", &[3, 2], &[0.0, 1.0, 10.0, -20.0, 0.5, 0.25]);
    let axis = trtforge_onnx::build::tensor_i64("axis", &[1], &[2]);
    let nodes = vec![
        node("Gather", "lookup", &["table", "ids"], &["hidden"], vec![attr_int("axis", 0)]),
        node("Cast", "", &["mask"], &["float_mask"], vec![attr_int("to", 1)]),
        node("Unsqueeze", "", &["float_mask", "axis"], &["column"], vec![]),
        node("Mul", "", &["hidden", "column"], &["scaled"], vec![]),
        node("MatMul", "classify", &["scaled", "weight"], &["product"], vec![]),
        node("Add", "", &["product", "bias"], &["logits"], vec![]),
    ];
    let inputs = vec![
        // As IR versions before 4 had it, a weight is listed among the inputs.
        value("weight", ElementType::F32, &[Dim::Fixed(2), Dim::Fixed(2)]),
        batch("ids", ElementType::I64),
        batch("mask", ElementType::I32),
    ];
    let output = value(
        "logits",
        ElementType::F32,
        &[Dim::Named("batch".to_owned()), Dim::Fixed(2), Dim::Fixed(2)],
    );
    let bias = tensor_f32("bias", &[2], &[0.5, 0.5]);
    model(13, graph(inputs, vec![output], nodes, vec![weight, table, bias, axis]))
}

/// `x` float `[n]` to `y = x + x`.
fn adder() -> Result<Model, OnnxError> {
    let port = |name: &str| value(name, ElementType::F32, &[Dim::Named("n".to_owned())]);
    let nodes = vec![node("Add", "", &["x", "x"], &["y"], vec![])];
    model(13, graph(vec![port("x")], vec![port("y")], nodes, vec![]))
}

/// `x` float `[n]` through INT8 at a scale of 0.5.
fn quantizer() -> Result<Model, OnnxError> {
    let port = |name: &str| value(name, ElementType::F32, &[Dim::Named("n".to_owned())]);
    let nodes = vec![
        node("QuantizeLinear", "", &["x", "scale", "zero"], &["q"], vec![]),
        node("DequantizeLinear", "", &["q", "scale", "zero"], &["y"], vec![]),
    ];
    let weights = vec![tensor_f32("scale", &[], &[0.5]), tensor_i8("zero", &[], &[0])];
    model(13, graph(vec![port("x")], vec![port("y")], nodes, weights))
}

fn array<T>(shape: &[usize], values: Vec<T>) -> ArrayD<T> {
    ArrayD::from_shape_vec(IxDyn(shape), values).expect("the checks below state matching shapes")
}

fn named(name: &str, value: impl Into<Value>) -> NamedValue {
    (name.to_owned(), value.into())
}

/// Two rows: ids 0 1 and 2 1, the last position masked.
fn rows() -> Vec<NamedValue> {
    vec![
        named("ids", array(&[2, 2], vec![0_i64, 1, 2, 1])),
        named("mask", array(&[2, 2], vec![1_i64, 1, 1, 0])),
    ]
}

/// By hand: `[0 1] · W = [3 4]`, `[10 −20] · W = [−50 −60]`, `[0.5 0.25] · W = [1.25 2]`, masked `[0 0]`; plus 0.5 each.
const LOGITS: [f32; 8] = [3.5, 4.5, -49.5, -59.5, 1.75, 2.5, 0.5, 0.5];

#[expect(clippy::needless_pass_by_value, reason = "most callers pass what they just computed")]
fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Outcome {
    if found == expected {
        Ok(())
    } else {
        Err(format!("{what} is {found:?} instead of {expected:?}"))
    }
}

/// Bit patterns, so that NaN equals itself.
fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

fn floats(outputs: &[NamedValue], name: &str) -> Result<Vec<f32>, String> {
    let (_, value) =
        outputs.iter().find(|(n, _)| n == name).ok_or(format!("no output `{name}`"))?;
    Ok(value.as_f32().ok_or(format!("`{name}` is not FP32"))?.iter().copied().collect())
}

fn run(executor: &dyn Executor, inputs: &[NamedValue]) -> Result<Vec<NamedValue>, String> {
    executor.run(inputs).map_err(|error| format!("run failed: {error}"))
}

fn ports(executor: &dyn Executor) -> Outcome {
    let listed = |ports: &[crate::Port]| -> Vec<(String, ElementType, usize)> {
        ports
            .iter()
            .map(|p| (p.name.clone(), p.element_type, p.shape.as_ref().map_or(0, Vec::len)))
            .collect()
    };
    let inputs =
        vec![("ids".to_owned(), ElementType::I64, 2), ("mask".to_owned(), ElementType::I32, 2)];
    expect("inputs", listed(executor.inputs()), inputs)?;
    expect("outputs", listed(executor.outputs()), vec![("logits".to_owned(), ElementType::F32, 3)])
}

fn outputs(executor: &dyn Executor) -> Outcome {
    let found = run(executor, &rows())?;
    expect("shape", found[0].1.shape(), &[2, 2, 2])?;
    expect("logits", floats(&found, "logits")?, LOGITS.to_vec())?;
    let mut reversed = rows();
    reversed.reverse();
    expect(
        "logits of reversed inputs",
        floats(&run(executor, &reversed)?, "logits")?,
        LOGITS.to_vec(),
    )?;
    let one_row = [
        named("ids", array(&[1, 2], vec![0_i64, 1])),
        named("mask", array(&[1, 2], vec![1_i64, 1])),
    ];
    expect("logits of one row", floats(&run(executor, &one_row)?, "logits")?, LOGITS[..4].to_vec())
}

fn integer_widths(executor: &dyn Executor) -> Outcome {
    let ids: [Value; 2] =
        [array(&[2, 2], vec![0_i32, 1, 2, 1]).into(), array(&[2, 2], vec![0_u8, 1, 2, 1]).into()];
    let masks: [Value; 2] = [
        array(&[2, 2], vec![1_i8, 1, 1, 0]).into(),
        array(&[2, 2], vec![true, true, true, false]).into(),
    ];
    for (ids, mask) in ids.into_iter().zip(masks) {
        let given = [("ids".to_owned(), ids), ("mask".to_owned(), mask)];
        expect("logits", floats(&run(executor, &given)?, "logits")?, LOGITS.to_vec())?;
    }
    Ok(())
}

type Expected = fn(&ExecError) -> bool;

fn bad_inputs(executor: &dyn Executor) -> Outcome {
    let with = |index: usize, value: NamedValue| {
        let mut inputs = rows();
        inputs[index] = value;
        inputs
    };
    let mut twice = rows();
    twice.push(rows().remove(0));
    let mut more = rows();
    more.push(named("weight", array(&[2, 2], vec![0.0_f32; 4])));
    let cases: [(&str, Vec<NamedValue>, Expected); 7] = [
        (
            "missing",
            rows()[..1].to_vec(),
            |e| matches!(e, ExecError::MissingInput { input, .. } if input == "mask"),
        ),
        (
            "unknown",
            more,
            |e| matches!(e, ExecError::UnknownInput { input, .. } if input == "weight"),
        ),
        ("twice", twice, |e| matches!(e, ExecError::DuplicateInput { input } if input == "ids")),
        (
            "float ids",
            with(0, named("ids", array(&[2, 2], vec![0.0_f32; 4]))),
            |e| matches!(e, ExecError::WrongType { input, .. } if input == "ids"),
        ),
        (
            "flat ids",
            with(0, named("ids", array(&[4], vec![0_i64; 4]))),
            |e| matches!(e, ExecError::ShapeMismatch { input, .. } if input == "ids"),
        ),
        (
            "long ids",
            with(0, named("ids", array(&[2, 3], vec![0_i64; 6]))),
            |e| matches!(e, ExecError::ShapeMismatch { input, .. } if input == "ids"),
        ),
        (
            "large mask",
            with(1, named("mask", array(&[2, 2], vec![1_i64 << 40; 4]))),
            |e| matches!(e, ExecError::OutOfRange { input, .. } if input == "mask"),
        ),
    ];
    for (name, inputs, expected) in cases {
        match executor.run(&inputs) {
            Err(error) if expected(&error) => {}
            other => return Err(format!("{name}: {other:?}")),
        }
    }
    Ok(())
}

fn taps(executor: &dyn Executor) -> Outcome {
    let hidden = vec![0.0, 1.0, 10.0, -20.0, 0.5, 0.25, 10.0, -20.0];
    let mut scaled = hidden.clone();
    scaled[6..].copy_from_slice(&[0.0, -0.0]);
    let names = ["scaled", "hidden", "logits", "hidden"].map(str::to_owned);
    for name in &names {
        expect(&format!("can_tap({name})"), executor.can_tap(name), true)?;
    }
    let mut seen: Vec<(String, Vec<f32>)> = Vec::new();
    let found = executor
        .run_tapped(&rows(), &names, &mut |name, values| {
            seen.push((name.to_owned(), values.to_vec()));
        })
        .map_err(|error| format!("run failed: {error}"))?;
    let values = [scaled, hidden.clone(), LOGITS.to_vec(), hidden];
    expect("taps", seen, names.into_iter().zip(values).collect())?;
    expect("logits", floats(&found, "logits")?, LOGITS.to_vec())
}

fn unknown_taps(executor: &dyn Executor) -> Outcome {
    for name in ["no such tensor", "ids", "weight", ""] {
        expect(&format!("can_tap({name})"), executor.can_tap(name), false)?;
        let mut visited = false;
        match executor.run_tapped(&rows(), &[name.to_owned()], &mut |_, _| visited = true) {
            Err(ExecError::UnknownTap { tensor }) if tensor == name && !visited => {}
            other => return Err(format!("{name}: {other:?}, visited: {visited}")),
        }
    }
    Ok(())
}

fn threads(executor: &dyn Executor) -> Outcome {
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(|| outputs(executor))).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err("a thread panicked".to_owned()))
        })
    })
}

fn not_finite(executor: &dyn Executor) -> Outcome {
    let x = vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 1.0];
    let found = floats(&run(executor, &[named("x", array(&[5], x))])?, "y")?;
    expect("y[0] is NaN", found[0].is_nan(), true)?;
    expect("y", bits(&found[1..]), bits(&[f32::INFINITY, f32::NEG_INFINITY, f32::INFINITY, 2.0]))
}

fn quantization(executor: &dyn Executor) -> Outcome {
    // In steps of 0.5: 0.5 and 2.5 steps round to 0 and 2, 1.5 to 2; 63.5 is level 127, −64 is −128.
    let x = vec![0.25, 0.75, 1.25, -0.75, 63.5, 63.8, 1e9, -64.0, -64.3, -1e9];
    let y = [0.0, 1.0, 1.0, -1.0, 63.5, 63.5, 63.5, -64.0, -64.0, -64.0];
    let found = floats(&run(executor, &[named("x", array(&[10], x))])?, "y")?;
    expect("y", found, y.to_vec())
}
