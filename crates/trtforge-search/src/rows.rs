//! The few rows that variants are compared on.

use trtforge_evaluate::Prediction;
use trtforge_exec::{Executor, NamedValue};

use crate::divergence::Divergence;
use crate::error::SearchError;

/// Rows of a data set that can be run through any variant of one model.
///
/// They come in parts that run as one batch each. The parts are the same for every variant, whatever batches the rest of
/// the program works in, so that a search does not depend on those.
pub trait Rows {
    /// What running can end in besides [`SearchError`].
    type Error: From<SearchError>;

    /// How many parts there are.
    fn parts(&self) -> usize;

    /// The logits of each row of one part.
    ///
    /// - `more`: inputs of the variant that the model itself does not have.
    fn run(
        &self,
        executor: &dyn Executor,
        part: usize,
        more: &[NamedValue],
    ) -> Result<Vec<Prediction>, Self::Error>;
}

/// What the FP32 model answers on the rows, part by part.
#[derive(Debug, Clone, PartialEq)]
pub struct Baseline {
    parts: Vec<Vec<Prediction>>,
}

impl Baseline {
    /// Runs the FP32 model on all rows.
    pub fn measure<R: Rows>(rows: &R, executor: &dyn Executor) -> Result<Self, R::Error> {
        let parts = (0..rows.parts())
            .map(|part| rows.run(executor, part, &[]))
            .collect::<Result<_, _>>()?;
        Ok(Self { parts })
    }

    /// Rows in all parts.
    pub fn rows(&self) -> usize {
        self.parts.iter().map(Vec::len).sum()
    }

    /// How far a variant's logits of one part lie from these.
    pub fn divergence(
        &self,
        part: usize,
        candidate: &[Prediction],
    ) -> Result<Divergence, SearchError> {
        Ok(Divergence::between(&self.parts[part], candidate)?)
    }
}
