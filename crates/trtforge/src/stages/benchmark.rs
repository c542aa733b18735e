//! `benchmark`: how fast engines are at the shapes that matter, on real token ids.

use std::ffi::OsStr;

use trtforge_data::{Encoded, ShapeProfile};
use trtforge_diagnose::benchmark::{
    DeviceTimes, Entry, How, Limits, Samples, Subject, Times, measure, paired_ratio, spread,
};
use trtforge_diagnose::counters::{self, ClockState, Counters, Wanted};
use trtforge_evaluate::MeasuredSpeedup;
use trtforge_exec::{Executor, NamedValue};
use trtforge_report::{
    Benchmark, BenchmarkDevice, BenchmarkResult, BenchmarkSettings, BenchmarkShape, DeviceState,
    Place, Precision, Speedup, Spread,
};
use trtforge_tensorrt::{DeviceExecutor, RunHow, Staged};

use crate::error::PipelineError;
use crate::inputs::Wiring;
use crate::progress::Progress;

/// Clocks that differ by more than this share before and after are worth a note.
const CLOCK_DRIFT: f64 = 0.05;

/// Below so many runs the 99th percentile is the largest.
const RUNS_OF_P99: u64 = 100;

/// Something to be timed.
pub struct Candidate {
    /// What it is.
    pub precision: Precision,
    /// BLAKE3 hash of the plan, or of the graph.
    pub artifact: String,
    /// What runs it.
    pub model: Model,
}

/// What runs a candidate.
pub enum Model {
    /// An engine on its GPU.
    Engine(Box<DeviceExecutor>),
    /// A graph on the embedded executor: a reference, which says nothing about a GPU.
    Graph(Box<dyn Executor>),
}

/// What is asked.
pub struct Asked<'a> {
    /// `[batch, length]` each.
    pub shapes: Vec<[usize; 2]>,
    /// How long.
    pub limits: Limits,
    /// Whether engines also run from a CUDA graph.
    pub cuda_graph: bool,
    /// Confidence of a speed-up's bounds.
    pub confidence: f64,
    /// Real rows.
    pub rows: &'a [Encoded],
    /// Where they come from, for the record.
    pub rows_from: String,
    /// How they become inputs.
    pub wiring: &'a Wiring,
    /// What ran the engines, as far as is known.
    pub device: BenchmarkDevice,
    /// Said on the way.
    pub progress: Progress,
}

/// The shapes that are timed when nobody says: what each optimization profile is tuned for, once each.
pub fn usual_shapes(profiles: &[ShapeProfile]) -> Vec<[usize; 2]> {
    let mut shapes: Vec<[usize; 2]> = profiles.iter().map(|profile| profile.opt).collect();
    shapes.sort_unstable_by_key(|shape| (shape[1], shape[0]));
    shapes.dedup();
    shapes
}

/// Times all candidates at all shapes.
pub fn benchmark(candidates: &[Candidate], asked: &Asked<'_>) -> Result<Benchmark, PipelineError> {
    let gpu = candidates.iter().find_map(|candidate| match &candidate.model {
        Model::Engine(engine) => Some(engine.gpu().clone()),
        Model::Graph(_) => None,
    });
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let counters = gpu.as_ref().map(|gpu| {
        let wanted = Wanted { name: &gpu.name, ordinal: 0, visible: visible.as_deref() };
        Counters::open(OsStr::new(counters::LIBRARY), &wanted)
    });
    let look = || Some(counters.as_ref()?.as_ref().ok()?.state());
    let mut found = Benchmark {
        measured_on: if gpu.is_some() { Place::Device } else { Place::Reference },
        device: asked.device.clone(),
        settings: BenchmarkSettings {
            warmup_ms: asked.limits.warmup.as_millis() as u64,
            duration_ms: asked.limits.duration.as_millis() as u64,
            max_iterations: asked.limits.max_iterations as u64,
            rounds: asked.limits.rounds as u64,
            rows_from: asked.rows_from.clone(),
        },
        results: Vec::new(),
        speedups: Vec::new(),
        before: look().map(state),
        after: None,
        notes: Vec::new(),
    };
    if let Some(Err(error)) = &counters {
        found.notes.push(format!("clocks and throttling are not known: {error}"));
    }
    if let Some(Ok(counters)) = &counters {
        found.device.driver = counters.driver_version().map(str::to_owned);
    }
    for &shape in &asked.shapes {
        asked.progress.say(&format!("benchmark  {} rows of {} tokens", shape[0], shape[1]));
        at_shape(candidates, asked, shape, &mut found)?;
    }
    found.after = look().map(state);
    found.notes.extend(doubts(&found));
    Ok(found)
}

