//! The threads of an overlapped loop.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use super::measured::Log;
use super::state::{Job, Limits, State, Turn};
use super::steps::{answer, collate, run_device, tokenize};
use super::{Control, Device, Finished, HostWork, OverlapError, OverlapOptions};

/// Runs all rows: host work on `options.workers` threads, the device on the calling one.
///
/// The first row at fault ends the loop; of several the earliest is reported. All threads are joined before this returns, whatever
/// happened.
pub fn run_overlapped<W: HostWork>(
    work: &W,
    device: &dyn Device,
    options: &OverlapOptions,
    control: Control<'_>,
) -> Result<Finished<W::Answer>, OverlapError<W::Error>> {
    let workers = options.workers.max(1);
    let limits = Limits::new(&options.batches, work.rows(), workers);
    let epoch = Instant::now();
    let pool = Pool {
        work,
        options,
        cancelled: control.cancelled,
        state: Mutex::new(State::new(work.rows(), limits, options.record)),
        changed: Condvar::new(),
    };
    let log = |lane| Log::new(epoch, lane, options.record);
    let logs: Vec<Log> = thread::scope(|scope| {
        let pool = &pool;
        let threads: Vec<_> =
            (1..=workers).map(|lane| scope.spawn(move || pool.worker(log(lane)))).collect();
        let mut logs = vec![pool.device(device, log(0), control)];
        // A worker guards all that can panic; one that did all the same ends the loop as an unfinished one.
        logs.extend(threads.into_iter().filter_map(|thread| thread.join().ok()));
        logs
    });
    let mut state = pool.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    let answers = state.outcome()?;
    let mut measured = state.measured;
    measured.wall = epoch.elapsed();
    for log in logs {
        log.merge_into(&mut measured);
    }
    measured.spans.sort_by(|a, b| a.start_us.total_cmp(&b.start_us).then(a.lane.cmp(&b.lane)));
    Ok(Finished { answers, measured })
}

struct Pool<'p, W: HostWork> {
    work: &'p W,
    options: &'p OverlapOptions,
    cancelled: &'p std::sync::atomic::AtomicBool,
    state: Mutex<State<W>>,
    changed: Condvar,
}

impl<W: HostWork> Pool<'_, W> {
    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and wakes whoever waits for that.
    fn update(&self, change: impl FnOnce(&mut State<W>)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Waits for something to do. Whoever is at work looks for a cancellation when done and wakes the others, so nobody waits for ever.
    fn job(&self) -> Job<W::Row> {
        let mut state = self.lock();
        loop {
            match state.next_job(self.is_cancelled()) {
                Job::Wait => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                Job::Leave => {
                    drop(state);
                    self.changed.notify_all();
                    return Job::Leave;
                }
                job => return job,
            }
        }
    }

    fn worker(&self, mut log: Log) -> Log {
        loop {
            let done = match self.job() {
                Job::Tokenize(rows) => tokenize(self.work, rows, &mut log).map(|piece| {
                    self.update(|state| state.tokenized(piece, &self.options.batches));
                }),
                Job::Collate(index, batch) => collate(self.work, &batch, &mut log)
                    .map(|inputs| self.update(|state| state.collated(index, batch, inputs))),
                Job::Answer(batch, outputs) => answer(self.work, &batch, outputs, &mut log)
                    .map(|answers| self.update(|state| state.answered(batch, answers))),
                Job::Wait | Job::Leave => return log,
            };
            if let Err(error) = done {
                self.update(|state| state.failed(error));
            }
        }
    }

    fn device(&self, device: &dyn Device, mut log: Log, control: Control<'_>) -> Log {
        let _ender = Ender(self);
        loop {
            let mut state = self.lock();
            let (batch, inputs) = loop {
                match state.next_turn(self.is_cancelled()) {
                    Turn::Run(batch, inputs) => break (batch, inputs),
                    Turn::Wait => {
                        state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                    }
                    Turn::Leave => {
                        drop(state);
                        self.changed.notify_all();
                        return log;
                    }
                }
            };
            drop(state);
            // There is room for another collated batch while this one runs.
            self.changed.notify_all();
            let rows = batch.rows.len();
            match run_device(device, &batch, &inputs, &mut log) {
                Ok(run) => {
                    self.update(|state| {
                        if let Some(events) = run.events {
                            *state.measured.events.get_or_insert_default() += events;
                        }
                        state.ran(batch, run.outputs);
                    });
                    (control.advance)(rows);
                }
                Err(error) => self.update(|state| state.failed(error)),
            }
        }
    }
}

/// Ends the workers when the caller's own `advance` panics; they would wait for the device for ever.
struct Ender<'p, 'q, W: HostWork>(&'p Pool<'q, W>);

impl<W: HostWork> Drop for Ender<'_, '_, W> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.update(State::cancel);
        }
    }
}
