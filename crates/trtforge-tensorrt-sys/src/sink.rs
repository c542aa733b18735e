//! Where a plan goes, piece by piece as the library serializes it.

use std::any::Any;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

/// Takes a plan and remembers why it could not. Called from the library's threads, so nothing here may unwind into C++.
pub struct PlanSink<'a> {
    state: Mutex<State<'a>>,
}

struct State<'a> {
    out: &'a mut (dyn Write + Send),
    bytes: u64,
    error: Option<io::Error>,
    panic: Option<Box<dyn Any + Send>>,
}

/// What became of a plan that was written.
pub struct Written {
    /// Bytes that `out` took.
    pub bytes: u64,
    /// Why it took no more.
    pub error: Option<io::Error>,
    /// What `out` panicked with, to be resumed once out of C++.
    pub panic: Option<Box<dyn Any + Send>>,
}

impl<'a> PlanSink<'a> {
    /// A sink that writes to `out`.
    pub fn new(out: &'a mut (dyn Write + Send)) -> PlanSink<'a> {
        PlanSink { state: Mutex::new(State { out, bytes: 0, error: None, panic: None }) }
    }

    /// What became of it.
    pub fn finish(self) -> Written {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        Written { bytes: state.bytes, error: state.error, panic: state.panic }
    }

    /// Whether all of it was taken; after a failure nothing more is.
    pub(crate) fn write(&self, bytes: &[u8]) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.error.is_some() || state.panic.is_some() {
            return false;
        }
        match catch_unwind(AssertUnwindSafe(|| state.out.write_all(bytes))) {
            Ok(Ok(())) => {
                state.bytes += bytes.len() as u64;
                true
            }
            Ok(Err(error)) => {
                state.error = Some(error);
                false
            }
            Err(panic) => {
                state.panic = Some(panic);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes 4 bytes, then fails or panics.
    struct Full {
        taken: Vec<u8>,
        panics: bool,
    }

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.taken.len() >= 4 {
                assert!(!self.panics, "no more");
                return Err(io::ErrorKind::StorageFull.into());
            }
            let taken = bytes.len().min(4 - self.taken.len());
            self.taken.extend(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_remembered_and_ends_the_plan() {
        let mut full = Full { taken: Vec::new(), panics: false };
        let sink = PlanSink::new(&mut full);
        assert!(sink.write(b"ab"));
        assert!(!sink.write(b"cdefg"));
        assert!(!sink.write(b""), "nothing is taken after a failure");
        let written = sink.finish();
        assert_eq!((written.bytes, written.error.unwrap().kind()), (2, io::ErrorKind::StorageFull));
        assert_eq!(full.taken, b"abcd");
    }

    #[test]
    fn a_panic_is_kept_for_later() {
        let mut full = Full { taken: Vec::new(), panics: true };
        let sink = PlanSink::new(&mut full);
        assert!(!sink.write(b"abcdefg"));
        assert_eq!(sink.finish().panic.unwrap().downcast_ref::<&str>(), Some(&"no more"));
    }
}