fn at_shape(
    candidates: &[Candidate],
    asked: &Asked<'_>,
    shape: [usize; 2],
    found: &mut Benchmark,
) -> Result<(), PipelineError> {
    let rows = rows_for(asked.rows, shape, &asked.shapes);
    if rows.is_empty() {
        found.notes.push(format!(
            "[{}, {}] was not timed: no row of {} has {} tokens or fewer",
            shape[0], shape[1], asked.rows_from, shape[1]
        ));
        return Ok(());
    }
    let inputs = asked.wiring.bind(&rows, shape[1]);
    let mut runners = candidates
        .iter()
        .map(|candidate| Runner::new(&candidate.model, &inputs))
        .collect::<Result<Vec<_>, _>>()?;
    let entries = entries(candidates, &mut runners, asked.cuda_graph, shape, &mut found.notes)?;
    let samples = measure(&mut runners, &entries, &asked.limits)?;
    let real_tokens: usize = rows.iter().map(|row| row.ids.len()).sum();
    let shape = BenchmarkShape { batch: shape[0] as u64, length: shape[1] as u64 };
    for (entry, samples) in entries.iter().zip(&samples) {
        let candidate = &candidates[entry.subject];
        let measured = (samples, shape, real_tokens as u64);
        found.results.extend(result(candidate, &runners[entry.subject], entry.how, measured));
    }
    found.speedups.extend(speedups(candidates, &entries, &samples, shape, asked.confidence));
    Ok(())
}

