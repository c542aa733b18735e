//! The loop that most services have: prepare a batch, run it, use what came out, and only then prepare the next.

use std::time::Instant;

use super::batches::BatchOptions;
use super::measured::Log;
use super::steps::{answer, collate, cut, run_device, tokenize};
use super::{Control, Device, Finished, HostWork, Measured, OverlapError};

/// Runs all rows on the calling thread, one batch after another, with the same batches as [`run_overlapped`](super::run_overlapped).
pub fn run_blocking<W: HostWork>(
    work: &W,
    device: &dyn Device,
    options: &BatchOptions,
    record: bool,
    control: Control<'_>,
) -> Result<Finished<W::Answer>, OverlapError<W::Error>> {
    let rows = work.rows();
    let epoch = Instant::now();
    let mut log = Log::new(epoch, 0, record);
    let mut measured = Measured::default();
    let mut answers: Vec<Option<W::Answer>> = (0..rows).map(|_| None).collect();
    let mut done = 0;
    if record {
        measured.lengths = vec![0; rows];
        measured.latencies = vec![std::time::Duration::ZERO; rows];
    }
    let window = options.window_rows(rows);
    for first in (0..rows).step_by(window) {
        let prepared = tokenize(work, first..rows.min(first + window), &mut log)?;
        for batch in cut(prepared, options) {
            if control.is_cancelled() {
                return Err(OverlapError::Cancelled { done, rows });
            }
            let inputs = collate(work, &batch, &mut log)?;
            let run = run_device(device, &batch, &inputs, &mut log)?;
            if let Some(events) = run.events {
                *measured.events.get_or_insert_default() += events;
            }
            (control.advance)(batch.rows.len());
            measured.batches.push(batch.shape());
            let given = answer(work, &batch, run.outputs, &mut log)?;
            done += batch.rows.len();
            for (row, given) in batch.rows.into_iter().zip(given) {
                answers[row.row] = Some(given);
                if record {
                    measured.lengths[row.row] = row.length;
                    measured.latencies[row.row] = row.begun.elapsed();
                }
            }
        }
    }
    measured.wall = epoch.elapsed();
    log.merge_into(&mut measured);
    // Every row was in one batch, and every batch gave as many answers as it has rows.
    Ok(Finished { answers: answers.into_iter().flatten().collect(), measured })
}
