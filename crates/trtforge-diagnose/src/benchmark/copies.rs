//! What pageable host memory costs.

use serde::Serialize;

use super::schedule::{Entry, Limits, Samples, measure};
use super::statistics::median;
use super::{How, Subject};

/// Medians of one way of copying, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CopyTimes {
    /// Host to device.
    pub copy_in_ms: f64,
    /// Device to host.
    pub copy_out_ms: f64,
    /// The whole run.
    pub total_ms: f64,
    /// Runs.
    pub runs: usize,
}

/// The same batch through pageable and through page-locked memory.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CopyTest {
    /// Rows of the batch.
    pub batch_rows: usize,
    /// Tokens that each is padded to.
    pub length: usize,
    /// Memory that the system may move: the driver copies it once more.
    pub pageable: CopyTimes,
    /// Page-locked memory.
    pub pinned: CopyTimes,
    /// Share of the whole run's time that page-locked memory saves; negative where it costs.
    pub pinned_saves: f64,
}

impl CopyTest {
    /// In a sentence.
    pub fn verdict(&self) -> String {
        let both = |times: &CopyTimes| times.copy_in_ms + times.copy_out_ms;
        format!(
            "copies of a batch of {} take {:.3} ms pageable and {:.3} ms pinned; a run {:.3} and {:.3} ms",
            self.batch_rows,
            both(&self.pageable),
            both(&self.pinned),
            self.pageable.total_ms,
            self.pinned.total_ms
        )
    }
}

/// Runs a batch both ways by turns; none when the subject has no clock of its own.
pub fn copy_test<S: Subject>(
    subject: &mut S,
    batch_rows: usize,
    length: usize,
    limits: &Limits,
) -> Result<Option<CopyTest>, S::Error> {
    let entries = [How::PAGEABLE, How::PLAIN].map(|how| Entry { subject: 0, how });
    let found = measure(std::slice::from_mut(subject), &entries, limits)?;
    let (Some(pageable), Some(pinned)) = (times(&found[0]), times(&found[1])) else {
        return Ok(None);
    };
    let pinned_saves =
        if pageable.total_ms > 0.0 { 1.0 - pinned.total_ms / pageable.total_ms } else { 0.0 };
    Ok(Some(CopyTest { batch_rows, length, pageable, pinned, pinned_saves }))
}

fn times(samples: &Samples) -> Option<CopyTimes> {
    let devices: Option<Vec<_>> = samples.times.iter().map(|times| times.device).collect();
    let devices = devices?;
    let ms = |us: Option<f64>| us.map(|us| us / 1e3);
    Some(CopyTimes {
        copy_in_ms: ms(median(devices.iter().map(|one| one.copy_in_us)))?,
        copy_out_ms: ms(median(devices.iter().map(|one| one.copy_out_us)))?,
        total_ms: ms(median(samples.times.iter().map(|one| one.total_us)))?,
        runs: devices.len(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::fake::Fake;
    use super::*;

    #[test]
    fn twice_the_copies_by_hand() {
        let limits = Limits {
            warmup: Duration::ZERO,
            duration: Duration::from_millis(20),
            max_iterations: 50,
            rounds: 2,
        };
        let test = copy_test(&mut Fake::steady(1000.0), 32, 128, &limits).unwrap().unwrap();
        assert_eq!((test.pageable.copy_in_ms, test.pinned.copy_in_ms), (0.2, 0.1));
        assert_eq!(test.pinned_saves, 0.0);
        assert_eq!(
            test.verdict(),
            "copies of a batch of 32 take 0.400 ms pageable and 0.200 ms pinned; a run 1.000 and 1.000 ms"
        );
    }
}