/// Every candidate launched plainly, and from a graph where that works; where it does not, a note says why.
fn entries(
    candidates: &[Candidate],
    runners: &mut [Runner<'_>],
    cuda_graph: bool,
    shape: [usize; 2],
    notes: &mut Vec<String>,
) -> Result<Vec<Entry>, PipelineError> {
    let plain = (0..runners.len()).map(|subject| Entry { subject, how: How::PLAIN });
    let mut entries: Vec<Entry> = plain.collect();
    for (subject, runner) in runners.iter_mut().enumerate().filter(|_| cuda_graph) {
        match runner.try_graph()? {
            Graph::Works => entries.push(Entry { subject, how: How::GRAPH }),
            Graph::Refused(why) => notes.push(format!(
                "{} at [{}, {}] has no CUDA graph: {why}",
                candidates[subject].precision.name(),
                shape[0],
                shape[1]
            )),
            Graph::Unknown => {}
        }
    }
    Ok(entries)
}

/// A candidate at one shape.
pub enum Runner<'m> {
    /// On the GPU.
    Engine(Box<Staged<'m>>),
    /// On the CPU.
    Graph(&'m dyn Executor, Vec<NamedValue>),
}

/// Whether an engine runs from a CUDA graph.
enum Graph {
    Works,
    Refused(String),
    /// There is no such thing here.
    Unknown,
}

impl<'m> Runner<'m> {
    /// Puts the inputs in place.
    pub fn new(model: &'m Model, inputs: &[NamedValue]) -> Result<Self, PipelineError> {
        Ok(match model {
            Model::Engine(engine) => Self::of_engine(engine, inputs)?,
            Model::Graph(executor) => Self::Graph(executor.as_ref(), inputs.to_vec()),
        })
    }

    /// The same of an engine.
    pub fn of_engine(
        engine: &'m DeviceExecutor,
        inputs: &[NamedValue],
    ) -> Result<Self, PipelineError> {
        Ok(Self::Engine(Box::new(engine.stage(inputs)?)))
    }

    fn try_graph(&mut self) -> Result<Graph, PipelineError> {
        let Self::Engine(staged) = self else { return Ok(Graph::Unknown) };
        if staged.run(RunHow { graph: true, ..RunHow::default() })?.graph {
            return Ok(Graph::Works);
        }
        let why = staged.graph_refusal().unwrap_or("the engine gave no reason");
        Ok(Graph::Refused(why.to_owned()))
    }

    fn profile(&self) -> usize {
        match self {
            Self::Engine(staged) => staged.profile(),
            Self::Graph(..) => 0,
        }
    }
}

impl Subject for Runner<'_> {
    type Error = PipelineError;

    fn run(&mut self, how: How) -> Result<Times, PipelineError> {
        match self {
            Self::Engine(staged) => {
                let how = RunHow { copies: true, graph: how.graph, pinned: how.pinned };
                let times = staged.run(how)?;
                let device = DeviceTimes {
                    enqueue_us: times.enqueue_us,
                    copy_in_us: times.copy_in_us,
                    compute_us: times.compute_us,
                    copy_out_us: times.copy_out_us,
                };
                Ok(Times { total_us: times.total_us, device: Some(device) })
            }
            Self::Graph(executor, inputs) => {
                let start = std::time::Instant::now();
                executor.run(inputs)?;
                Ok(Times { total_us: start.elapsed().as_secs_f64() * 1e6, device: None })
            }
        }
    }
}

fn result(
    candidate: &Candidate,
    runner: &Runner<'_>,
    how: How,
    (samples, shape, real_tokens): (&Samples, BenchmarkShape, u64),
) -> Option<BenchmarkResult> {
    let times = &samples.times;
    let total = spread_ms(times.iter().map(|times| times.total_us))?;
    let of = |part: fn(&DeviceTimes) -> f64| {
        let parts: Option<Vec<f64>> =
            times.iter().map(|times| times.device.as_ref().map(part)).collect();
        spread_ms(parts?)
    };
    let seconds: f64 = times.iter().map(|times| times.total_us).sum::<f64>() / 1e6;
    let per_s = |count: u64| {
        let count = count as f64 * times.len() as f64;
        if seconds > 0.0 { count / seconds } else { 0.0 }
    };
    Some(BenchmarkResult {
        precision: candidate.precision,
        artifact: Some(candidate.artifact.clone()),
        profile: runner.profile() as u64,
        shape,
        real_tokens,
        cuda_graph: how.graph,
        iterations: times.len() as u64,
        total,
        enqueue: of(|device| device.enqueue_us),
        copy_in: of(|device| device.copy_in_us),
        compute: of(|device| device.compute_us),
        copy_out: of(|device| device.copy_out_us),
        rows_per_s: per_s(shape.batch),
        tokens_per_s: per_s(real_tokens),
    })
}

fn spread_ms(us: impl IntoIterator<Item = f64>) -> Option<Spread> {
    let found = spread(us.into_iter().map(|us| us / 1e3))?;
    let (mean, p50, p90, p95, p99, max) =
        (found.mean, found.p50, found.p90, found.p95, found.p99, found.max);
    Some(Spread { mean, p50, p90, p95, p99, max })
}

/// INT8 over FP16, in each way of running that both have.
fn speedups(
    candidates: &[Candidate],
    entries: &[Entry],
    samples: &[Samples],
    shape: BenchmarkShape,
    confidence: f64,
) -> Vec<Speedup> {
    let of = |precision, how| {
        let at = entries.iter().position(|entry| {
            entry.how == how && candidates[entry.subject].precision == precision
        })?;
        Some(samples[at].round_medians_us.as_slice())
    };
    let one = |how: How| {
        let (over, precision) = (Precision::Fp16, Precision::Int8);
        let ratio = paired_ratio(of(over, how)?, of(precision, how)?, confidence)?;
        Some(Speedup {
            precision,
            over,
            shape,
            cuda_graph: how.graph,
            ratio: ratio.median,
            interval: ratio.interval,
            confidence,
            rounds: ratio.pairs as u64,
        })
    };
    [How::PLAIN, How::GRAPH].into_iter().filter_map(one).collect()
}

/// As many real rows as the batch has: those that this shape is for, as they come in the file, over and over.
///
/// - `shapes`: all that are timed; a row belongs to the shortest that holds it. A shape without such rows gets the longest that fit.
pub fn rows_for<'r>(
    rows: &'r [Encoded],
    [batch, length]: [usize; 2],
    shapes: &[[usize; 2]],
) -> Vec<&'r Encoded> {
    let shorter = shapes.iter().map(|shape| shape[1]).filter(|&other| other < length).max();
    let above = shorter.unwrap_or(0);
    let mut own: Vec<&Encoded> =
        rows.iter().filter(|row| (above + 1..=length).contains(&row.ids.len())).collect();
    if own.is_empty() {
        own = rows.iter().filter(|row| row.ids.len() <= length).collect();
        own.sort_by_key(|row| std::cmp::Reverse(row.ids.len()));
        own.truncate(batch);
    }
    own.iter().copied().cycle().take(if own.is_empty() { 0 } else { batch }).collect()
}

fn state(state: ClockState) -> DeviceState {
    DeviceState {
        sm_clock_mhz: state.sm_clock_mhz,
        memory_clock_mhz: state.memory_clock_mhz,
        max_sm_clock_mhz: state.max_sm_clock_mhz,
        temperature_c: state.temperature_c,
        power_w: state.power_w,
        throttle_reasons: state.throttle_reasons,
        other_processes: state.other_processes,
    }
}

