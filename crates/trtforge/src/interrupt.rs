//! Ctrl-C: the first one asks the long stages to stop at their next step, the second one ends the process.
//!
//! A stage that stops returns an error like any other, so that nothing half-written stays and the store keeps what is
//! whole. SIGTERM, which schedulers send, is the same.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::error::{INTERRUPTED, PipelineError};

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Whether someone asked to stop, for loops that take a flag. From the first call on, a signal sets it instead of ending
/// the process: a command with nothing long in it never gets here, and ends at once as ever.
pub fn asked() -> &'static AtomicBool {
    ASKED.get_or_init(|| {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the second signal finds the flag that the first one set. Where a handler cannot be
            // installed, the signal ends the process as it did before.
            let _ =
                flag::register_conditional_shutdown(signal, INTERRUPTED.into(), Arc::clone(&asked));
            let _ = flag::register(signal, Arc::clone(&asked));
        }
        asked
    })
}

/// An error once someone asked to stop. `during` is the stage, for the message.
pub fn check(during: &str) -> Result<(), PipelineError> {
    if asked().load(Ordering::Relaxed) {
        return Err(PipelineError::Interrupted { during: during.to_owned() });
    }
    Ok(())
}
