//! `trtforge benchmark`

use std::path::PathBuf;

use clap::Args;

use super::{ProfileArgs, at_least_one};

/// `trtforge benchmark`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  trtforge benchmark profiles/demo.yaml\n  trtforge benchmark profiles/demo.yaml --run out/demo --shape 1x128 --shape 32x128\n  trtforge benchmark profiles/demo.yaml --plan a.fp16.plan --plan a.int8.plan --json\n\nThe profile names the data, whose token ids are what engines run on. Engines are those of a build: the\nrun folder in the profile's `output`, whose run.json then holds the figures. Exit code 3 without a GPU."
)]
pub struct BenchmarkArgs {
    /// The profile and its overrides.
    #[command(flatten)]
    pub profile: ProfileArgs,
    /// The output folder of the build, instead of the profile's `output`
    #[arg(long, value_name = "DIR", conflicts_with = "plan")]
    pub run: Option<PathBuf>,
    /// These plans instead of a build's, each with its manifest beside it; nothing is recorded
    #[arg(long, value_name = "FILE")]
    pub plan: Vec<PathBuf>,
    /// A shape to time, instead of `benchmark.shapes`
    #[arg(long, value_name = "BATCHxLENGTH", value_parser = shape)]
    pub shape: Vec<[usize; 2]>,
    /// Counted time of each engine, shape and way of running, instead of `benchmark.duration_ms`
    #[arg(long, value_name = "MS", value_parser = at_least_one())]
    pub duration_ms: Option<usize>,
    /// Time the graphs on the embedded CPU executor: a reference that says nothing about a GPU; nothing is recorded
    #[arg(long, conflicts_with = "plan")]
    pub reference: bool,
}

fn shape(text: &str) -> Result<[usize; 2], String> {
    let size = |text: &str| text.trim().parse::<usize>().ok().filter(|&size| size > 0);
    let pair =
        text.split_once(['x', 'X']).and_then(|(batch, length)| Some([size(batch)?, size(length)?]));
    pair.ok_or_else(|| "write rows and tokens, for example 32x128".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_rows_by_tokens() {
        assert_eq!(shape("32x128"), Ok([32, 128]));
        assert_eq!(shape(" 1 X 8 "), Ok([1, 8]));
        for wrong in ["32", "x", "0x8", "8x0", "-1x8", "8x8x8", "axb", ""] {
            assert!(shape(wrong).is_err(), "{wrong}");
        }
    }
}