/// What makes the figures weaker than they look.
fn doubts(found: &Benchmark) -> Vec<String> {
    let mut notes = Vec::new();
    if found.measured_on == Place::Reference {
        notes.push("these are times of the embedded executor on the CPU (reference): they say nothing about a GPU".to_owned());
    }
    let states = [("before", &found.before), ("after", &found.after)];
    for (when, state) in states {
        let Some(state) = state else { continue };
        if !state.throttle_reasons.is_empty() {
            let why = state.throttle_reasons.join(", ");
            notes.push(format!("{when} the benchmark clocks were held down: {why}"));
        }
        if let Some(others @ 1..) = state.other_processes {
            notes.push(format!("{when} the benchmark {others} other processes used the GPU"));
        }
    }
    let clock = |state: &Option<DeviceState>| state.as_ref()?.sm_clock_mhz.map(f64::from);
    if let Some((before, after)) = clock(&found.before).zip(clock(&found.after))
        && (after - before) / before < -CLOCK_DRIFT
    {
        notes.push(format!(
            "the clock fell from {before:.0} to {after:.0} MHz; the order of the engines alternates, so that it weighs on all alike"
        ));
    }
    let fewest = found.results.iter().map(|result| result.iterations).min();
    if let Some(fewest) = fewest.filter(|&fewest| fewest < RUNS_OF_P99) {
        notes.push(format!(
            "{fewest} runs are few: the 99th percentile is the largest of them; raise `benchmark.duration_ms`"
        ));
    }
    notes
}

/// What the gate knows of a speed-up: nothing, unless engines were timed on a device.
pub fn evidence(
    benchmark: Option<&Benchmark>,
    precision: Precision,
) -> Option<Vec<MeasuredSpeedup>> {
    let benchmark = benchmark.filter(|benchmark| benchmark.measured_on == Place::Device)?;
    let measured = |one: &Speedup| MeasuredSpeedup {
        ratio: one.ratio,
        interval: one.interval,
        confidence: one.confidence,
        rounds: one.rounds,
        batch: one.shape.batch,
        length: one.shape.length,
    };
    let found: Vec<_> = benchmark.deciding(precision).into_iter().map(measured).collect();
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(lengths: &[usize]) -> Vec<Encoded> {
        let row = |&length: &usize| Encoded {
            ids: vec![7; length],
            type_ids: vec![0; length],
            truncated: false,
        };
        lengths.iter().map(row).collect()
    }

    fn chosen(lengths: &[usize], shape: [usize; 2], shapes: &[[usize; 2]]) -> Vec<usize> {
        let rows = rows(lengths);
        rows_for(&rows, shape, shapes).into_iter().map(|row| row.ids.len()).collect()
    }

    #[test]
    fn rows_belong_to_the_shortest_shape_that_holds_them() {
        let shapes = [[2, 8], [4, 16]];
        let lengths = [3, 9, 16, 8, 40];
        assert_eq!(chosen(&lengths, [2, 8], &shapes), [3, 8]);
        // Two rows, over and over.
        assert_eq!(chosen(&lengths, [5, 16], &shapes), [9, 16, 9, 16, 9]);
        // None of its own: the longest that fit.
        assert_eq!(chosen(&[3, 5, 4], [2, 16], &shapes), [5, 4]);
        assert_eq!(chosen(&[3], [3, 16], &shapes), [3, 3, 3]);
        assert!(chosen(&[40], [2, 16], &shapes).is_empty());
        assert!(chosen(&[], [2, 16], &shapes).is_empty());
    }

    #[test]
    fn shapes_are_what_profiles_are_tuned_for() {
        let profile =
            |opt| ShapeProfile { min: [1, 1], opt, max: [64, 512], rows: 0, padding_share: 0.0 };
        let profiles = [profile([8, 128]), profile([8, 32]), profile([8, 128])];
        assert_eq!(usual_shapes(&profiles), [[8, 32], [8, 128]]);
    }

    #[test]
    fn a_reference_is_no_evidence() {
        let speedup = Speedup {
            precision: Precision::Int8,
            over: Precision::Fp16,
            shape: BenchmarkShape { batch: 1, length: 8 },
            cuda_graph: false,
            ratio: 2.0,
            interval: Some([1.9, 2.1]),
            confidence: 0.95,
            rounds: 10,
        };
        let result = BenchmarkResult {
            precision: Precision::Fp16,
            artifact: None,
            profile: 0,
            shape: speedup.shape,
            real_tokens: 5,
            cuda_graph: false,
            iterations: 10,
            total: Spread::default(),
            enqueue: None,
            copy_in: None,
            compute: None,
            copy_out: None,
            rows_per_s: 1.0,
            tokens_per_s: 5.0,
        };
        let mut found = Benchmark {
            measured_on: Place::Device,
            device: BenchmarkDevice::default(),
            settings: BenchmarkSettings::default(),
            results: vec![result],
            speedups: vec![speedup],
            before: None,
            after: None,
            notes: Vec::new(),
        };
        assert_eq!(evidence(Some(&found), Precision::Int8).unwrap()[0].ratio, 2.0);
        assert_eq!(evidence(Some(&found), Precision::Fp16), None);
        found.measured_on = Place::Reference;
        assert_eq!(evidence(Some(&found), Precision::Int8), None);
        assert_eq!(evidence(None, Precision::Int8), None);
        assert!(doubts(&found).iter().any(|note| note.contains("nothing about a GPU")));
    }
}
