//! The value of a node whose inputs are all constant.

use trtforge_onnx::proto::NodeProto;
use trtforge_onnx::{ElementType, attr_i, attr_ints, attr_tensor, is_op};

use super::arithmetic::{cast, elementwise};
use super::literal::{Folding, Literal, Refusal, size};

/// Operators that have a value here, but for types and attributes that have none.
const KNOWN: [&str; 37] = [
    "Abs",
    "Add",
    "And",
    "Cast",
    "Ceil",
    "Concat",
    "ConstantOfShape",
    "Div",
    "Equal",
    "Exp",
    "Expand",
    "Flatten",
    "Floor",
    "Gather",
    "Greater",
    "Less",
    "Log",
    "Max",
    "Min",
    "Mul",
    "Neg",
    "Not",
    "Or",
    "Pow",
    "Range",
    "Reciprocal",
    "ReduceProd",
    "Reshape",
    "Shape",
    "Size",
    "Slice",
    "Sqrt",
    "Squeeze",
    "Sub",
    "Tile",
    "Transpose",
    "Unsqueeze",
];

/// Whether a node may have a value.
pub(super) fn is_known(node: &NodeProto) -> bool {
    node.output.len() == 1
        && (is_op(node, "Where") || KNOWN.iter().any(|operator| is_op(node, operator)))
}

/// - `inputs`: by position; `None` where one is absent.
/// - `limit`: most bytes of the result.
pub(super) fn evaluate(node: &NodeProto, inputs: &[Option<Literal>], limit: u64) -> Folding {
    let input = |at: usize| inputs.get(at).and_then(Option::as_ref);
    let first = || input(0).ok_or(Refusal::Unknown);
    match node.op_type() {
        "Transpose" => first()?.transposed(attr_ints(node, "perm"), limit),
        "Cast" => cast(first()?, target(node)?),
        "Shape" => Ok(shape(node, first()?)),
        "Size" => Ok(Literal::ints(&[first()?.len() as i64], vec![])),
        "Reshape" => reshape(node, first()?, &required(input(1))?),
        "Flatten" => flatten(node, first()?),
        "Unsqueeze" => unsqueeze(first()?, &axes(node, input(1))?.ok_or(Refusal::Unknown)?),
        "Squeeze" => squeeze(first()?, axes(node, input(1))?),
        "Concat" => {
            let parts: Option<Vec<Literal>> = inputs.iter().cloned().collect();
            let axis = attr_i(node, "axis").ok_or(Refusal::Unknown)?;
            Literal::concatenated(
                &parts.ok_or(Refusal::Unknown)?,
                axis_of(axis, first()?.dims.len())?,
                limit,
            )
        }
        "Gather" => {
            let axis = axis_of(attr_i(node, "axis").unwrap_or(0), first()?.dims.len())?;
            first()?.gathered(input(1).ok_or(Refusal::Unknown)?, axis, limit)
        }
        "Slice" => slice(node, inputs, limit),
        "Expand" => first()?.expanded(&required(input(1))?, limit),
        "Tile" => first()?.tiled(&required(input(1))?, limit),
        "ConstantOfShape" => {
            let zero = || Literal {
                element_type: ElementType::F32,
                dims: vec![1],
                bytes: vec![0; 4].into(),
            };
            let fill = attr_tensor(node, "value").map_or_else(|| Some(zero()), |t| Literal::of(&t));
            fill.ok_or(Refusal::Unknown)?.filled(required(input(0))?, limit)
        }
        "Range" => range(inputs, limit),
        "ReduceProd" => product(node, inputs),
        _ => {
            let all: Option<Vec<Literal>> = inputs.iter().cloned().collect();
            elementwise(node, &all.ok_or(Refusal::Unknown)?, limit)
        }
    }
}

fn required(input: Option<&Literal>) -> Folding<Vec<i64>> {
    input.ok_or(Refusal::Unknown)?.integers()
}

fn target(node: &NodeProto) -> Folding<ElementType> {
    let to = attr_i(node, "to").and_then(|to| i32::try_from(to).ok());
    to.map(ElementType::from_onnx).ok_or(Refusal::Unknown)
}

