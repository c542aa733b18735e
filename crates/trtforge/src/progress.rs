//! Progress on a terminal, and only there; lines of plain text otherwise when something long starts.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// One line on standard error. A reader who has gone away changes no result.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
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
    pub fn stage(self, name: &str, total: u64, unit: &str) -> Stage {
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
        if !self.quiet {
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
