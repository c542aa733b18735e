//! The measurements, in the order in which they are needed.

use std::time::Duration;

use trtforge_exec::NamedValue;

use super::causes::rank;
use super::{
    BatchCost, DeviceNote, Experiment, HostSplit, Model, NotMeasured, Padding, Rung, RungFigures,
    SCHEMA, ServiceDiagnosis, Timelines, Traffic,
};
use crate::diagnosis::Cost;
use crate::overlap::{
    BatchOptions, Control, Device, Finished, HostWork, Measured, OverlapError, OverlapOptions,
    PadTo, Stage, StageSpan, device_only, run_blocking, run_overlapped,
};
use crate::utilization::{
    PaddingWaste, blocking_utilization, hiding_workers, overlapped_utilization, padding_waste,
};

/// Calls and time of a device-only loop, the longer of both.
const CALLS: usize = 10;
const CALLS_TIME: Duration = Duration::from_millis(300);

/// Batches that are sorted by length together: enough to tell short from long rows, and few enough to wait for.
const WINDOW_BATCHES: usize = 16;

/// Batches of the blocking loop that the drawn timelines show.
const DRAWN_BATCHES: usize = 6;

/// How far the answers of two loops are apart.
pub type Difference<'d, A> = dyn Fn(&[A], &[A]) -> f64 + 'd;

/// A rung above those that change the loop alone: the same loop on another device.
pub struct NextRung<'s> {
    /// What is new on it.
    pub name: String,
    /// What it risks.
    pub cost: Cost,
    /// What runs it, or why it cannot be run here.
    pub device: Result<&'s dyn Device, String>,
}

/// What is measured, and what is known before.
pub struct Setting<'s> {
    /// For headlines.
    pub name: String,
    /// What runs the batches.
    pub device: DeviceNote,
    /// Rows of a batch of the loop as it is.
    pub batch_rows: usize,
    /// Rows of a batch that the device could take.
    pub large_batch: usize,
    /// Tokens that the loop as it is pads to.
    pub max_length: usize,
    /// Threads that may work for the host at most.
    pub worker_limit: usize,
    /// Operations of one row by its length.
    pub flops: &'s dyn Fn(usize) -> f64,
    /// Lengths that dynamic batches are padded to, ascending; none means the longest row of each.
    pub buckets: Vec<usize>,
    /// Rungs above those of the loop.
    pub rungs: Vec<NextRung<'s>>,
    /// Figures that nobody here can tell.
    pub not_measured: Vec<NotMeasured>,
    /// Said before each step.
    pub say: &'s dyn Fn(&str),
    /// Ends the measurement.
    pub control: Control<'s>,
}

/// What was measured, as causes are found from it.
pub struct Measurement<'m> {
    /// Rows of a batch.
    pub batch_rows: usize,
    /// The loop as it is.
    pub blocking: &'m Measured,
    /// The same with workers.
    pub overlapped: &'m Measured,
    /// Workers used.
    pub workers: usize,
    /// The same with dynamic padding.
    pub dynamic: &'m Measured,
    /// Of the loop as it is.
    pub padding: Padding,
    /// Of several sizes, ascending.
    pub batches: &'m [BatchCost],
}

