//! What TensorRT tells while it works: log lines and progress. Called from its threads, so nothing here may unwind
//! into C++.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// One line that TensorRT logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawLine {
    /// `nvinfer1::ILogger::Severity`: 0 is the worst.
    pub severity: i32,
    /// The message; bytes that are no UTF-8 are replaced.
    pub message: String,
}

/// Collects log lines; clones share the lines.
#[derive(Debug, Clone)]
pub struct LogSink {
    lines: Arc<Mutex<Vec<RawLine>>>,
    /// Lines less severe than this are not kept.
    keep: i32,
}

impl LogSink {
    /// A sink that keeps lines up to `keep` (`nvinfer1::ILogger::Severity`, 0 is the worst).
    pub fn new(keep: i32) -> LogSink {
        LogSink { lines: Arc::default(), keep }
    }

    /// The lines so far.
    pub fn lines(&self) -> Vec<RawLine> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn write(&self, severity: i32, message: &[u8]) {
        if severity > self.keep {
            return;
        }
        let message = String::from_utf8_lossy(message).into_owned();
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push(RawLine { severity, message });
    }
}

/// What the builder does right now; phases nest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RawProgress<'a> {
    /// A phase of `steps` steps began, inside `parent` if it has one.
    Started {
        /// Name, unique among the phases that are running.
        phase: &'a str,
        /// The phase around it.
        parent: Option<&'a str>,
        /// How many steps will follow.
        steps: u32,
    },
    /// Step `step` (from 0) of a phase is done.
    Step {
        /// Name of the phase.
        phase: &'a str,
        /// Which step.
        step: u32,
    },
    /// A phase ended, complete or not.
    Finished {
        /// Name of the phase.
        phase: &'a str,
    },
}

type Callback<'a> = &'a (dyn Fn(RawProgress<'_>) -> bool + Sync + 'a);

/// Hears of a build's progress and may cancel it.
pub struct Monitor<'a> {
    /// Returns whether to go on.
    callback: Callback<'a>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    cancelled: bool,
    panic: Option<Box<dyn Any + Send>>,
}

impl<'a> Monitor<'a> {
    /// A monitor that asks `callback` whether to go on.
    pub fn new(callback: Callback<'a>) -> Monitor<'a> {
        Monitor { callback, state: Mutex::default() }
    }

    /// Whether the callback wanted to stop.
    pub fn cancelled(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).cancelled
    }

    /// What the callback panicked with, to be resumed once out of C++.
    pub fn into_panic(self) -> Option<Box<dyn Any + Send>> {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).panic
    }

    pub(crate) fn phase_start(&self, phase: &[u8], parent: &[u8], steps: i32) {
        let (phase, parent) = (String::from_utf8_lossy(phase), String::from_utf8_lossy(parent));
        let parent = (!parent.is_empty()).then_some(&*parent);
        let steps = u32::try_from(steps).unwrap_or(0);
        self.tell(RawProgress::Started { phase: &phase, parent, steps });
    }

    pub(crate) fn step_complete(&self, phase: &[u8], step: i32) -> bool {
        let step = u32::try_from(step).unwrap_or(0);
        self.tell(RawProgress::Step { phase: &String::from_utf8_lossy(phase), step });
        !self.cancelled()
    }

    pub(crate) fn phase_finish(&self, phase: &[u8]) {
        self.tell(RawProgress::Finished { phase: &String::from_utf8_lossy(phase) });
    }

    fn tell(&self, progress: RawProgress<'_>) {
        // Once cancelled the callback hears no more: the phases that unwind are no news.
        if self.cancelled() {
            return;
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.callback)(progress)));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(go_on) => state.cancelled |= !go_on,
            Err(panic) => {
                state.cancelled = true;
                state.panic.get_or_insert(panic);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_severity_and_lose_only_what_is_not_utf8() {
        let sink = LogSink::new(2);
        let shared = sink.clone();
        shared.write(1, b"caf\xe9");
        shared.write(3, b"too verbose");
        assert_eq!(sink.lines(), [RawLine { severity: 1, message: "caf\u{fffd}".to_owned() }]);
    }

    #[test]
    fn a_no_from_any_event_cancels_at_the_next_step() {
        let monitor = Monitor::new(&|progress| !matches!(progress, RawProgress::Started { .. }));
        monitor.phase_start(b"build", b"", 3);
        assert!(!monitor.step_complete(b"build", 0));
        assert!(monitor.cancelled());
        assert!(monitor.into_panic().is_none());
    }

    #[test]
    fn a_panic_in_the_callback_is_kept_and_cancels() {
        let monitor = Monitor::new(&|_| panic!("boom"));
        assert!(!monitor.step_complete(b"build", 0));
        let panic = monitor.into_panic().unwrap();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"boom"));
    }

    #[test]
    fn phases_arrive_with_parent_and_steps() {
        let seen = Mutex::new(Vec::new());
        let callback = |progress: RawProgress<'_>| {
            seen.lock().unwrap().push(format!("{progress:?}"));
            true
        };
        let monitor = Monitor::new(&callback);
        monitor.phase_start(b"inner", b"outer", -1);
        assert!(monitor.step_complete(b"inner", 2));
        monitor.phase_finish(b"inner");
        assert_eq!(
            *seen.lock().unwrap(),
            [
                r#"Started { phase: "inner", parent: Some("outer"), steps: 0 }"#,
                r#"Step { phase: "inner", step: 2 }"#,
                r#"Finished { phase: "inner" }"#,
            ]
        );
    }
}
