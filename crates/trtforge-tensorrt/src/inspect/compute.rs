//! The type a layer computes its products in, and what proves it.
//!
//! The first of these that says something decides:
//!
//! 1. The kernel's name states its operands (`…_i8i8_i8i32_f32_…`, see [`crate::inspect::tactic`]).
//! 2. The layer's own weights are of a floating type: products are computed in it. INT8 weights alone prove nothing, since a
//!    weight-only kernel widens them.
//! 3. All operands are of one type: everything of rank two and more that the layer reads (indices, masks, scales and biases are
//!    not), its weights included. For INT8 there must be two, for an attention all three.
//!
//! INT8 and floating operands side by side prove nothing: bias and residual are read in floating point by INT8 kernels, and so is the
//! activation of a weight-only kernel. Where no operand is INT8, the product is at least proven not to run in INT8.

use serde::{Deserialize, Serialize};

use crate::inspect::layer::{EngineLayer, LayerRole, LayerTensor};
use crate::inspect::number::NumberType;
use crate::inspect::tactic;

/// The type a layer computes in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compute {
    /// The type, where it is proven.
    pub number: Option<NumberType>,
    /// What proves it, or why nothing does.
    pub basis: Basis,
    /// Whether INT8 is out of the question, whatever the type is.
    #[serde(default)]
    pub not_int8: bool,
    /// In words.
    pub why: String,
}

/// What proves the type of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The kernel's name.
    Tactic,
    /// The layer's weights.
    Weights,
    /// The types of all operands.
    Operands,
    /// Nothing does.
    Unproven,
}

impl Compute {
    pub(crate) fn unproven(why: impl Into<String>) -> Compute {
        Compute { number: None, basis: Basis::Unproven, not_int8: false, why: why.into() }
    }

    fn proven(number: NumberType, basis: Basis, why: String) -> Compute {
        Compute { number: Some(number), basis, not_int8: number != NumberType::Int8, why }
    }

    /// The type `layer` computes its products in.
    pub(crate) fn of(layer: &EngineLayer) -> Compute {
        if !layer.may_multiply() {
            return Compute::unproven(
                "it multiplies nothing: its tensors say what it reads and writes",
            );
        }
        if let Some(tactic) = &layer.tactic
            && let Some(number) = tactic::operand(tactic)
        {
            let why = format!("its kernel `{tactic}` takes {number} operands");
            return Compute::proven(number, Basis::Tactic, why);
        }
        if let Some(number) = layer.weights.filter(|number| number.is_float()) {
            return Compute::proven(number, Basis::Weights, format!("its weights are {number}"));
        }
        if layer.role == LayerRole::Region {
            return Compute::unproven(
                "it is compiled as a whole, and what enters it does not say what is computed inside",
            );
        }
        operands(layer)
    }
}

fn operands(layer: &EngineLayer) -> Compute {
    let matrix = |tensor: &&LayerTensor| tensor.dims.is_empty() || tensor.dims.len() >= 2;
    let read: Vec<&LayerTensor> = layer.inputs.iter().filter(matrix).collect();
    if read.is_empty() {
        return Compute::unproven("the inspector says nothing of its inputs");
    }
    if read.iter().any(|tensor| tensor.number.is_none()) {
        return Compute::unproven(
            "the inspector gives no types of its inputs, as it does for dynamic shapes",
        );
    }
    let numbers = read.iter().filter_map(|tensor| tensor.number).chain(layer.weights);
    let mut numbers: Vec<NumberType> = numbers.filter(|number| number.is_operand()).collect();
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    let enough = if layer.role == LayerRole::Attention { 3 } else { 2 };
    match numbers[..] {
        [] => Compute::unproven("it reads no operand of a product"),
        [number] if number.is_float() || count >= enough => {
            let why = format!("all {count} matrices that it reads are {number}");
            Compute::proven(number, Basis::Operands, why)
        }
        [number] => Compute::unproven(format!(
            "it reads {count} matrix in {number}, and nothing says what the other operand is"
        )),
        _ if numbers.iter().all(|number| number.is_float()) => Compute {
            not_int8: true,
            ..Compute::unproven(format!("it reads {}, and no INT8", list(&numbers)))
        },
        _ => Compute::unproven(format!(
            "it reads {}: an INT8 kernel with a floating bias does, and so does a weight-only one",
            list(&numbers)
        )),
    }
}

fn list(numbers: &[NumberType]) -> String {
    let names: Vec<&str> = numbers.iter().map(|number| number.name()).collect();
    names.join(" and ")
}