/// Measures a service. The answers of every rung are compared with the first's by `difference`.
pub fn measure<W: HostWork>(
    work: &W,
    device: &dyn Device,
    setting: Setting<'_>,
    difference: &Difference<'_, W::Answer>,
) -> Result<ServiceDiagnosis, OverlapError<W::Error>> {
    let Setting { batch_rows, large_batch, max_length, say, control, .. } = setting;
    let plain =
        BatchOptions { rows: batch_rows, window: batch_rows, padding: PadTo::Fixed(max_length) };
    say("the device alone: one cached batch over and over");
    let batches = batch_costs(work, device, &[1, batch_rows, large_batch], max_length)?;
    say("the loop as it is: blocking, padded to the maximum");
    let blocking = run_blocking(work, device, &plain, true, control)?;
    let host = per_batch(&blocking.measured, host_time(&blocking.measured));
    let busy = per_batch(&blocking.measured, blocking.measured.device_time());
    let workers_to_hide = hiding_workers(host, busy);
    let workers = workers_to_hide.unwrap_or(1).clamp(1, setting.worker_limit.max(1));
    say("the same with host work ahead of the device");
    let mut options = OverlapOptions { batches: plain, workers, record: true };
    let overlapped = run_overlapped(work, device, &options, control)?;
    say("the same with dynamic padding and length buckets");
    options.batches.padding = match &setting.buckets[..] {
        [] => PadTo::Longest,
        buckets => PadTo::Buckets(buckets.to_vec()),
    };
    options.batches.window = batch_rows.saturating_mul(WINDOW_BATCHES);
    let dynamic = run_overlapped(work, device, &options, control)?;
    let mut ladder = ladder([&blocking, &overlapped, &dynamic], difference);
    say("the same on other engines");
    let below = Below { first: &blocking, last: &dynamic, difference };
    ladder.extend(climb(work, setting.rungs, &options, control, &below)?);

    let padding = Padding {
        padded_to: max_length,
        waste: waste(&blocking.measured, setting.flops),
        remaining: waste(&dynamic.measured, setting.flops),
    };
    let causes = rank(&Measurement {
        batch_rows,
        blocking: &blocking.measured,
        overlapped: &overlapped.measured,
        workers,
        dynamic: &dynamic.measured,
        padding,
        batches: &batches,
    });
    let model = Model {
        host_ms: host,
        device_ms: busy,
        blocking_predicted: blocking_utilization(host, busy),
        blocking_measured: blocking.measured.utilization(),
        workers_to_hide,
        workers_used: workers,
        overlapped_predicted: overlapped_utilization(host, busy, workers),
        overlapped_measured: overlapped.measured.utilization(),
        by_workers: (0..=workers_to_hide.unwrap_or(1).min(15) + 1)
            .map(|n| overlapped_utilization(host, busy, n))
            .collect(),
    };
    let own_clock = blocking.measured.events.is_some();
    Ok(ServiceDiagnosis {
        schema: SCHEMA,
        source: "profile".to_owned(),
        traffic: traffic(&blocking.measured, batch_rows, max_length),
        experiment: experiment(&blocking.measured, &batches, batch_rows),
        model,
        padding,
        causes,
        timelines: timelines(&blocking.measured, &overlapped.measured),
        ladder,
        batches,
        notes: notes(own_clock, &blocking.measured),
        name: setting.name,
        device: DeviceNote { own_clock, ..setting.device },
        not_measured: setting.not_measured,
        gpu: None,
    })
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn per_batch(measured: &Measured, time: Duration) -> f64 {
    ms(time) / measured.batches.len().max(1) as f64
}

/// Everything that keeps the device waiting in a blocking loop: host stages, and what its call takes beyond its own work.
fn host_time(measured: &Measured) -> Duration {
    measured.wall.saturating_sub(measured.device_time())
}

/// One batch of the first rows, padded.
fn cached_batch<W: HostWork>(
    work: &W,
    rows: usize,
    length: usize,
) -> Result<Vec<NamedValue>, OverlapError<W::Error>> {
    let host = |row, stage| move |source| OverlapError::Host { row, stage, source };
    let prepared: Vec<W::Row> = (0..rows)
        .map(|row| work.tokenize(row).map_err(host(row, Stage::Tokenize)))
        .collect::<Result<_, _>>()?;
    let length = prepared.iter().map(|row| work.length(row)).max().unwrap_or(0).max(length);
    let rows: Vec<&W::Row> = prepared.iter().collect();
    work.collate(&rows, length).map_err(host(0, Stage::Collate))
}

fn batch_costs<W: HostWork>(
    work: &W,
    device: &dyn Device,
    sizes: &[usize],
    length: usize,
) -> Result<Vec<BatchCost>, OverlapError<W::Error>> {
    let mut sizes: Vec<usize> =
        sizes.iter().map(|&rows| rows.clamp(1, work.rows().max(1))).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let cost = |rows: usize| {
        let inputs = cached_batch(work, rows, length)?;
        let mut calls = device_only(device, &inputs, CALLS, CALLS_TIME)
            .map_err(|source| OverlapError::Device { row: 0, rows, source })?;
        calls.sort_unstable();
        let row_ms = ms(calls[calls.len() / 2]) / rows as f64;
        Ok(BatchCost { batch_rows: rows, calls: calls.len(), row_ms })
    };
    sizes.into_iter().map(cost).collect()
}

/// Needs the lengths of rows, which recorded loops have.
fn waste(measured: &Measured, flops: &dyn Fn(usize) -> f64) -> PaddingWaste {
    // Batches know what they were padded to, rows their lengths; the sums over both are what counts.
    let real: f64 = measured.lengths.iter().map(|&length| flops(length)).sum();
    let computed: f64 =
        measured.batches.iter().map(|batch| batch.rows as f64 * flops(batch.length)).sum();
    let tokens = padding_waste(
        measured.batches.iter().map(|batch| (batch.real_tokens, batch.rows * batch.length)),
        &|tokens| tokens as f64,
    );
    let flops = if computed > 0.0 { ((computed - real) / computed).max(0.0) } else { 0.0 };
    PaddingWaste { tokens: tokens.tokens, flops }
}

fn traffic(measured: &Measured, batch_rows: usize, max_length: usize) -> Traffic {
    let rows = measured.lengths.len();
    let tokens: usize = measured.lengths.iter().sum();
    Traffic {
        rows,
        batch_rows,
        max_length,
        mean_tokens: tokens as f64 / rows.max(1) as f64,
        longest_tokens: measured.lengths.iter().copied().max().unwrap_or(0),
    }
}

fn experiment(measured: &Measured, batches: &[BatchCost], batch_rows: usize) -> Experiment {
    // The nearest size there is: fewer rows than a batch leave the loop with one smaller batch.
    let alone = batches.iter().rev().find(|cost| cost.batch_rows <= batch_rows);
    let (calls, row_ms) = alone.map_or((0, 0.0), |cost| (cost.calls, cost.row_ms));
    let rows: usize = measured.batches.iter().map(|batch| batch.rows).sum();
    let rows_per_batch = rows as f64 / measured.batches.len().max(1) as f64;
    let device_only_ms = row_ms * rows_per_batch;
    let end_to_end_ms = per_batch(measured, measured.wall);
    let host_ms = (end_to_end_ms - device_only_ms).max(0.0);
    let stages = &measured.stages;
    let events = |time: fn(&crate::overlap::EventTimes) -> Duration| {
        measured.events.as_ref().map(|events| per_batch(measured, time(events)))
    };
    let split = HostSplit {
        tokenize_ms: per_batch(measured, stages.tokenize),
        collate_ms: per_batch(measured, stages.collate),
        copy_in_ms: events(|events| events.copy_in),
        device_ms: events(|events| events.compute)
            .unwrap_or_else(|| per_batch(measured, stages.device)),
        copy_out_ms: events(|events| events.copy_out),
        waiting_ms: measured
            .events
            .map(|events| per_batch(measured, stages.device.saturating_sub(events.total()))),
        post_process_ms: per_batch(measured, stages.post_process),
        other_ms: per_batch(measured, measured.wall.saturating_sub(stages.host() + stages.device)),
    };
    Experiment {
        device_only_calls: calls,
        device_only_ms,
        device_only_rows_per_s: if row_ms > 0.0 { 1e3 / row_ms } else { 0.0 },
        batches: measured.batches.len(),
        end_to_end_ms,
        rows_per_s: measured.rows_per_s(),
        host_ms,
        host_share: if end_to_end_ms > 0.0 { host_ms / end_to_end_ms } else { 0.0 },
        split,
    }
}

/// The rungs of the loop itself.
fn ladder<A>(run: [&Finished<A>; 3], difference: &Difference<'_, A>) -> Vec<Rung> {
    let names = ["blocking, padded to max", "+ overlapped host", "+ dynamic padding, buckets"];
    (0..3)
        .map(|index| Rung {
            name: names[index].to_owned(),
            cost: Cost::FreeAndSafe,
            measured: Some(figures(run[index], run[index.saturating_sub(1)], run[0], difference)),
            not_run: None,
        })
        .collect()
}

fn figures<A>(
    run: &Finished<A>,
    before: &Finished<A>,
    first: &Finished<A>,
    difference: &Difference<'_, A>,
) -> RungFigures {
    let measured = &run.measured;
    let times = |other: &Measured| {
        let wall = measured.wall.as_secs_f64();
        if wall > 0.0 { other.wall.as_secs_f64() / wall } else { 1.0 }
    };
    RungFigures {
        rows_per_s: measured.rows_per_s(),
        latency_p50_ms: measured.latency_ms(50),
        latency_p95_ms: measured.latency_ms(95),
        utilization: measured.utilization(),
        padding_share: waste(measured, &|length| length as f64).tokens,
        gain: times(&before.measured),
        gain_in_all: times(&first.measured),
        largest_difference: difference(&first.answers, &run.answers),
    }
}

/// What is measured before the rungs of other devices.
struct Below<'b, A> {
    first: &'b Finished<A>,
    last: &'b Finished<A>,
    difference: &'b Difference<'b, A>,
}