/// `axes`, as the input that newer operator sets have or as the attribute of older ones.
fn axes(node: &NodeProto, input: Option<&Literal>) -> Folding<Option<Vec<i64>>> {
    match input {
        Some(axes) => axes.integers().map(Some),
        None => Ok(attr_ints(node, "axes").map(<[i64]>::to_vec)),
    }
}

fn axis_of(axis: i64, rank: usize) -> Folding<usize> {
    let from_front = if axis < 0 { axis + rank as i64 } else { axis };
    let found = usize::try_from(from_front).ok().filter(|&axis| axis < rank);
    found.ok_or(Refusal::Unknown)
}

fn shape(node: &NodeProto, value: &Literal) -> Literal {
    let rank = value.dims.len() as i64;
    let bound = |axis: i64| (if axis < 0 { axis + rank } else { axis }).clamp(0, rank) as usize;
    let (start, end) =
        (bound(attr_i(node, "start").unwrap_or(0)), bound(attr_i(node, "end").unwrap_or(rank)));
    let dims = value.dims.get(start..end.max(start)).unwrap_or_default();
    Literal::ints(dims, vec![dims.len() as i64])
}

fn reshape(node: &NodeProto, value: &Literal, wanted: &[i64]) -> Folding {
    let keeps_zero = attr_i(node, "allowzero").unwrap_or(0) != 0;
    let copied = |(axis, &dim): (usize, &i64)| match dim {
        0 if !keeps_zero => value.dims.get(axis).copied().ok_or(Refusal::Unknown),
        dim => Ok(dim),
    };
    let mut dims: Vec<i64> = wanted.iter().enumerate().map(copied).collect::<Folding<_>>()?;
    if let Some(open) = dims.iter().position(|&dim| dim == -1) {
        let others: Vec<i64> = dims.iter().copied().filter(|&dim| dim != -1).collect();
        let known = size(&others).and_then(|count| i64::try_from(count).ok());
        let known = known.filter(|&count| count > 0).ok_or(Refusal::Unknown)?;
        dims[open] = value.len() as i64 / known;
    }
    value.reshaped(dims)
}

fn flatten(node: &NodeProto, value: &Literal) -> Folding {
    let rank = value.dims.len() as i64;
    let axis = attr_i(node, "axis").unwrap_or(1);
    let axis = usize::try_from(if axis < 0 { axis + rank } else { axis }).ok();
    let axis = axis.filter(|&axis| axis <= value.dims.len()).ok_or(Refusal::Unknown)?;
    let (before, after) = value.dims.split_at(axis);
    value.reshaped(vec![before.iter().product(), after.iter().product()])
}

fn unsqueeze(value: &Literal, axes: &[i64]) -> Folding {
    let rank = value.dims.len() + axes.len();
    let mut added = vec![false; rank];
    for &axis in axes {
        added[axis_of(axis, rank)?] = true;
    }
    let mut rest = value.dims.iter().copied();
    value
        .reshaped(added.iter().map(|&new| if new { 1 } else { rest.next().unwrap_or(1) }).collect())
}

fn squeeze(value: &Literal, axes: Option<Vec<i64>>) -> Folding {
    let rank = value.dims.len();
    let gone: Vec<usize> = match axes {
        Some(axes) => axes.iter().map(|&axis| axis_of(axis, rank)).collect::<Folding<_>>()?,
        None => (0..rank).filter(|&axis| value.dims[axis] == 1).collect(),
    };
    if gone.iter().any(|&axis| value.dims[axis] != 1) {
        return Err(Refusal::Unknown);
    }
    let kept = (0..rank).filter(|axis| !gone.contains(axis)).map(|axis| value.dims[axis]);
    value.reshaped(kept.collect())
}

