//! What every executor offers: named tensors in, named tensors out, and a look at tensors in between.

use std::fmt;

use ndarray::ArrayD;
use trtforge_onnx::{Dim, ElementType};

use crate::error::ExecError;

/// A tensor on the host.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// FP32; also what FP16 and FP64 tensors come back as.
    F32(ArrayD<f32>),
    /// 64-bit integers.
    I64(ArrayD<i64>),
    /// 32-bit integers.
    I32(ArrayD<i32>),
    /// Unsigned bytes.
    U8(ArrayD<u8>),
    /// Signed bytes.
    I8(ArrayD<i8>),
    /// Truth values.
    Bool(ArrayD<bool>),
}

impl Value {
    /// Size of each dimension.
    pub fn shape(&self) -> &[usize] {
        match self {
            Self::F32(a) => a.shape(),
            Self::I64(a) => a.shape(),
            Self::I32(a) => a.shape(),
            Self::U8(a) => a.shape(),
            Self::I8(a) => a.shape(),
            Self::Bool(a) => a.shape(),
        }
    }

    /// Type of the elements as held here.
    pub fn element_type(&self) -> ElementType {
        match self {
            Self::F32(_) => ElementType::F32,
            Self::I64(_) => ElementType::I64,
            Self::I32(_) => ElementType::I32,
            Self::U8(_) => ElementType::U8,
            Self::I8(_) => ElementType::I8,
            Self::Bool(_) => ElementType::Bool,
        }
    }

    /// The FP32 elements, if that is what they are.
    pub fn as_f32(&self) -> Option<&ArrayD<f32>> {
        match self {
            Self::F32(array) => Some(array),
            _ => None,
        }
    }
}

macro_rules! value_from_array {
    ($($element:ty => $variant:ident),*) => {$(
        impl From<ArrayD<$element>> for Value {
            fn from(array: ArrayD<$element>) -> Self {
                Self::$variant(array)
            }
        }
    )*};
}
value_from_array!(f32 => F32, i64 => I64, i32 => I32, u8 => U8, i8 => I8, bool => Bool);

/// A tensor and its name in the model.
pub type NamedValue = (String, Value);

/// An input or output of a model, as the model declares it.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// Name in the model.
    pub name: String,
    /// Declared element type.
    pub element_type: ElementType,
    /// Declared dimensions; `None` where the model does not say.
    pub shape: Option<Vec<Dim>>,
}

/// Where an evaluation ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvaluatedOn {
    /// The engine itself, on its GPU.
    Device,
    /// The graph the engine is built from, on the CPU.
    Reference,
}

impl fmt::Display for EvaluatedOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Device => "device",
            Self::Reference => "reference",
        })
    }
}

/// Runs one model.
///
/// Ids and masks may be given as any integer type and are converted to the declared one. Floating-point tensors are
/// given and returned as FP32 whatever the declared width. NaN and infinity pass through unchanged.
pub trait Executor: Send + Sync {
    /// Inputs that must be given, in the model's order; weights listed as inputs are not among them.
    fn inputs(&self) -> &[Port];

    /// Outputs, in the model's order.
    fn outputs(&self) -> &[Port];

    /// Whether results come from the engine or from a stand-in.
    fn evaluated_on(&self) -> EvaluatedOn;

    /// Computes all outputs, in the order of [`outputs`](Self::outputs). Inputs may come in any order.
    fn run(&self, inputs: &[NamedValue]) -> Result<Vec<NamedValue>, ExecError> {
        self.run_tapped(inputs, &[], &mut |_, _| {})
    }

    /// The same, and shows the float tensors named by `taps` in that order. A slice lives only during its visit.
    ///
    /// All tapped tensors are held until the model has run, so the batch bounds the memory: for the `gemm` tensors of
    /// BERT-base it is 252 KiB a token, 32 MiB for a row of 128. Batches of 256 to 512 tokens run as fast as larger ones.
    fn run_tapped(
        &self,
        inputs: &[NamedValue],
        taps: &[String],
        visit: &mut dyn FnMut(&str, &[f32]),
    ) -> Result<Vec<NamedValue>, ExecError>;

    /// Whether [`run_tapped`](Self::run_tapped) can show this tensor.
    fn can_tap(&self, name: &str) -> bool;
}
