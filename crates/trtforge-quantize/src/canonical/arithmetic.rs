//! Element-wise arithmetic on constants, each value rounded once as every runtime rounds it.

use half::f16;
use trtforge_onnx::ElementType;
use trtforge_onnx::proto::NodeProto;

use super::literal::{Folding, Literal, Refusal, broadcast, numbers, within};

/// Values while they are computed with. A result of one operation on FP32 (or FP16) operands in FP64, rounded to their
/// type, is the correctly rounded one for the four basic operations and the root.
#[derive(Clone, Debug)]
enum Values {
    Floats(Vec<f64>),
    Ints(Vec<i64>),
}

/// Result of an element-wise node.
///
/// - `inputs`: in order; all of one type where the operator asks for that.
pub(super) fn elementwise(node: &NodeProto, inputs: &[Literal], limit: u64) -> Folding {
    match (node.op_type(), inputs) {
        ("Where", [condition, a, b]) => choose(condition, a, b, limit),
        (_, [one]) => unary(node.op_type(), one),
        (_, [a, b]) if a.element_type == b.element_type || node.op_type() == "Pow" => {
            binary(node.op_type(), a, b, limit)
        }
        _ => Err(Refusal::Unknown),
    }
}

/// Result of a `Cast`.
pub(super) fn cast(value: &Literal, to: ElementType) -> Folding {
    if value.element_type == to {
        return Ok(value.clone());
    }
    let values = match (values(value)?, is_float(to)) {
        (Values::Floats(values), true) => Values::Floats(values),
        (Values::Ints(values), false) => Values::Ints(values),
        (Values::Ints(values), true) => Values::Floats(values.iter().map(|&v| v as f64).collect()),
        (Values::Floats(values), false) if to == ElementType::Bool => {
            Values::Ints(values.iter().map(|&v| i64::from(v != 0.0)).collect())
        }
        // Toward zero; what no integer of the type holds is left to the runtime.
        (Values::Floats(values), false) if values.iter().all(|v| v.abs() < 2_f64.powi(53)) => {
            Values::Ints(values.iter().map(|&v| v as i64).collect())
        }
        _ => return Err(Refusal::Unknown),
    };
    stored(values, to, value.dims.clone())
}

fn is_float(element_type: ElementType) -> bool {
    use ElementType::{F16, F32, F64};
    matches!(element_type, F16 | F32 | F64)
}

fn values(literal: &Literal) -> Folding<Values> {
    Ok(match literal.element_type {
        ElementType::F32 => {
            Values::Floats(numbers(&literal.bytes, |b| f64::from(f32::from_le_bytes(b))))
        }
        ElementType::F64 => Values::Floats(numbers(&literal.bytes, f64::from_le_bytes)),
        ElementType::F16 => {
            Values::Floats(numbers(&literal.bytes, |b| f16::from_le_bytes(b).to_f64()))
        }
        _ => Values::Ints(literal.integers()?),
    })
}

fn stored(values: Values, to: ElementType, dims: Vec<i64>) -> Folding {
    let bytes: Vec<u8> = match (values, to) {
        (Values::Floats(v), ElementType::F32) => {
            v.iter().flat_map(|&x| (x as f32).to_le_bytes()).collect()
        }
        (Values::Floats(v), ElementType::F64) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        (Values::Floats(v), ElementType::F16) => {
            v.iter().flat_map(|&x| f16::from_f64(x).to_le_bytes()).collect()
        }
        (Values::Ints(v), ElementType::I64) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        (Values::Ints(v), ElementType::Bool) => v.iter().map(|&x| u8::from(x != 0)).collect(),
        (Values::Ints(v), ElementType::I32) => {
            let narrow = v.iter().map(|&x| i32::try_from(x).map_err(|_| Refusal::Unknown));
            narrow.collect::<Folding<Vec<_>>>()?.iter().flat_map(|x| x.to_le_bytes()).collect()
        }
        _ => return Err(Refusal::Unknown),
    };
    Ok(Literal { element_type: to, dims, bytes: bytes.into() })
}

