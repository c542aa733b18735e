//! What costs a service time, from what was measured.

use std::time::Duration;

use super::{Measurement, ServiceCause, ServiceCauseKind, ServiceGain};
use crate::diagnosis::{Cost, Fix};
use crate::overlap::{EventTimes, Measured};

/// Below this share of the time a cause is not worth a line.
const LEAST_SHARE: f64 = 0.01;

/// Batches may differ that much by chance before their size is called a cause.
const BATCH_NOISE: f64 = 1.1;

/// The causes, most costly first.
pub fn rank(measurement: &Measurement<'_>) -> Vec<ServiceCause> {
    let mut causes = host_causes(measurement);
    causes.extend(event_causes(measurement));
    causes.extend(padding(measurement));
    causes.extend(small_batches(measurement));
    causes.retain(|cause| cause.share >= LEAST_SHARE);
    causes.sort_by(|a, b| b.lost_ms.total_cmp(&a.lost_ms).then(a.cause.cmp(&b.cause)));
    causes
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

pub(super) fn cause(
    blocking: &Measured,
    kind: ServiceCauseKind,
    lost_ms: f64,
    title: &str,
    evidence: Vec<String>,
    fixes: &[(Cost, String)],
) -> ServiceCause {
    let wall = ms(blocking.wall);
    let left = (wall - lost_ms).max(wall * 1e-3);
    ServiceCause {
        cause: kind,
        title: title.to_owned(),
        lost_ms,
        share: if wall > 0.0 { lost_ms / wall } else { 0.0 },
        evidence,
        fixes: fixes.iter().map(|(cost, what)| Fix { what: what.clone(), cost: *cost }).collect(),
        cost: fixes.first().map_or(Cost::FreeAndSafe, |(cost, _)| *cost),
        gain: ServiceGain { saves_ms: lost_ms, times: if left > 0.0 { wall / left } else { 1.0 } },
    }
}

/// In a blocking loop every moment of the host is one in which the device waits.
fn host_causes(measurement: &Measurement<'_>) -> Vec<ServiceCause> {
    let Measurement { blocking, overlapped, workers, .. } = measurement;
    let stages = &blocking.stages;
    let batches = blocking.batches.len().max(1) as f64;
    let overlap = format!(
        "prepare batches ahead of the device: {workers} worker{} hide the host here",
        if *workers == 1 { "" } else { "s" }
    );
    let rows = |measured: &Measured| measured.rows_per_s();
    let measured = format!(
        "with {workers} ahead of the device {:.1} rows/s instead of {:.1}",
        rows(overlapped),
        rows(blocking)
    );
    let host = |kind, time: Duration, title, what: &str, more: &str| {
        let evidence = vec![
            format!(
                "{what} takes {:.2} ms of each batch's {:.2} ms",
                ms(time) / batches,
                ms(blocking.wall) / batches
            ),
            measured.clone(),
        ];
        let fixes = [(Cost::FreeAndSafe, overlap.clone()), (Cost::FreeAndSafe, more.to_owned())];
        cause(blocking, kind, ms(time), title, evidence, &fixes)
    };
    vec![
        host(
            ServiceCauseKind::SlowTokenizer,
            stages.tokenize,
            "the device waits for the tokenizer",
            "tokenization",
            "use a compiled tokenizer, cache frequent texts, cut long ones before they are tokenized",
        ),
        host(
            ServiceCauseKind::Collation,
            stages.collate,
            "the device waits while tensors are made",
            "collation",
            "write rows into one reused (on a GPU pinned) buffer instead of joining lists",
        ),
        host(
            ServiceCauseKind::PostProcessing,
            stages.post_process,
            "the device waits while answers are made",
            "post-processing",
            "hand outputs to another thread; let the model return what is needed and no more",
        ),
    ]
}

/// What only the device's own clock can tell.
fn event_causes(measurement: &Measurement<'_>) -> Vec<ServiceCause> {
    let blocking = measurement.blocking;
    let Some(events) = blocking.events else { return Vec::new() };
    let batches = blocking.batches.len().max(1) as f64;
    let EventTimes { copy_in, copy_out, compute } = events;
    let copies = copy_in + copy_out;
    let waiting = blocking.stages.device.saturating_sub(events.total());
    vec![
        cause(
            blocking,
            ServiceCauseKind::BlockingCopies,
            ms(copies),
            "copies stand between batches",
            vec![format!(
                "copies take {:.3} ms in and {:.3} ms out of each batch, kernels {:.2} ms",
                ms(copy_in) / batches,
                ms(copy_out) / batches,
                ms(compute) / batches
            )],
            &[(
                Cost::FreeAndSafe,
                "pinned buffers and asynchronous copies on a stream of their own".to_owned(),
            )],
        ),
        cause(
            blocking,
            ServiceCauseKind::Synchronization,
            ms(waiting),
            "the host synchronizes with the device in the loop",
            vec![format!(
                "the call lasts {:.2} ms of each batch, the device works {:.2} ms in it",
                ms(blocking.stages.device) / batches,
                ms(events.total()) / batches
            )],
            &[
                (
                    Cost::FreeAndSafe,
                    "submit the next batch before waiting for this one (no `.item()`, `.cpu()` or stream synchronization in between)".to_owned(),
                ),
                (
                    Cost::FreeAndSafe,
                    "a CUDA graph, where the time goes into launching many small kernels".to_owned(),
                ),
            ],
        ),
    ]
}

/// What dynamic padding saved of the device's time is what padding cost; nothing is claimed that was not measured.
fn padding(measurement: &Measurement<'_>) -> Option<ServiceCause> {
    let Measurement { blocking, overlapped, dynamic, padding, .. } = measurement;
    let device = |measured: &Measured| ms(measured.device_time());
    let saved = (device(overlapped) - device(dynamic)).max(0.0);
    // A blocking loop's device is not disturbed by workers: its time, at the measured proportion.
    let lost =
        if device(overlapped) > 0.0 { device(blocking) * saved / device(overlapped) } else { 0.0 };
    (lost > 0.0).then(|| {
        let evidence = vec![
            format!(
                "{:.1} % of the tokens and {:.1} % of the operations are padding to {}",
                100.0 * padding.waste.tokens,
                100.0 * padding.waste.flops,
                padding.padded_to
            ),
            format!(
                "sorted by length and padded to the longest of a batch: {:.1} % and {:.1} %",
                100.0 * padding.remaining.tokens,
                100.0 * padding.remaining.flops
            ),
            format!(
                "device time {:.0} ms instead of {:.0} ms",
                device(dynamic),
                device(overlapped)
            ),
        ];
        let fixes = [
            (
                Cost::FreeAndSafe,
                "pad to the longest row of a batch, batches of rows of like length".to_owned(),
            ),
            (
                Cost::FreeAndSafe,
                "optimization profiles for the lengths that occur: `trtforge shapes`".to_owned(),
            ),
        ];
        cause(
            blocking,
            ServiceCauseKind::Padding,
            lost,
            "the device computes padding",
            evidence,
            &fixes,
        )
    })
}

/// The same rows in larger batches, by the device-only loop.
fn small_batches(measurement: &Measurement<'_>) -> Option<ServiceCause> {
    let own = measurement.batches.iter().find(|cost| cost.batch_rows >= measurement.batch_rows)?;
    let larger = measurement.batches.iter().filter(|cost| cost.batch_rows > own.batch_rows);
    let best = larger.min_by(|a, b| a.row_ms.total_cmp(&b.row_ms))?;
    if best.row_ms <= 0.0 || own.row_ms < best.row_ms * BATCH_NOISE {
        return None;
    }
    let lost = ms(measurement.blocking.device_time()) * (1.0 - best.row_ms / own.row_ms);
    let title = if own.batch_rows == 1 {
        "every request runs alone (batch size 1)".to_owned()
    } else {
        format!("batches of {} rows are small for the device", own.batch_rows)
    };
    let evidence = vec![format!(
        "a row costs the device {:.3} ms in batches of {} and {:.3} ms in batches of {}",
        own.row_ms, own.batch_rows, best.row_ms, best.batch_rows
    )];
    let fixes = [(
        Cost::FreeAndSafe,
        "dynamic batching: let requests of a few milliseconds run together".to_owned(),
    )];
    let blocking = measurement.blocking;
    Some(cause(blocking, ServiceCauseKind::SmallBatches, lost, &title, evidence, &fixes))
}
