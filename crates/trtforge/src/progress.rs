//! Progress on a terminal, and only there; lines of plain text otherwise when something long starts.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use clap::ColorChoice;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::MessageArgs;
use crate::error::PipelineError;
use crate::interrupt;
use crate::store::StoreError;

/// What the command line says about messages; one process has one.
struct Messages {
    verbose: bool,
    color: ColorChoice,
    log: Option<Mutex<File>>,
    start: Instant,
}

static MESSAGES: OnceLock<Messages> = OnceLock::new();

/// Opens the log file and settles colour, before any work.
pub fn begin(args: &MessageArgs) -> Result<(), PipelineError> {
    let log = match &args.log_file {
        Some(path) => {
            let file = File::create(path).map_err(StoreError::io("write to", path))?;
            Some(Mutex::new(file))
        }
        None => None,
    };
    let (verbose, color) = (args.verbose, args.color);
    // A second call changes nothing; there is none.
    let _ = MESSAGES.set(Messages { verbose, color, log, start: Instant::now() });
    let _ = miette::set_hook(Box::new(move |_| {
        let options = match color {
            ColorChoice::Auto => miette::MietteHandlerOpts::new(),
            told => miette::MietteHandlerOpts::new().color(told == ColorChoice::Always),
        };
        Box::new(options.build())
    }));
    log_line(&format!("trtforge {}", env!("CARGO_PKG_VERSION")));
    Ok(())
}

/// Whether text for standard output or error is coloured, given whether that is a terminal.
pub fn colored(terminal: bool) -> bool {
    match MESSAGES.get().map_or(ColorChoice::Auto, |messages| messages.color) {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            terminal
                && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
        }
    }
}

/// One line on standard error. A reader who has gone away changes no result.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
    log_line(line);
}

/// One line for those who want to know more: with `--verbose`, and always in the log file.
pub fn detail(line: &str) {
    if MESSAGES.get().is_some_and(|messages| messages.verbose) {
        say(line);
    } else {
        log_line(line);
    }
}

/// One line in the log file, with the seconds since the start. A full disk loses the log, not the result.
fn log_line(line: &str) {
    let Some(messages) = MESSAGES.get() else { return };
    if let Some(Ok(mut log)) = messages.log.as_ref().map(Mutex::lock) {
        let _ = writeln!(log, "{:10.3} {line}", messages.start.elapsed().as_secs_f64());
    }
}

/// Where and whether progress is shown.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    bars: bool,
    quiet: bool,
}

impl Progress {
    /// Bars when standard error is a terminal, unless `quiet`.
    pub fn new(quiet: bool) -> Self {
        Progress { bars: !quiet && std::io::stderr().is_terminal(), quiet }
    }

    /// Starts showing one stage of `total` steps.
    ///
    /// From the first stage on, Ctrl-C asks instead of ending the process; see [`interrupt`].
    pub fn stage(self, name: &str, total: u64, unit: &str) -> Stage {
        interrupt::asked();
        if !self.bars {
            self.say(&format!("{name} …"));
            return Stage(ProgressBar::hidden());
        }
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        let template =
            format!("{{prefix:<22}} {{bar:28}} {{pos:>6}}/{{len}} {unit} {{elapsed}} {{wide_msg}}");
        bar.set_style(
            ProgressStyle::with_template(&template)
                .unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        bar.set_prefix(name.to_owned());
        bar.enable_steady_tick(Duration::from_millis(120));
        Stage(bar)
    }

    /// One line about what happened, above any bar.
    pub fn say(self, line: &str) {
        if self.quiet {
            log_line(line);
        } else {
            say(line);
        }
    }
}

/// One stage being shown; it disappears when dropped.
#[derive(Debug)]
pub struct Stage(ProgressBar);

impl Stage {
    /// `steps` more are done.
    pub fn advance(&self, steps: u64) {
        self.0.inc(steps);
    }

    /// Where the stage is now, for stages that say so themselves.
    pub fn set(&self, position: u64, message: &str) {
        self.0.set_position(position);
        self.0.set_message(message.to_owned());
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