fn slice(node: &NodeProto, inputs: &[Option<Literal>], limit: u64) -> Folding {
    let value = inputs.first().and_then(Option::as_ref).ok_or(Refusal::Unknown)?;
    let list = |at: usize, name: &str| match inputs.get(at).and_then(Option::as_ref) {
        Some(literal) => literal.integers().map(Some),
        None => Ok(attr_ints(node, name).map(<[i64]>::to_vec)),
    };
    let starts = list(1, "starts")?.ok_or(Refusal::Unknown)?;
    let ends = list(2, "ends")?.ok_or(Refusal::Unknown)?;
    let axes = list(3, "axes")?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = list(4, "steps")?.unwrap_or_else(|| vec![1; starts.len()]);
    if [ends.len(), axes.len(), steps.len()].iter().any(|&length| length != starts.len()) {
        return Err(Refusal::Unknown);
    }
    let mut ranges: Vec<(i64, i64, i64)> = value.dims.iter().map(|&dim| (0, dim, 1)).collect();
    for (at, &axis) in axes.iter().enumerate() {
        let axis = axis_of(axis, value.dims.len())?;
        ranges[axis] = bounds(value.dims[axis], starts[at], ends[at], steps[at])?;
    }
    value.sliced(&ranges, limit)
}

/// First index, number of elements and step of one sliced axis, with ONNX's rules for what lies outside.
fn bounds(dim: i64, start: i64, end: i64, step: i64) -> Folding<(i64, i64, i64)> {
    let from_front = |at: i64| if at < 0 { at.saturating_add(dim) } else { at };
    let (start, end) = (from_front(start), from_front(end));
    Ok(match step {
        0 => return Err(Refusal::Unknown),
        1.. => {
            let (start, end) = (start.clamp(0, dim), end.clamp(0, dim));
            (
                start,
                (end - start).max(0).div_euclid(step) + i64::from((end - start).max(0) % step != 0),
                step,
            )
        }
        _ => {
            let (start, end) = (start.clamp(-1, dim - 1), end.clamp(-1, dim - 1));
            let (length, back) =
                ((start - end).max(0), step.checked_neg().ok_or(Refusal::Unknown)?);
            (start.max(0), length / back + i64::from(length % back != 0), step)
        }
    })
}

fn range(inputs: &[Option<Literal>], limit: u64) -> Folding {
    let scalar = |at: usize| {
        let literal = inputs.get(at).and_then(Option::as_ref).ok_or(Refusal::Unknown)?;
        // Counting in floats rounds differently in every runtime.
        let wide = literal.element_type == ElementType::I64 && literal.len() == 1;
        if wide { Ok(literal.integers()?[0]) } else { Err(Refusal::Unknown) }
    };
    let (start, end, step) = (scalar(0)?, scalar(1)?, scalar(2)?);
    if step == 0 {
        return Err(Refusal::Unknown);
    }
    let span = i128::from(end) - i128::from(start);
    let step = i128::from(step);
    let count = (span / step + i128::from(span % step != 0 && (span < 0) == (step < 0))).max(0);
    if count > i128::from(limit / 8) {
        return Err(Refusal::TooLarge(u64::try_from(count).unwrap_or(u64::MAX).saturating_mul(8)));
    }
    let values: Vec<i64> = (0..count).map(|n| (i128::from(start) + n * step) as i64).collect();
    Ok(Literal::ints(&values, vec![values.len() as i64]))
}

