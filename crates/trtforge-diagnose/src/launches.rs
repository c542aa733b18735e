//! Which call submitted which work, and what that costs.

use crate::diagnosis::LaunchReport;
use crate::event::DeviceKind;
use crate::spans::Span;
use crate::trace::{DeviceSpan, Launch};

/// Taken as the launch latency when a trace has no launch to measure it on.
const ASSUMED_LATENCY: i64 = 10_000;

/// Calls by correlation.
pub struct Launches {
    sorted: Vec<Launch>,
}

impl Launches {
    /// Calls with the same correlation keep the earliest.
    pub fn new(mut launches: Vec<Launch>) -> Self {
        launches.sort_by_key(|launch| (launch.correlation, launch.span));
        launches.dedup_by_key(|launch| launch.correlation);
        Self { sorted: launches }
    }

    /// The call that submitted `work`.
    pub fn of(&self, work: &DeviceSpan) -> Option<&Launch> {
        if work.correlation == 0 {
            return None;
        }
        let at = self.sorted.binary_search_by_key(&work.correlation, |launch| launch.correlation);
        at.ok().map(|index| &self.sorted[index])
    }

    /// Call lengths over `work` (each call once), kernels, and the launch latency.
    ///
    /// - `devices`: the work of each device, sorted by start.
    pub fn report(&self, devices: &[&[DeviceSpan]], window: Span) -> LaunchCost {
        let mut cost = Tally::default();
        for work in devices {
            self.tally(work, window, &mut cost);
        }
        cost.finish()
    }

    fn tally(&self, work: &[DeviceSpan], window: Span, cost: &mut Tally) {
        // The device is idle at a launch when all work that started before has ended.
        let mut ended = i64::MIN;
        for item in work.iter().filter(|item| window.touches(item.span)) {
            let launch = self.of(item);
            if item.kind == DeviceKind::Kernel {
                cost.kernels.push(item.span.length());
            }
            if let Some(launch) = launch {
                cost.calls.push((launch.correlation, launch.span.length()));
                let delay = item.span.start - launch.span.start;
                if item.kind == DeviceKind::Kernel && delay >= 0 {
                    cost.shortest = cost.shortest.min(delay);
                    if launch.span.start >= ended {
                        cost.delays.push(delay);
                    }
                }
            } else {
                cost.unmatched += 1;
            }
            ended = ended.max(item.span.end);
        }
    }
}

/// What launching costs, and the latency in nanoseconds that gaps are measured by.
pub struct LaunchCost {
    pub latency: i64,
    pub report: LaunchReport,
}

struct Tally {
    kernels: Vec<i64>,
    calls: Vec<(u64, i64)>,
    delays: Vec<i64>,
    shortest: i64,
    unmatched: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            kernels: Vec::new(),
            calls: Vec::new(),
            delays: Vec::new(),
            shortest: i64::MAX,
            unmatched: 0,
        }
    }
}

impl Tally {
    fn finish(mut self) -> LaunchCost {
        let matched = self.calls.len() as u64;
        // A CUDA graph is one call for many kernels.
        self.calls.sort_unstable();
        self.calls.dedup();
        self.delays.sort_unstable();
        let (latency, measured_on) = match self.delays.get(self.delays.len() / 2) {
            Some(median) => (*median, self.delays.len() as u64),
            // A device that was never idle at a launch: the quickest start is the best there is.
            None if self.shortest < i64::MAX => (self.shortest, 1),
            None => (ASSUMED_LATENCY, 0),
        };
        let mean =
            |sum: i64, count: usize| if count == 0 { 0.0 } else { sum as f64 / count as f64 };
        // The median: a first call that loads code takes a thousand times longer than the rest.
        let mut calls: Vec<i64> = self.calls.iter().map(|(_, length)| *length).collect();
        calls.sort_unstable();
        let call = calls.get(calls.len() / 2).copied().unwrap_or(0);
        let short = self.kernels.iter().filter(|length| **length < call).count();
        let report = LaunchReport {
            latency_us: latency as f64 / 1000.0,
            measured_on,
            matched,
            unmatched: self.unmatched,
            call_median_us: call as f64 / 1000.0,
            kernels: self.kernels.len() as u64,
            kernel_mean_us: mean(self.kernels.iter().sum(), self.kernels.len()) / 1000.0,
            kernels_shorter_than_call: mean(short as i64, self.kernels.len()),
        };
        LaunchCost { latency, report }
    }
}
