//! The command line: what can be asked, in `clap`'s terms.

mod benchmark;
mod calibrate;
mod compare;
mod gpu_check;
mod tools;

use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

pub use benchmark::BenchmarkArgs;
pub use calibrate::{
    CalibrateArgs, CalibrateCommand, CalibrateOptions, ExportArgs, ImportArgs, MergeArgs, Missing,
    Observe,
};
pub use compare::CompareArgs;
pub use gpu_check::{GpuCheckArgs, GpuCheckStep};
pub use tools::{CompletionsArgs, InitArgs, MessageArgs, SchemaArgs, SchemaOf};

/// Exit codes, shown by `trtforge --help`.
pub const EXIT_CODES: &str = "Exit codes:\n  0  accepted (or done)\n  1  the gate refused an engine, or there was too little evidence\n  2  bad input: profile, model, data, output folder\n  3  TensorRT or a GPU is missing\n  4  a library failed\n  130  interrupted (Ctrl-C or SIGTERM)\n\nExample:\n  trtforge build profiles/demo.yaml --output out/demo";

/// From an ONNX BERT to FP16 and INT8 TensorRT engines that are calibrated, judged and explained.
#[derive(Debug, Parser)]
#[command(name = "trtforge", version, about, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// How it shows its work.
    #[command(flatten)]
    pub messages: MessageArgs,
}

/// Reads the command line of this process; its own messages already obey `--color`.
pub fn parse() -> Result<Cli, clap::Error> {
    let arguments: Vec<_> = std::env::args_os().collect();
    let words: Vec<&str> = arguments.iter().filter_map(|argument| argument.to_str()).collect();
    let wanted =
        words.iter().enumerate().find_map(|(at, word)| match word.strip_prefix("--color") {
            Some("") => words.get(at + 1).copied(),
            Some(value) => value.strip_prefix('='),
            None => None,
        });
    let color = match wanted {
        Some("always") => clap::ColorChoice::Always,
        Some("never") => clap::ColorChoice::Never,
        _ => clap::ColorChoice::Auto,
    };
    Cli::from_arg_matches(&Cli::command().color(color).try_get_matches_from(arguments)?)
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a commented profile from a model and its data
    Init(InitArgs),
    /// Run the whole chain of a profile: check, calibrate, rewrite, build, evaluate, judge, publish
    Build(BuildArgs),
    /// Check a profile with all it names, or one ONNX model
    Check(CheckArgs),
    /// Measure activation ranges and write the calibration table
    Calibrate(CalibrateArgs),
    /// Write the FP16 and INT8 ONNX graphs
    Quantize(QuantizeArgs),
    /// Measure what quantizing each node alone costs, the worst first
    Sensitivity(SensitivityArgs),
    /// Plan optimization profiles from the lengths of the data
    Shapes(ShapesArgs),
    /// Measure the accuracy of an ONNX model on the evaluation rows
    Evaluate(EvaluateArgs),
    /// Describe an ONNX model, or show what a plan was made from
    Inspect(InspectArgs),
    /// Time the engines of a build on the GPU: latency, throughput and the speed-up of INT8 over FP16
    Benchmark(BenchmarkArgs),
    /// Say why the GPU is idle, by measuring a profile's service or from the trace of a running one
    Diagnose(DiagnoseArgs),
    /// Judge a finished run again under other rules, without running anything
    Gate(GateArgs),
    /// Put runs or engines side by side: inputs, decisions, accuracy, speed, size
    Compare(CompareArgs),
    /// Render report.html and report.md again from a run folder
    Report(ReportArgs),
    /// Say which TensorRT libraries, driver and GPU are found, and what that makes possible
    Doctor(DoctorArgs),
    /// Try everything that needs a GPU on this machine: `scripts/gpu-check`
    #[command(hide = true)]
    GpuCheck(GpuCheckArgs),
    /// Print the JSON Schema of a profile, for editors, or of run.json
    Schema(SchemaArgs),
    /// Print the completion script of a shell
    Completions(CompletionsArgs),
    /// Print the manual page
    #[command(after_help = "Example:\n  trtforge man > trtforge.1")]
    Man,
}

/// What every command that reads a profile takes.
#[derive(Debug, Args)]
pub struct ProfileArgs {
    /// The profile (YAML)
    pub profile: PathBuf,
    /// Override one field, for example --set gate.max_drop=0.01
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub assignments: Vec<String>,
    /// Print the result as JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// No progress, no summary; errors only
    #[arg(long, short)]
    pub quiet: bool,
}

/// `trtforge build`
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  trtforge build profiles/demo.yaml --output out/demo --set gate.max_drop=0.01"
)]
pub struct BuildArgs {
    /// The profile and its overrides.
    #[command(flatten)]
    pub profile: ProfileArgs,
    /// Where results go, instead of the profile's `output`
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// The SDK, instead of the profile's `engine.backend`
    #[arg(long)]
    pub backend: Option<BackendName>,
    /// Stop after this stage
    #[arg(long, value_name = "STAGE")]
    pub stop_after: Option<StageName>,
}

