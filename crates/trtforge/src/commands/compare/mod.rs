//! `trtforge compare`: runs and engines side by side.

mod evidence;
mod sides;

use std::io::IsTerminal;

use serde_json::json;
use trtforge_report::{Comparison, common_metric};

use super::print;
use crate::cli::CompareArgs;
use crate::error::{PipelineError, REFUSED};
use crate::progress;
use crate::store::{refuse_overwriting, write_atomic};

pub use sides::CompareInputError;

/// Columns where nobody says how many there are.
const USUAL_WIDTH: usize = 100;

/// Compares; 1 when a regression was asked for and found.
pub fn compare(args: &CompareArgs) -> Result<u8, PipelineError> {
    let opened = sides::open(&args.runs, args.baseline.as_deref())?;
    let sides: Vec<_> = opened.iter().map(|one| one.side.clone()).collect();
    let metric = common_metric(&sides)?;
    if let Some(output) = &args.output {
        let files = opened.iter().flat_map(|one| one.files.iter());
        refuse_overwriting(files.map(AsRef::as_ref), output)?;
        super::writable(output)?;
    }
    let accuracy = opened[1..]
        .iter()
        .map(|run| match &metric {
            Some(metric) => evidence::accuracy(metric, &opened[0], run),
            None => Ok(Vec::new()),
        })
        .collect::<Result<_, PipelineError>>()?;
    let comparison = Comparison::of(&sides, metric, accuracy);
    if let Some(output) = &args.output {
        write_atomic(output, comparison.html().as_bytes())?;
    }
    if args.json {
        // Through text, where a threshold keeps its digits: a value would widen it first.
        let text = serde_json::to_string(&comparison).unwrap_or_default();
        print(true, &serde_json::from_str(&text).unwrap_or_default(), "")?;
    } else if args.markdown {
        print(false, &json!(null), &comparison.markdown())?;
    } else {
        let color = progress::colored(std::io::stdout().is_terminal());
        print(false, &json!(null), &comparison.terminal(width(), color))?;
    }
    let mut regressed = false;
    for (run, what) in comparison.regressions().filter(|_| args.fail_on_regression) {
        progress::say(&format!("regression: {run} {what}"));
        regressed = true;
    }
    Ok(if regressed { REFUSED } else { 0 })
}

/// Columns of the terminal; `COLUMNS` says otherwise.
fn width() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let found = terminal_size::terminal_size_of(std::io::stdout())
        .map(|(columns, _)| usize::from(columns.0));
    said.or(found).unwrap_or(USUAL_WIDTH)
}