/// Of whole int64 vectors only, as in shape arithmetic.
fn product(node: &NodeProto, inputs: &[Option<Literal>]) -> Folding {
    let value = inputs.first().and_then(Option::as_ref).ok_or(Refusal::Unknown)?;
    let axes = axes(node, inputs.get(1).and_then(Option::as_ref))?;
    let whole = axes.is_none_or(|axes| matches!(axes[..], [0 | -1]));
    if value.dims.len() != 1 || value.element_type != ElementType::I64 || !whole {
        return Err(Refusal::Unknown);
    }
    let mut values = value.integers()?.into_iter();
    let product = values.try_fold(1_i64, i64::checked_mul).ok_or(Refusal::Unknown)?;
    let keeps = attr_i(node, "keepdims").unwrap_or(1) != 0;
    Ok(Literal::ints(&[product], if keeps { vec![1] } else { vec![] }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trtforge_onnx::build::{attr_int, attr_ints as ints_attribute, node};
    use trtforge_onnx::proto::AttributeProto;

    fn ints(values: &[i64]) -> Literal {
        Literal::ints(values, vec![values.len() as i64])
    }

    fn run(op: &str, inputs: &[Literal], attributes: Vec<AttributeProto>) -> Folding {
        let inputs: Vec<Option<Literal>> = inputs.iter().cloned().map(Some).collect();
        evaluate(&node(op, "", &[], &["y"], attributes), &inputs, 1000)
    }

    #[test]
    fn shape_arithmetic() {
        let matrix = Literal::ints(&[0, 1, 2, 3, 4, 5], vec![2, 3]);
        let scalar = |value| Literal::ints(&[value], vec![]);
        let axis = |value| vec![attr_int("axis", value)];
        for (op, inputs, attributes, dims, values) in [
            ("Shape", vec![matrix.clone()], vec![], vec![2], vec![2, 3]),
            ("Shape", vec![matrix.clone()], vec![attr_int("start", -1)], vec![1], vec![3]),
            ("Size", vec![matrix.clone()], vec![], vec![], vec![6]),
            (
                "Reshape",
                vec![ints(&[1, 2, 3, 4]), ints(&[2, -1])],
                vec![],
                vec![2, 2],
                vec![1, 2, 3, 4],
            ),
            (
                "Reshape",
                vec![matrix.clone(), ints(&[0, -1, 1])],
                vec![],
                vec![2, 3, 1],
                vec![0, 1, 2, 3, 4, 5],
            ),
            ("Unsqueeze", vec![scalar(7), ints(&[0])], vec![], vec![1], vec![7]),
            ("Unsqueeze", vec![scalar(7)], vec![ints_attribute("axes", &[-1])], vec![1], vec![7]),
            ("Squeeze", vec![ints(&[7]), ints(&[0])], vec![], vec![], vec![7]),
            ("Concat", vec![ints(&[1]), ints(&[2, 3])], axis(0), vec![3], vec![1, 2, 3]),
            ("Gather", vec![ints(&[5, 6]), scalar(1)], axis(0), vec![], vec![6]),
            (
                "Slice",
                vec![ints(&[1, 2, 3, 4]), ints(&[-3]), ints(&[i64::MAX])],
                vec![],
                vec![3],
                vec![2, 3, 4],
            ),
            (
                "Slice",
                vec![ints(&[1, 2, 3, 4]), ints(&[-1]), ints(&[i64::MIN]), ints(&[0]), ints(&[-2])],
                vec![],
                vec![2],
                vec![4, 2],
            ),
            ("ConstantOfShape", vec![ints(&[0])], vec![], vec![0], vec![]),
            ("Range", vec![scalar(5), scalar(0), scalar(-2)], vec![], vec![3], vec![5, 3, 1]),
            ("Range", vec![scalar(0), scalar(0), scalar(1)], vec![], vec![0], vec![]),
            ("ReduceProd", vec![ints(&[2, 3, 4])], vec![attr_int("keepdims", 0)], vec![], vec![24]),
            ("Flatten", vec![matrix.clone()], axis(0), vec![1, 6], vec![0, 1, 2, 3, 4, 5]),
        ] {
            let found = run(op, &inputs, attributes).unwrap();
            let elements = if found.element_type == ElementType::I64 {
                found.integers().unwrap()
            } else {
                vec![]
            };
            assert_eq!((found.dims.clone(), elements), (dims, values), "{op}");
        }
    }

    #[test]
    fn hostile_inputs_are_refused() {
        let scalar = |value| Literal::ints(&[value], vec![]);
        for (op, inputs) in [
            ("Range", vec![scalar(0), scalar(i64::MAX), scalar(1)]),
            ("Range", vec![scalar(0), scalar(1), scalar(0)]),
            ("ConstantOfShape", vec![ints(&[1 << 62, 1 << 62])]),
            ("ConstantOfShape", vec![ints(&[-1])]),
            ("Reshape", vec![ints(&[1]), ints(&[0, 0])]),
            ("Reshape", vec![ints(&[1]), ints(&[i64::MIN])]),
            ("Unsqueeze", vec![ints(&[1]), ints(&[9])]),
            ("Slice", vec![ints(&[1]), ints(&[0]), ints(&[1]), ints(&[0]), ints(&[0])]),
            ("Slice", vec![ints(&[1]), ints(&[0])]),
            ("ReduceProd", vec![ints(&[i64::MAX, 2])]),
        ] {
            assert!(run(op, &inputs, vec![]).is_err(), "{op}");
        }
    }
}