/// `--backend`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BackendName {
    /// TensorRT when its builder and a GPU are there, else TensorRT-RTX
    Auto,
    /// TensorRT; needs a GPU
    Tensorrt,
    /// TensorRT-RTX; builds on any machine
    TensorrtRtx,
    /// No engines: stop at the ONNX graphs
    None,
}

impl BackendName {
    /// As in a profile.
    pub const fn name(self) -> &'static str {
        match self {
            BackendName::Auto => "auto",
            BackendName::Tensorrt => "tensorrt",
            BackendName::TensorrtRtx => "tensorrt-rtx",
            BackendName::None => "none",
        }
    }
}

/// Stages in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum StageName {
    /// Everything is read and checked
    Check,
    /// Optimization profiles are planned
    Shapes,
    /// The calibration table is made
    Calibrate,
    /// FP16 and INT8 graphs are written
    Quantize,
    /// Engines are built
    Build,
    /// Accuracy is measured
    Evaluate,
    /// Engines were timed, where there is a GPU; without one there is no such stage
    Benchmark,
    /// The gate has judged; nothing is published
    Judge,
    /// Where the gate refused INT8 and the profile says so, its worst nodes went back to FP16; nothing is published
    Fallback,
}

impl StageName {
    /// As on the command line and in the record.
    pub const fn name(self) -> &'static str {
        match self {
            StageName::Check => "check",
            StageName::Shapes => "shapes",
            StageName::Calibrate => "calibrate",
            StageName::Quantize => "quantize",
            StageName::Build => "build",
            StageName::Evaluate => "evaluate",
            StageName::Benchmark => "benchmark",
            StageName::Judge => "judge",
            StageName::Fallback => "fallback",
        }
    }
}

/// `trtforge check`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  trtforge check profiles/demo.yaml\n  trtforge check model.onnx --json"
)]
pub struct CheckArgs {
    /// A profile (.yaml, .yml) or a model (.onnx)
    pub path: PathBuf,
    /// Override one field of the profile
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub assignments: Vec<String>,
    /// Print the result as JSON on standard output
    #[arg(long)]
    pub json: bool,
}

/// `trtforge quantize`
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  trtforge quantize profiles/demo.yaml --table calibration.json -o onnx/"
)]
pub struct QuantizeArgs {
    /// The profile and its overrides.
    #[command(flatten)]
    pub profile: ProfileArgs,
    /// The calibration table
    #[arg(long, short, value_name = "FILE")]
    pub table: PathBuf,
    /// Folder for the graphs
    #[arg(long, short, value_name = "DIR")]
    pub output: PathBuf,
}

/// `trtforge sensitivity`
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  trtforge sensitivity profiles/demo.yaml --rows 64 --top 10\n\nEach MatMul, Gemm, attention or residual Add that the profile makes INT8 is quantized alone; the rest\nstays FP32. Rows come from the calibration file, those first that did not calibrate."
)]
pub struct SensitivityArgs {
    /// The profile and its overrides.
    #[command(flatten)]
    pub profile: ProfileArgs,
    /// Rows to measure on
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub rows: u32,
    /// Units to list; 0 lists all
    #[arg(long, value_name = "K", default_value_t = 20)]
    pub top: usize,
}

/// `trtforge shapes`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  trtforge shapes profiles/demo.yaml\n  trtforge shapes profiles/demo.yaml --lengths lengths.txt\n  trtforge shapes --lengths lengths.txt --buckets 3 --max-length 256"
)]
pub struct ShapesArgs {
    /// The profile (YAML): its data, or with --lengths only its model and its options
    #[arg(required_unless_present = "lengths")]
    pub profile: Option<PathBuf>,
    /// Override one field of the profile, for example --set shapes.profiles=4
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "profile")]
    pub assignments: Vec<String>,
    /// Lengths in tokens to plan from: one a line, with commas between them, or a JSON array
    #[arg(long, value_name = "FILE")]
    pub lengths: Option<PathBuf>,
    /// Without a profile: how many optimization profiles
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = at_least_one(), conflicts_with = "profile")]
    pub buckets: usize,
    /// Without a profile: rows of the largest batch
    #[arg(long, value_name = "B", default_value_t = 32, value_parser = at_least_one(), conflicts_with = "profile")]
    pub max_batch: usize,
    /// Without a profile: tokens of the longest row
    #[arg(long, value_name = "L", default_value_t = 512, value_parser = at_least_one(), conflicts_with = "profile")]
    pub max_length: usize,
    /// Without a profile: hidden size of the encoder
    #[arg(long, value_name = "H", default_value_t = 768, value_parser = at_least_one(), conflicts_with = "profile")]
    pub hidden: usize,
    /// Without a profile: layers of the encoder
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = at_least_one(), conflicts_with = "profile")]
    pub layers: usize,
    /// Print the result as JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// No progress, no summary; errors only
    #[arg(long, short)]
    pub quiet: bool,
}

