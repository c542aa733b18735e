//! `trtforge compare`.

use std::path::PathBuf;

use clap::Args;

/// `trtforge compare`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  trtforge compare out/entropy out/mse\n  trtforge compare out/a out/b out/c -o compare.html\n  trtforge compare out/new --baseline out/production --fail-on-regression\n  trtforge compare out/demo/engines/demo.fp16.plan out/demo/engines/demo.int8.plan\n\nExit code 0, whatever the comparison says; with --fail-on-regression 1 where a run is worse, or cannot be told."
)]
pub struct CompareArgs {
    /// Run folders, run.json files, or plans of a run folder; the first is the baseline
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// What the others are compared with, instead of the first
    #[arg(long, value_name = "RUN")]
    pub baseline: Option<PathBuf>,
    /// Write a page with tables and charts
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print Markdown on standard output
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Print the comparison as JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// Exit code 1 where a run is worse than the baseline beyond noise, or where that cannot be told
    #[arg(long)]
    pub fail_on_regression: bool,
}
