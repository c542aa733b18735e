//! What only a GPU can tell of a service: how busy its parts are, what launching costs, and what pageable memory costs.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::causes::cause;
use super::{ServiceCauseKind, ServiceDiagnosis};
use crate::benchmark::{CopyTest, LaunchTest};
use crate::counters::{Activity, ClockState, Counters};
use crate::diagnosis::Cost;
use crate::overlap::{
    Control, Device, HostWork, Measured, OverlapError, OverlapOptions, run_blocking, run_overlapped,
};

/// Counters are averages: a stretch lasts at least this long.
const STRETCH: Duration = Duration::from_secs(1);

/// A saving below this share is no cause.
const LEAST_SAVING: f64 = 0.05;

/// Figures of a GPU, beside the loops that it ran.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct GpuFigures {
    /// Clocks and heat before.
    pub before: Option<ClockState>,
    /// Clocks and heat after.
    pub after: Option<ClockState>,
    /// How busy its parts were in the loops.
    pub activity: Vec<Activity>,
    /// Launching against computing.
    pub launches: Vec<LaunchTest>,
    /// Pageable against page-locked memory.
    pub copies: Vec<CopyTest>,
    /// Why its management library told nothing.
    pub problem: Option<String>,
}

/// Runs a loop over all rows, again and again for a second, and says how busy the GPU was.
///
/// - `workers`: threads ahead of the device; none is the blocking loop.
pub fn activity<W: HostWork>(
    counters: &Counters,
    name: &str,
    work: &W,
    device: &dyn Device,
    options: &OverlapOptions,
) -> Result<Activity, OverlapError<W::Error>> {
    let once = || {
        let control = Control::none();
        if options.workers == 0 {
            run_blocking(work, device, &options.batches, false, control).map(drop)
        } else {
            run_overlapped(work, device, options, control).map(drop)
        }
    };
    let (done, activity) = counters.watch(name, || {
        let start = Instant::now();
        loop {
            once()?;
            if start.elapsed() >= STRETCH {
                return Ok(());
            }
        }
    });
    done.map(|()| activity)
}

impl ServiceDiagnosis {
    /// Adds what a GPU told, and the cause that follows from it.
    #[must_use]
    pub fn with_gpu(mut self, figures: GpuFigures) -> Self {
        self.causes.extend(self.launch_bound(&figures));
        self.causes.sort_by(|a, b| b.lost_ms.total_cmp(&a.lost_ms).then(a.cause.cmp(&b.cause)));
        self.notes.extend(figures.activity.iter().filter_map(Activity::misleading));
        let problems = figures.activity.iter().filter_map(|one| one.problem.as_ref());
        let mut problems: Vec<String> = problems.chain(&figures.problem).cloned().collect();
        problems.dedup();
        self.notes.extend(problems);
        for (when, state) in [("before", &figures.before), ("after", &figures.after)] {
            let held = state.as_ref().map(|state| state.throttle_reasons.join(", "));
            if let Some(held) = held.filter(|held| !held.is_empty()) {
                self.notes.push(format!("{when} the loops clocks were held down: {held}"));
            }
        }
        self.gpu = Some(figures);
        self
    }

    /// Small kernels that wait for their launches, by the batch that is nearest to the service's.
    fn launch_bound(&self, figures: &GpuFigures) -> Option<super::ServiceCause> {
        let rows = self.traffic.batch_rows;
        let test = figures.launches.iter().min_by_key(|test| test.batch_rows.abs_diff(rows))?;
        let saves = test.graph_saves.filter(|&saves| test.launch_bound && saves >= LEAST_SAVING)?;
        let wall_ms = self.experiment.end_to_end_ms * self.experiment.batches as f64;
        let device_ms = self.model.device_ms * self.experiment.batches as f64;
        let blocking =
            Measured { wall: Duration::from_secs_f64(wall_ms / 1e3), ..Measured::default() };
        let fixes = [(
            Cost::FreeAndSafe,
            "a CUDA graph for each shape that occurs, or larger batches".to_owned(),
        )];
        Some(cause(
            &blocking,
            ServiceCauseKind::LaunchBound,
            device_ms * saves,
            "the device waits for its kernels to be launched",
            vec![test.verdict()],
            &fixes,
        ))
    }
}