/// `trtforge evaluate`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  trtforge evaluate profiles/demo.yaml --onnx out/demo/onnx/demo.int8.onnx\n  trtforge evaluate profiles/demo.yaml --plan out/demo/engines/demo.int8.plan"
)]
pub struct EvaluateArgs {
    /// The profile and its overrides.
    #[command(flatten)]
    pub profile: ProfileArgs,
    /// The model to evaluate, instead of the profile's own
    #[arg(long, value_name = "FILE")]
    pub onnx: Option<PathBuf>,
    /// A plan to evaluate on this machine's GPU, built for the profile's model by the backend it names
    #[arg(long, value_name = "FILE", conflicts_with = "onnx")]
    pub plan: Option<PathBuf>,
    /// Write the logits of every row here, one JSON line each
    #[arg(long, value_name = "FILE")]
    pub predictions: Option<PathBuf>,
}

/// `trtforge inspect`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  trtforge inspect model.onnx\n  trtforge inspect out/demo/engines/demo.int8.plan --json\n  trtforge inspect out/demo/engines/demo.int8.plan --layers\n\nOf a plan: what its manifest and its own first bytes say, without TensorRT. --layers needs a GPU."
)]
pub struct InspectArgs {
    /// An ONNX model, or a plan with its manifest beside it
    pub path: PathBuf,
    /// Of a plan: bring it to life on the GPU here and list its layers, with the types they compute in
    #[arg(long)]
    pub layers: bool,
    /// With --layers: the ONNX file that the plan was built from, where it is not in its run folder
    #[arg(long, value_name = "FILE", requires = "layers")]
    pub onnx: Option<PathBuf>,
    /// Print the result as JSON on standard output
    #[arg(long)]
    pub json: bool,
}

/// `trtforge diagnose`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  trtforge diagnose profiles/demo.yaml --rows 256 --batch 32\n  trtforge diagnose profiles/demo.yaml --record out/demo\n  trtforge diagnose --trace trace.json.gz --steps"
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub struct DiagnoseArgs {
    /// A profile: its service is measured on the evaluation rows
    #[arg(required_unless_present = "trace", conflicts_with = "trace")]
    pub profile: Option<PathBuf>,
    /// Override one field of the profile, for example --set max_length=64
    #[arg(long = "set", value_name = "KEY=VALUE", conflicts_with = "trace")]
    pub assignments: Vec<String>,
    /// Requests to serve: the first rows of the evaluation file
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = at_least_one(), conflicts_with = "trace")]
    pub rows: usize,
    /// Rows of a batch of the service as it is, instead of the profile's `evaluate.batch_size`
    #[arg(long, value_name = "B", value_parser = at_least_one(), conflicts_with = "trace")]
    pub batch: Option<usize>,
    /// Put the result into the run.json of this output folder and render its reports again
    #[arg(long, value_name = "DIR", conflicts_with = "trace")]
    pub record: Option<PathBuf>,
    /// A trace of the PyTorch profiler (Chrome trace event JSON), plain or gzip
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Only from the first profiler step to the last, not the whole trace
    #[arg(long, requires = "trace", conflicts_with = "profile")]
    pub steps: bool,
    /// Read the complete events of a file that is cut off, instead of refusing it
    #[arg(long, requires = "trace", conflicts_with = "profile")]
    pub partial: bool,
    /// Print the result as JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// No progress, no summary; errors only
    #[arg(long, short)]
    pub quiet: bool,
}

/// Counts that cannot be 0.
fn at_least_one() -> impl clap::builder::TypedValueParser<Value = usize> {
    use clap::builder::TypedValueParser;
    clap::value_parser!(u64).range(1..=u64::from(u32::MAX)).map(|count| count as usize)
}

/// `trtforge gate`
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  trtforge gate out/demo --set gate.max_drop=0.01 --set gate.metric=macro-f1\n\nExit code 1 when the gate refuses. Nothing in the run folder changes."
)]
pub struct GateArgs {
    /// The output folder of a build
    pub run: PathBuf,
    /// Take the gate of this profile instead of the one that the run was judged by
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Override one field of the gate, for example --set gate.max_drop=0.01
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub assignments: Vec<String>,
    /// Print the verdicts as JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// Write a JUnit XML file with one test case per rule
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

/// `trtforge report`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  trtforge report out/demo\n  trtforge report out/demo --show-text profiles/demo.yaml\n  trtforge report out/demo --json > run.json\n\nrun.json never holds a text of your rows; with --show-text report.html does, until it is rendered again."
)]
pub struct ReportArgs {
    /// The output folder of a build
    pub run: PathBuf,
    /// Put the texts of rows whose answer changed into report.html, read from the evaluation data of this profile
    #[arg(long, value_name = "PROFILE")]
    pub show_text: Option<PathBuf>,
    /// Print the record as JSON on standard output
    #[arg(long)]
    pub json: bool,
}

/// `trtforge doctor`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  trtforge doctor --json")]
pub struct DoctorArgs {
    /// Print the result as JSON on standard output
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests;