fn unary(op: &str, value: &Literal) -> Folding {
    let dims = value.dims.clone();
    let result = match values(value)? {
        Values::Floats(v) => {
            let compute: fn(f64) -> f64 = match op {
                "Neg" => |x| -x,
                "Abs" => f64::abs,
                "Sqrt" => f64::sqrt,
                "Reciprocal" => f64::recip,
                "Exp" => f64::exp,
                "Log" => f64::ln,
                "Floor" => f64::floor,
                "Ceil" => f64::ceil,
                _ => return Err(Refusal::Unknown),
            };
            Values::Floats(v.into_iter().map(compute).collect())
        }
        Values::Ints(v) => {
            let compute: fn(i64) -> Option<i64> = match op {
                "Neg" => i64::checked_neg,
                "Abs" => i64::checked_abs,
                "Not" => |x| Some(i64::from(x == 0)),
                _ => return Err(Refusal::Unknown),
            };
            Values::Ints(v.into_iter().map(compute).collect::<Option<_>>().ok_or(Refusal::Unknown)?)
        }
    };
    stored(result, value.element_type, dims)
}

fn binary(op: &str, a: &Literal, b: &Literal, limit: u64) -> Folding {
    let dims = broadcast(&a.dims, &b.dims)?;
    within(&dims, a.width(), limit)?;
    let (left, right) = (a.expanded(&dims, u64::MAX)?, b.expanded(&dims, u64::MAX)?);
    let (result, element_type) = match (values(&left)?, values(&right)?) {
        (Values::Floats(x), Values::Floats(y)) => of_floats(op, &x, &y, a.element_type)?,
        (Values::Ints(x), Values::Ints(y)) => of_ints(op, &x, &y, a.element_type)?,
        (Values::Floats(x), Values::Ints(y)) if op == "Pow" => {
            let y: Vec<f64> = y.iter().map(|&v| v as f64).collect();
            of_floats(op, &x, &y, a.element_type)?
        }
        _ => return Err(Refusal::Unknown),
    };
    stored(result, element_type, dims)
}

fn of_floats(
    op: &str,
    a: &[f64],
    b: &[f64],
    element_type: ElementType,
) -> Folding<(Values, ElementType)> {
    let pairs = || a.iter().copied().zip(b.iter().copied());
    let compare: Option<fn(f64, f64) -> bool> = match op {
        "Equal" => Some(|x, y| x == y),
        "Less" => Some(|x, y| x < y),
        "Greater" => Some(|x, y| x > y),
        _ => None,
    };
    if let Some(compare) = compare {
        let truths = pairs().map(|(x, y)| i64::from(compare(x, y))).collect();
        return Ok((Values::Ints(truths), ElementType::Bool));
    }
    let compute: fn(f64, f64) -> f64 = match op {
        "Add" => |x, y| x + y,
        "Sub" => |x, y| x - y,
        "Mul" => |x, y| x * y,
        "Div" => |x, y| x / y,
        "Pow" => f64::powf,
        // NaN passes through both, as ONNX has it.
        "Min" => |x, y| if x.is_nan() || x < y { x } else { y },
        "Max" => |x, y| if x.is_nan() || x > y { x } else { y },
        _ => return Err(Refusal::Unknown),
    };
    Ok((Values::Floats(pairs().map(|(x, y)| compute(x, y)).collect()), element_type))
}

fn of_ints(
    op: &str,
    a: &[i64],
    b: &[i64],
    element_type: ElementType,
) -> Folding<(Values, ElementType)> {
    let truth = |value: bool| Some(i64::from(value));
    let bool_operands = element_type == ElementType::Bool;
    let compute = |x: i64, y: i64| -> Option<i64> {
        match op {
            "Equal" => truth(x == y),
            "Less" => truth(x < y),
            "Greater" => truth(x > y),
            "And" if bool_operands => truth(x != 0 && y != 0),
            "Or" if bool_operands => truth(x != 0 || y != 0),
            _ if bool_operands => None,
            "Add" => x.checked_add(y),
            "Sub" => x.checked_sub(y),
            "Mul" => x.checked_mul(y),
            "Div" => x.checked_div(y),
            "Min" => Some(x.min(y)),
            "Max" => Some(x.max(y)),
            _ => None,
        }
    };
    let results: Option<Vec<i64>> = a.iter().zip(b).map(|(&x, &y)| compute(x, y)).collect();
    let logical = matches!(op, "Equal" | "Less" | "Greater" | "And" | "Or");
    let result_type = if logical { ElementType::Bool } else { element_type };
    Ok((Values::Ints(results.ok_or(Refusal::Unknown)?), result_type))
}

