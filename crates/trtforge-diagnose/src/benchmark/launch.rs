//! Is the device waiting for its next kernel to be submitted?

use serde::Serialize;

use super::schedule::{Entry, Limits, Samples, measure};
use super::statistics::median;
use super::{How, Subject};

/// The host is called too slow when submitting takes at least this share of what the device takes: then it starts each kernel as it comes.
const SUBMITTING_SHARE: f64 = 0.9;

/// Replaying a graph must save this share of the device's time to be worth a word.
const GRAPH_GAIN: f64 = 0.05;

/// Medians of one way of running, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LaunchTimes {
    /// Until the call that submits the work has returned.
    pub enqueue_ms: f64,
    /// From the first kernel's start to the last one's end, gaps included.
    pub compute_ms: f64,
    /// The whole run.
    pub total_ms: f64,
    /// Runs.
    pub runs: usize,
}

/// The same batch launched kernel by kernel, and replayed from a CUDA graph.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LaunchTest {
    /// Rows of the batch.
    pub batch_rows: usize,
    /// Tokens that each is padded to.
    pub length: usize,
    /// Kernel by kernel.
    pub plain: LaunchTimes,
    /// From a graph; none where it cannot be captured.
    pub graph: Option<LaunchTimes>,
    /// Why there is no graph.
    pub graph_problem: Option<String>,
    /// Whether submitting takes as long as the device's work, so that the device waits for it.
    pub launch_bound: bool,
    /// Share of the whole run's time that the graph saves; negative where it costs.
    pub graph_saves: Option<f64>,
}

impl LaunchTest {
    /// In a sentence.
    pub fn verdict(&self) -> String {
        let rows = if self.batch_rows == 1 { "row" } else { "rows" };
        let enqueue = format!(
            "submitting takes {:.3} ms of host time, the device {:.3} ms",
            self.plain.enqueue_ms, self.plain.compute_ms
        );
        let head = format!("batch of {} {rows}: {enqueue}", self.batch_rows);
        let bound = if self.launch_bound { "launch-bound" } else { "not launch-bound" };
        let graph = match self.graph_saves {
            Some(saves) if saves >= GRAPH_GAIN => {
                format!("; a CUDA graph saves {:.0} %", 100.0 * saves)
            }
            Some(_) => "; a CUDA graph saves nothing to speak of".to_owned(),
            None => String::new(),
        };
        format!("{head}: {bound}{graph}")
    }
}

/// Runs a batch both ways. A graph that fails is said, not an error; a plain run that fails is.
///
/// None when the subject has no clock of its own.
pub fn launch_test<S: Subject>(
    subject: &mut S,
    batch_rows: usize,
    length: usize,
    limits: &Limits,
) -> Result<Option<LaunchTest>, S::Error>
where
    S::Error: std::fmt::Display,
{
    let mut one = |how| {
        let found = measure(std::slice::from_mut(subject), &[Entry { subject: 0, how }], limits)?;
        Ok(found.first().and_then(times))
    };
    let Some(plain) = one(How::PLAIN)? else { return Ok(None) };
    let (graph, graph_problem) = match one(How::GRAPH) {
        Ok(graph) => (graph, None),
        Err(error) => (None, Some(S::Error::to_string(&error))),
    };
    let saves = |graph: LaunchTimes| 1.0 - graph.total_ms / plain.total_ms;
    Ok(Some(LaunchTest {
        batch_rows,
        length,
        plain,
        graph,
        graph_problem,
        launch_bound: plain.enqueue_ms >= SUBMITTING_SHARE * plain.compute_ms,
        graph_saves: graph.map(saves).filter(|saves| saves.is_finite()),
    }))
}

fn times(samples: &Samples) -> Option<LaunchTimes> {
    let devices: Option<Vec<_>> = samples.times.iter().map(|times| times.device).collect();
    let devices = devices?;
    let ms = |us: Option<f64>| us.map(|us| us / 1e3);
    Some(LaunchTimes {
        enqueue_ms: ms(median(devices.iter().map(|one| one.enqueue_us)))?,
        compute_ms: ms(median(devices.iter().map(|one| one.compute_us)))?,
        total_ms: ms(median(samples.times.iter().map(|one| one.total_us)))?,
        runs: devices.len(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Times;
    use super::super::fake::Fake;
    use super::*;

    const LIMITS: Limits = Limits {
        warmup: Duration::ZERO,
        duration: Duration::from_millis(20),
        max_iterations: 50,
        rounds: 2,
    };

    #[test]
    fn submitting_against_computing() {
        // 1 ms: 0.7 ms of kernels. Submitting takes 0.1 ms, or 0.65 ms, which is more than nine tenths of it.
        for (enqueue_us, bound) in [(100.0, false), (650.0, true), (629.0, false), (630.0, true)] {
            let mut subject = Fake { enqueue_us, ..Fake::steady(1000.0) };
            let test = launch_test(&mut subject, 1, 128, &LIMITS).unwrap().unwrap();
            assert_eq!(test.launch_bound, bound, "{enqueue_us}");
            assert_eq!(
                (test.plain.compute_ms, test.plain.total_ms, test.plain.runs),
                (0.7, 1.0, 20)
            );
            assert_eq!(test.graph_saves, Some(0.5));
        }
    }

    #[test]
    fn the_verdict_in_words() {
        let mut subject = Fake { enqueue_us: 650.0, ..Fake::steady(1000.0) };
        let test = launch_test(&mut subject, 1, 128, &LIMITS).unwrap().unwrap();
        assert_eq!(
            test.verdict(),
            "batch of 1 row: submitting takes 0.650 ms of host time, the device 0.700 ms: launch-bound; a CUDA graph saves 50 %"
        );
    }

    #[test]
    fn a_graph_that_fails_is_said() {
        // Plain: 3 to warm up, and 2 turns of 1 + 10 runs; the graph is next.
        let mut subject = Fake { fails_at: Some(26), ..Fake::steady(1000.0) };
        let test = launch_test(&mut subject, 32, 128, &LIMITS).unwrap().unwrap();
        assert_eq!((test.graph, test.graph_saves), (None, None));
        assert_eq!(test.graph_problem.as_deref(), Some("run 26 failed"));
        assert!(test.verdict().ends_with("not launch-bound"), "{}", test.verdict());
    }

    #[test]
    fn without_a_clock_of_its_own_nothing_is_said() {
        struct Clockless;
        impl Subject for Clockless {
            type Error = String;
            fn run(&mut self, _: How) -> Result<Times, String> {
                Ok(Times { total_us: 1000.0, device: None })
            }
        }
        assert_eq!(launch_test(&mut Clockless, 1, 8, &LIMITS).unwrap(), None);
    }
}
