//! Causes in words: evidence, what to do, what that brings, what it risks.

use crate::attribute::Attribution;
use crate::device::{DeviceFindings, us};
use crate::diagnosis::{
    CauseKind, CauseReport, CopyReport, Cost, Fix, FunctionReport, Gain, LaunchReport, StepsReport,
};
use crate::names::Names;

/// Host functions named with a cause.
const FUNCTIONS_NAMED: usize = 8;

/// What causes are made of.
pub struct Totals<'t> {
    attribution: Attribution,
    names: &'t Names,
    /// From first to last work, summed over devices.
    span: i64,
    /// Time of pageable copies with no kernel running.
    exposed_pageable: i64,
    launch: &'t LaunchReport,
    copies: &'t [CopyReport],
    steps: Option<&'t StepsReport>,
}

impl<'t> Totals<'t> {
    /// Sums over devices.
    pub fn new(
        devices: &[DeviceFindings],
        names: &'t Names,
        launch: &'t LaunchReport,
        copies: &'t [CopyReport],
        steps: Option<&'t StepsReport>,
    ) -> Self {
        let mut attribution = Attribution::default();
        for device in devices {
            attribution.merge(&device.attribution);
        }
        let span = devices.iter().map(|device| device.span).sum();
        let exposed_pageable = devices.iter().map(|device| device.exposed_pageable).sum();
        Self { attribution, names, span, exposed_pageable, launch, copies, steps }
    }
}

/// The causes, most costly first.
pub fn rank(totals: &Totals<'_>) -> Vec<CauseReport> {
    let mut idle: Vec<(CauseKind, i64, u64)> = totals
        .attribution
        .causes
        .iter()
        .map(|(cause, share)| (*cause, share.nanoseconds, share.gaps))
        .collect();
    if totals.exposed_pageable > 0 && !idle.iter().any(|(c, ..)| *c == CauseKind::PageableCopy) {
        idle.push((CauseKind::PageableCopy, 0, 0));
    }
    let lost = |cause: CauseKind, idle: i64| match cause {
        CauseKind::PageableCopy => idle + totals.exposed_pageable,
        _ => idle,
    };
    idle.sort_by_key(|(cause, idle, _)| (-lost(*cause, *idle), *cause));
    idle.into_iter()
        .map(|(cause, idle, gaps)| totals.report(cause, idle, lost(cause, idle), gaps))
        .collect()
}

impl Totals<'_> {
    fn report(&self, cause: CauseKind, idle: i64, lost: i64, gaps: u64) -> CauseReport {
        let fixes = fixes(cause);
        let rest = (self.span - lost).max(1);
        CauseReport {
            cause,
            title: title(cause).to_owned(),
            lost_us: us(lost),
            idle_us: us(idle),
            share: if self.span == 0 { 0.0 } else { lost as f64 / self.span as f64 },
            gaps,
            evidence: self.evidence(cause, idle, gaps),
            functions: self.functions(cause),
            cost: fixes[0].cost,
            fixes,
            gain: Gain { saves_us: us(lost), times: self.span as f64 / rest as f64 },
        }
    }

    fn functions(&self, wanted: CauseKind) -> Vec<FunctionReport> {
        let all = &self.attribution.functions;
        let mut found: Vec<_> = all.iter().filter(|((cause, _), _)| *cause == wanted).collect();
        found.sort_by_key(|((_, function), share)| (-share.nanoseconds, *function));
        let report = |((_, (name, caller)), share): (&(CauseKind, _), &crate::attribute::Share)| {
            let (name, caller): (crate::names::NameId, Option<_>) = (*name, *caller);
            let name = self.names.text(name);
            let name = caller.map_or_else(
                || name.to_owned(),
                |caller| format!("{name} in {}", self.names.text(caller)),
            );
            FunctionReport { name, idle_us: us(share.nanoseconds), gaps: share.gaps }
        };
        found.into_iter().take(FUNCTIONS_NAMED).map(report).collect()
    }

    fn evidence(&self, cause: CauseKind, idle: i64, gaps: u64) -> Vec<String> {
        let mut evidence = Vec::new();
        if gaps > 0 {
            evidence.push(format!(
                "{gaps} idle gaps, {:.1} µs each on average",
                us(idle) / gaps as f64
            ));
        }
        match cause {
            CauseKind::LaunchBound | CauseKind::HostFramework => {
                self.launch_evidence(&mut evidence);
            }
            CauseKind::PageableCopy => self.copy_evidence(&mut evidence),
            _ => {}
        }
        evidence
    }

    fn launch_evidence(&self, evidence: &mut Vec<String>) {
        let launch = self.launch;
        if launch.measured_on > 0 {
            evidence.push(format!(
                "launch latency {:.1} µs (median of {} launches on an idle device)",
                launch.latency_us, launch.measured_on
            ));
        }
        evidence.push(format!(
            "{} kernels of {:.1} µs on average against {:.1} µs for a submitting call; {:.0} % are shorter than that",
            launch.kernels,
            launch.kernel_mean_us,
            launch.call_median_us,
            100.0 * launch.kernels_shorter_than_call
        ));
        if let Some(steps) = self.steps {
            evidence.push(format!("{:.0} kernels a step", steps.kernels_per_step));
        }
    }

    fn copy_evidence(&self, evidence: &mut Vec<String>) {
        for copy in self.copies.iter().filter(|copy| copy.pageable) {
            evidence.push(format!(
                "{} × {}: {} bytes in {:.1} µs, {:.2} GB/s",
                copy.count, copy.name, copy.bytes, copy.time_us, copy.gb_per_s
            ));
        }
        evidence
            .push(format!("{:.1} µs of that with no kernel running", us(self.exposed_pageable)));
        for copy in self.copies.iter().filter(|copy| copy.name.contains("Pinned")) {
            evidence.push(format!("for comparison, {}: {:.2} GB/s", copy.name, copy.gb_per_s));
        }
    }
}