fn choose(condition: &Literal, a: &Literal, b: &Literal, limit: u64) -> Folding {
    if a.element_type != b.element_type || condition.element_type != ElementType::Bool {
        return Err(Refusal::Unknown);
    }
    let dims = broadcast(&broadcast(&condition.dims, &a.dims)?, &b.dims)?;
    within(&dims, a.width(), limit)?;
    let full = |literal: &Literal| literal.expanded(&dims, u64::MAX);
    let (condition, a, b) = (full(condition)?, full(a)?, full(b)?);
    let width = a.width();
    let mut bytes = Vec::with_capacity(a.bytes.len());
    for (place, &truth) in condition.bytes.iter().enumerate() {
        let from = if truth != 0 { &a } else { &b };
        bytes.extend_from_slice(&from.bytes[place * width..][..width]);
    }
    Ok(Literal { element_type: a.element_type, dims, bytes: bytes.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trtforge_onnx::build::node;

    fn floats(values: &[f32]) -> Literal {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let dims = vec![values.len() as i64];
        Literal { element_type: ElementType::F32, dims, bytes: bytes.into() }
    }

    fn ints(values: &[i64]) -> Literal {
        Literal::ints(values, vec![values.len() as i64])
    }

    fn run(op: &str, inputs: &[Literal]) -> Folding {
        elementwise(&node(op, "", &[], &[], vec![]), inputs, 1000)
    }

    #[test]
    fn arithmetic_is_that_of_the_operators() {
        for (op, inputs, expected) in [
            ("Add", vec![floats(&[1.5, 2.0]), floats(&[1.0])], floats(&[2.5, 3.0])),
            ("Div", vec![floats(&[1.0]), floats(&[3.0])], floats(&[1.0 / 3.0])),
            ("Pow", vec![floats(&[2.0, 3.0]), ints(&[2])], floats(&[4.0, 9.0])),
            ("Sqrt", vec![floats(&[2.0])], floats(&[2.0_f32.sqrt()])),
            ("Div", vec![ints(&[-7, 7]), ints(&[2])], ints(&[-3, 3])),
            ("Mul", vec![ints(&[3]), ints(&[4])], ints(&[12])),
            ("Max", vec![ints(&[3, 9]), ints(&[4])], ints(&[4, 9])),
        ] {
            assert_eq!(run(op, &inputs).unwrap(), expected, "{op}");
        }
        let equal = run("Equal", &[ints(&[1, 2]), ints(&[2])]).unwrap();
        assert_eq!((equal.element_type, equal.bytes.as_ref()), (ElementType::Bool, &[0, 1][..]));
        let chosen = run("Where", &[equal, ints(&[5]), ints(&[6, 7])]).unwrap();
        assert_eq!(chosen, ints(&[6, 5]));
    }

    #[test]
    fn what_has_no_exact_result_is_left_alone() {
        for (op, inputs) in [
            ("Div", vec![ints(&[1]), ints(&[0])]),
            ("Mul", vec![ints(&[i64::MAX]), ints(&[2])]),
            ("Add", vec![ints(&[1]), floats(&[1.0])]),
            ("Erf", vec![floats(&[1.0])]),
            ("Add", vec![ints(&[1, 2]), ints(&[1, 2, 3])]),
        ] {
            assert_eq!(run(op, &inputs).unwrap_err(), Refusal::Unknown, "{op}");
        }
        assert_eq!(cast(&floats(&[1e30]), ElementType::I64).unwrap_err(), Refusal::Unknown);
        assert_eq!(cast(&ints(&[1 << 40]), ElementType::I32).unwrap_err(), Refusal::Unknown);
    }

    #[test]
    fn casts_truncate_and_round() {
        let to = |literal: &Literal, element_type| cast(literal, element_type).unwrap();
        assert_eq!(to(&floats(&[-1.9, 2.9]), ElementType::I64), ints(&[-1, 2]));
        assert_eq!(to(&ints(&[3]), ElementType::F32), floats(&[3.0]));
        assert_eq!(to(&floats(&[0.0, -0.5]), ElementType::Bool).bytes.as_ref(), &[0, 1]);
        let half = to(&floats(&[1.0009]), ElementType::F16);
        assert_eq!(half.bytes.as_ref(), f16::from_f32(1.0009).to_le_bytes());
    }
}