/// The last loop on one device after the other. Each first runs the requests once that do not count: graphs are captured, code is loaded.
fn climb<W: HostWork>(
    work: &W,
    rungs: Vec<NextRung<'_>>,
    options: &OverlapOptions,
    control: Control<'_>,
    below: &Below<'_, W::Answer>,
) -> Result<Vec<Rung>, OverlapError<W::Error>> {
    let mut newest: Option<Finished<W::Answer>> = None;
    let mut climbed = Vec::new();
    for NextRung { name, cost, device } in rungs {
        let (measured, not_run) = match device {
            Err(reason) => (None, Some(reason)),
            Ok(device) => {
                run_overlapped(work, device, options, control)?;
                let run = run_overlapped(work, device, options, control)?;
                let before = newest.as_ref().unwrap_or(below.last);
                let found = figures(&run, before, below.first, below.difference);
                newest = Some(run);
                (Some(found), None)
            }
        };
        climbed.push(Rung { name, cost, measured, not_run });
    }
    Ok(climbed)
}

/// As long as a few batches of the blocking loop take; the overlapped loop is shown for the same time.
fn timelines(blocking: &Measured, overlapped: &Measured) -> Timelines {
    let answered = blocking.spans.iter().filter(|span| span.stage == Stage::PostProcess);
    let length_us = answered.take(DRAWN_BATCHES).last().map_or(0.0, |span| span.end_us);
    let cut = |measured: &Measured| {
        let early = measured.spans.iter().filter(|span| span.start_us < length_us);
        early
            .map(|span| StageSpan { end_us: span.end_us.min(length_us), ..*span })
            .collect::<Vec<_>>()
    };
    Timelines { length_us, blocking: cut(blocking), overlapped: cut(overlapped) }
}

fn notes(own_clock: bool, blocking: &Measured) -> Vec<String> {
    let mut notes = Vec::new();
    if !own_clock {
        notes.push("the device has no clock of its own here: its time is that of the executor's call, copies and launches included".to_owned());
    }
    if blocking.batches.len() < 10 {
        notes.push(format!(
            "{} batches are few: the figures of the loops vary from run to run; raise --rows",
            blocking.batches.len()
        ));
    }
    notes
}
