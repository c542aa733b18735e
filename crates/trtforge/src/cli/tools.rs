//! Commands that help to begin, and what editors and shells need.

use std::path::PathBuf;

use clap::{Args, ColorChoice, ValueEnum};
use clap_complete::Shell;

/// `trtforge schema`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  trtforge schema > profile.schema.json\n  trtforge schema run > run.schema.json\n\nThen let the first line of a profile be:\n  # yaml-language-server: $schema=profile.schema.json"
)]
pub struct SchemaArgs {
    /// Of what
    #[arg(value_enum, default_value = "profile")]
    pub of: SchemaOf,
}

/// What has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemaOf {
    /// A profile
    Profile,
    /// The run.json that a build writes
    Run,
}

/// `trtforge completions`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  trtforge completions bash > ~/.local/share/bash-completion/completions/trtforge\n  trtforge completions zsh > ~/.zfunc/_trtforge\n  trtforge completions fish > ~/.config/fish/completions/trtforge.fish"
)]
pub struct CompletionsArgs {
    /// bash, zsh, fish, elvish or powershell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// `trtforge init`
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  trtforge init model.onnx --data train.jsonl test.jsonl -o profile.yaml\n\nWhat cannot be told from the files becomes a TODO line in the profile and is said on standard error."
)]
pub struct InitArgs {
    /// The FP32 ONNX model
    pub model: PathBuf,
    /// tokenizer.json or vocab.txt, where it does not lie beside the model
    #[arg(long, value_name = "FILE")]
    pub tokenizer: Option<PathBuf>,
    /// Rows that calibrate, and rows that judge: two files at most. The only one with labels judges; else names tell
    /// (train, calib; test, eval, dev, valid), else the first calibrates and the second judges
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub data: Vec<PathBuf>,
    /// The profile to write
    #[arg(long, short, value_name = "FILE", default_value = "profile.yaml")]
    pub output: PathBuf,
    /// Write over a profile that exists
    #[arg(long)]
    pub force: bool,
    /// Print what was found as JSON on standard output
    #[arg(long)]
    pub json: bool,
}

/// How a command shows its work, whatever it is.
#[derive(Debug, Args)]
#[command(next_help_heading = "Messages")]
pub struct MessageArgs {
    /// Also say what is reused, what is made, and why
    #[arg(long, short, global = true)]
    pub verbose: bool,
    /// Write every message, also those that --quiet hides, to this file
    #[arg(long, global = true, value_name = "FILE")]
    pub log_file: Option<PathBuf>,
    /// Colour: on terminals unless NO_COLOR is set, always, or never
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value = "auto")]
    pub color: ColorChoice,
}