fn title(cause: CauseKind) -> &'static str {
    match cause {
        CauseKind::Synchronization => "the host waits for the device instead of submitting ahead",
        CauseKind::LaunchBound => {
            "launching costs more than the work: gaps within the launch latency"
        }
        CauseKind::HostInputPipeline => "the host prepares inputs while the device waits",
        CauseKind::HostPython => "the host is busy in Python or in a region the user named",
        CauseKind::HostFramework => {
            "the framework submits operators slower than the device runs them"
        }
        CauseKind::Allocation => "the host allocates device or pinned memory in the loop",
        CauseKind::PageableCopy => "copies from or to memory that is not pinned",
        CauseKind::Queued => "work was submitted and did not start",
        CauseKind::NothingSubmitted => "nothing was submitted, and no host thread recorded why",
        CauseKind::Unknown => "the trace does not say what the host did",
    }
}

fn fixes(cause: CauseKind) -> Vec<Fix> {
    let free = |what: &str| Fix { what: what.to_owned(), cost: Cost::FreeAndSafe };
    let near = |what: &str| Fix { what: what.to_owned(), cost: Cost::NearLossless };
    match cause {
        CauseKind::Synchronization => vec![free(
            "keep results on the device until the batch is done; replace `.item()`, `.cpu()` and blocking copies in the loop by one non-blocking copy into pinned memory",
        )],
        CauseKind::LaunchBound | CauseKind::HostFramework => vec![
            free("capture the forward pass in a CUDA graph, or send larger batches"),
            near("run it as one FP16 engine: fused kernels, several times fewer launches"),
        ],
        CauseKind::HostInputPipeline => vec![free(
            "tokenize and collate the next batches in worker threads while the device runs; batch rows of similar length",
        )],
        CauseKind::HostPython => vec![free(
            "move the named functions out of the loop that submits, into another thread or process",
        )],
        CauseKind::Allocation => vec![free(
            "allocate once, at the largest shape, before serving; keep the caching allocator from being emptied",
        )],
        CauseKind::PageableCopy => vec![free(
            "copy through pinned buffers (`pin_memory=True`) with `non_blocking=True`, on a stream of their own",
        )],
        CauseKind::Queued => vec![free(
            "look at events that streams wait for (`cudaStreamWaitEvent`), host callbacks, and other processes on the same device; a trace that was thinned out lacks the work that ran here",
        )],
        CauseKind::NothingSubmitted => vec![free(
            "if requests are queueing, batch them and keep more than one batch in flight; if not, the service has no more to do. `with_stack=True` records Python",
        )],
        CauseKind::Unknown => {
            vec![free("record CPU activity too: `ProfilerActivity.CPU`, `with_stack=True`")]
        }
    }
}
