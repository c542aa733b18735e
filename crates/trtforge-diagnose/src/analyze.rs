//! From a trace to its diagnosis.

use std::collections::BTreeMap;

use crate::causes::{Totals, rank};
use crate::device::{Context, DeviceFindings, us};
use crate::diagnosis::{CopyReport, Diagnosis, LaunchReport, SCHEMA, StepsReport, Window};
use crate::error::DiagnoseError;
use crate::event::DeviceKind;
use crate::host::HostTimeline;
use crate::launches::Launches;
use crate::spans::Span;
use crate::trace::{DeviceSpan, Trace};

/// What part of a trace is looked at.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiagnoseOptions {
    /// Only from the start of the first profiler step to the end of the last.
    pub steps: bool,
}

/// Says why the devices of a trace were idle.
pub fn diagnose(mut trace: Trace, options: DiagnoseOptions) -> Result<Diagnosis, DiagnoseError> {
    let window = window(&trace, options)?;
    sort_by_device(&mut trace);
    let timeline = HostTimeline::new(std::mem::take(&mut trace.host), &trace.launches);
    let launches = Launches::new(std::mem::take(&mut trace.launches));
    let device = |work: &DeviceSpan| &trace.streams[work.stream as usize].device;
    let devices: Vec<&[DeviceSpan]> = trace.work.chunk_by(|a, b| device(a) == device(b)).collect();
    let cost = launches.report(&devices, window);
    let pageable: Vec<bool> = trace.copy_kinds.iter().map(|name| is_pageable(name)).collect();
    let context = Context {
        names: &trace.names,
        streams: &trace.streams,
        pageable: &pageable,
        timeline: &timeline,
        launches: &launches,
        latency: cost.latency,
        window,
    };
    let found: Vec<DeviceFindings> = devices
        .iter()
        .map(|work| (device(&work[0]), work))
        .map(|(label, work)| context.device(label, trace.device_names.get(label), work))
        .collect();
    let copies = copies(&trace, window, &pageable);
    let steps = steps(&trace, &launches, options, window);
    let causes = rank(&Totals::new(&found, &trace.names, &cost.report, &copies, steps.as_ref()));
    let hosts = !timeline.threads().is_empty();
    Ok(Diagnosis {
        schema: SCHEMA,
        trace: trace.file.clone(),
        window: Window { steps_only: options.steps, length_us: us(window.length()) },
        truncated: trace.truncated,
        events: trace.events,
        rank: trace.rank,
        notes: notes(&trace, &cost.report, hosts),
        devices: found.into_iter().map(|device| device.report).collect(),
        causes,
        launch: cost.report,
        copies,
        steps,
    })
}

/// By device, then start; the rest only makes the order one.
fn sort_by_device(trace: &mut Trace) {
    let streams = &trace.streams;
    let device = |work: &DeviceSpan| &streams[work.stream as usize].device;
    trace.work.sort_by(|a, b| {
        let rest = |work: &DeviceSpan| (work.span, work.stream, work.correlation);
        device(a).cmp(device(b)).then_with(|| rest(a).cmp(&rest(b)))
    });
}

fn window(trace: &Trace, options: DiagnoseOptions) -> Result<Span, DiagnoseError> {
    if !options.steps {
        return Ok(trace.range.unwrap_or(Span { start: 0, end: 0 }));
    }
    let first = trace.steps.iter().map(|step| step.start).min();
    let last = trace.steps.iter().map(|step| step.end).max();
    first.zip(last).map(|(start, end)| Span { start, end }).ok_or(DiagnoseError::NoSteps)
}

/// `Memcpy HtoD (Pageable -> Device)`, and the same the other way.
fn is_pageable(name: &str) -> bool {
    name.to_ascii_lowercase().contains("pageable")
}

fn copies(trace: &Trace, window: Span, pageable: &[bool]) -> Vec<CopyReport> {
    let mut totals: BTreeMap<(&str, usize), (u64, u64, i64)> = BTreeMap::new();
    for work in trace.work.iter().filter(|w| w.kind == DeviceKind::Copy && window.touches(w.span)) {
        let kind = work.copy_kind as usize;
        let total = totals.entry((&trace.copy_kinds[kind], kind)).or_default();
        *total = (total.0 + 1, total.1.saturating_add(work.bytes), total.2 + work.span.length());
    }
    let report =
        |((name, kind), (count, bytes, time)): ((&str, usize), (u64, u64, i64))| CopyReport {
            name: name.to_owned(),
            pageable: pageable[kind],
            count,
            bytes,
            time_us: us(time),
            gb_per_s: if time == 0 { 0.0 } else { bytes as f64 / time as f64 },
        };
    let mut copies: Vec<CopyReport> = totals.into_iter().map(report).collect();
    copies.sort_by(|a, b| b.time_us.total_cmp(&a.time_us).then_with(|| a.name.cmp(&b.name)));
    copies
}

/// A kernel belongs to the step in which it was submitted, or ran if that is not known.
fn steps(
    trace: &Trace,
    launches: &Launches,
    options: DiagnoseOptions,
    window: Span,
) -> Option<StepsReport> {
    let mut steps: Vec<Span> = trace.steps.clone();
    steps.sort();
    steps.dedup();
    if steps.is_empty() {
        return None;
    }
    let merged = crate::spans::union(steps.clone());
    let inside = |work: &&DeviceSpan| {
        let at = launches.of(work).map_or(work.span.start, |launch| launch.span.start);
        let after = merged.partition_point(|step| step.start <= at);
        after > 0 && at < merged[after - 1].end
    };
    let in_window = |work: &&DeviceSpan| !options.steps || window.touches(work.span);
    let kernels = trace.work.iter().filter(|work| work.kind == DeviceKind::Kernel);
    let kernels = kernels.filter(in_window).filter(inside);
    let count = steps.len() as f64;
    Some(StepsReport {
        count: steps.len() as u64,
        mean_us: us(steps.iter().map(|step| step.length()).sum()) / count,
        kernels_per_step: kernels.count() as f64 / count,
    })
}

/// What a reader of the figures must know.
fn notes(trace: &Trace, launch: &LaunchReport, hosts: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let mut say = |condition: bool, text: String| {
        if condition {
            notes.push(text);
        }
    };
    say(trace.truncated, "the file is cut off: the figures hold for its complete events alone, and work that is missing reads as idle".to_owned());
    let device = !trace.work.is_empty();
    say(!device, "no kernel, copy or memset was recorded: nothing ran on a GPU, or the profiler ran without `ProfilerActivity.CUDA`".to_owned());
    say(device && !hosts, "no host function was recorded: idle time cannot be split by what the host did, and the share of busy time is that between the first and last recorded work".to_owned());
    let total = launch.matched + launch.unmatched;
    say(
        launch.unmatched > 0 && hosts,
        format!(
            "{} of {total} works on devices have no submitting call in the trace; gaps before them are split less surely",
            launch.unmatched
        ),
    );
    say(
        device && launch.measured_on == 0,
        format!(
            "no launch was seen, so the launch latency is assumed to be {} µs",
            launch.latency_us
        ),
    );
    let skipped = trace.skipped;
    say(
        skipped.device > 0,
        format!(
            "{} works on devices without a readable `ts` and `dur` were left out: busy time is more than shown",
            skipped.device
        ),
    );
    say(
        skipped.host > 0,
        format!("{} host functions without a readable `ts` and `dur` were left out", skipped.host),
    );
    say(
        skipped.negative > 0,
        format!("{} events end before they start and were taken as empty", skipped.negative),
    );
    notes
}
