//! What can be wrong with an optimization profile, always with the input and the numbers.

use std::fmt;

use miette::Diagnostic;
use thiserror::Error;

/// Which of a range's three shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Corner {
    /// The smallest.
    Min,
    /// The one to be fastest at.
    Opt,
    /// The largest.
    Max,
}

impl fmt::Display for Corner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Corner::Min => "min",
            Corner::Opt => "opt",
            Corner::Max => "max",
        })
    }
}

/// One number in a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Which profile, from 1.
    pub profile: usize,
    /// Which input.
    pub input: String,
    /// Which of its shapes.
    pub corner: Corner,
    /// Which dimension, from 0.
    pub axis: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { profile, input, corner, axis } = self;
        write!(f, "profile {profile}: input `{input}`, {corner}, dimension {axis}")
    }
}

/// Why a profile cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, Diagnostic, Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ProfileError {
    #[error("the model has dynamic inputs ({}) but no shapes are given", inputs.join(", "))]
    #[diagnostic(code(tensorrt::no_profile), help("give `shapes` with min, opt and max"))]
    None { inputs: Vec<String> },

    #[error("profile {profile}: no shapes for input `{input}`, which is dynamic")]
    #[diagnostic(code(tensorrt::profile_input_missing), help("give min, opt and max for it"))]
    Missing { profile: usize, input: String },

    #[error("profile {profile}: the model has no input `{input}`")]
    #[diagnostic(code(tensorrt::profile_input_unknown), help("its inputs are {}", known.join(", ")))]
    Unknown { profile: usize, input: String, known: Vec<String> },

    #[error(
        "profile {profile}: input `{input}`, {corner}: {given:?} has {} dimension(s), the model's input has rank {rank}",
        given.len()
    )]
    #[diagnostic(code(tensorrt::profile_rank), help("give {rank} sizes"))]
    WrongRank { profile: usize, input: String, corner: Corner, given: Vec<i64>, rank: usize },

    #[error("{place}: {value} is not a size")]
    #[diagnostic(code(tensorrt::profile_not_positive), help("sizes are at least 1"))]
    NotPositive { place: Place, value: i64 },

    #[error("{place}: {value} is too large, TensorRT goes up to 2147483647")]
    #[diagnostic(
        code(tensorrt::profile_too_large),
        help("give the largest size you will really send")
    )]
    TooLarge { place: Place, value: i64 },

    #[error("{place}: {value} is above {above}, which is {limit}")]
    #[diagnostic(
        code(tensorrt::profile_order),
        help("min ≤ opt ≤ max must hold in every dimension")
    )]
    OutOfOrder { place: Place, value: i64, above: Corner, limit: i64 },

    #[error("{place}: {value}, but the model fixes this dimension to {fixed}")]
    #[diagnostic(
        code(tensorrt::profile_fixed),
        help("give {fixed} for min, opt and max, or export the model with a dynamic dimension")
    )]
    Fixed { place: Place, value: i64, fixed: i64 },

    #[error("{place}: {value}, but the same dimension `{dim}` is {expected} in input `{other}`")]
    #[diagnostic(code(tensorrt::profile_disagree), help("give one size for `{dim}` in all inputs"))]
    Disagree { place: Place, value: i64, dim: String, other: String, expected: i64 },

    #[error("{place}: sequences of {value}, but the model has only {positions} positions")]
    #[diagnostic(code(tensorrt::profile_positions), help("keep sequences at {positions} or below"))]
    PastPositions { place: Place, value: i64, positions: i64 },

    #[error("`{text}` is no shape like input_ids:8x128")]
    #[diagnostic(
        code(tensorrt::profile_spec),
        help(
            "write name:AxB, separated by commas, each name once; the shape follows the last colon"
        )
    )]
    Spec { text: String },

    #[error("input `{input}` has no {corner} shape")]
    #[diagnostic(code(tensorrt::profile_corner), help("name the same inputs in min, opt and max"))]
    CornerMissing { input: String, corner: Corner },

    #[error("input `{input}` steers shapes by its values, which profiles here cannot bound")]
    #[diagnostic(
        code(tensorrt::profile_shape_tensor),
        help("export the model so that shapes follow from the shapes of its inputs")
    )]
    ShapeTensor { input: String },
}
