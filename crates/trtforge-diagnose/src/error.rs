//! Why a trace cannot be read or diagnosed.

use std::path::PathBuf;

use miette::Diagnostic;
use thiserror::Error;

/// Traces that give no answer.
#[derive(Debug, Diagnostic, Error)]
pub enum DiagnoseError {
    /// The file cannot be opened or read.
    #[error("cannot read `{}`", path.display())]
    #[diagnostic(code(diagnose::read), help("is the path right, and the file readable?"))]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file has no content.
    #[error("`{}` is empty", path.display())]
    #[diagnostic(
        code(diagnose::empty),
        help("the profiler had not written it yet, or the disk was full; export the trace again")
    )]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The content is another format.
    #[error("`{}` is not a trace: it looks like {found}", path.display())]
    #[diagnostic(
        code(diagnose::not_a_trace),
        help(
            "trtforge reads PyTorch profiler traces (Chrome trace event JSON, plain or gzip), as `prof.export_chrome_trace` writes them, and the SQLite databases of `nsys export --type sqlite`"
        )
    )]
    NotATrace {
        /// The file.
        path: PathBuf,
        /// What was found instead.
        found: String,
    },
    /// The file ends before its JSON does.
    #[error(
        "`{}` is cut off at byte {offset} of its JSON text, after {events} complete events", path.display()
    )]
    #[diagnostic(
        code(diagnose::truncated),
        help(
            "the process ended while it wrote, or the copy did; `--partial` reads the complete events, and the figures then hold for these alone"
        )
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Bytes of (decompressed) text there are.
        offset: u64,
        /// Events read before.
        events: u64,
    },
    /// The JSON is broken.
    #[error("`{}` is broken at byte {offset} of its JSON text, after {events} events: {message}", path.display())]
    #[diagnostic(code(diagnose::syntax), help("export the trace again, or repair that place"))]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where the value that cannot be read starts.
        offset: u64,
        /// Events read before.
        events: u64,
        /// What is wrong with it.
        message: String,
    },
    /// The gzip stream is damaged.
    #[error("`{}` is a damaged gzip file: {message} (after {offset} bytes of text)", path.display())]
    #[diagnostic(
        code(diagnose::gzip),
        help("`gzip -t` says the same; copy or export the trace again")
    )]
    Gzip {
        /// The file.
        path: PathBuf,
        /// Bytes of text decompressed before.
        offset: u64,
        /// What the decoder said.
        message: String,
    },
    /// The database is damaged, cut off, or cannot be opened.
    #[error("`{}` is no SQLite database that can be read: {source}", path.display())]
    #[diagnostic(
        code(diagnose::database),
        help("export it again from the report: `nsys export --type sqlite FILE.nsys-rep`")
    )]
    Database {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// JSON, but nothing in it to diagnose.
    #[error("`{}` holds no trace events", path.display())]
    #[diagnostic(
        code(diagnose::no_events),
        help(
            "a trace has its events under `traceEvents`; was anything recorded between the profiler's start and stop?"
        )
    )]
    NoEvents {
        /// The file.
        path: PathBuf,
    },
    /// `--steps` without steps.
    #[error("the trace has no profiler steps (`ProfilerStep#N`)")]
    #[diagnostic(
        code(diagnose::no_steps),
        help("call `prof.step()` in the loop, or leave `--steps` out to read the whole trace")
    )]
    NoSteps,
}
