//! How fast the engines are: latency, throughput and speed-up by precision, optimization profile and shape.
//!
//! All times are milliseconds. A percentile is a nearest rank: the smallest measured time that so many percent of all do not exceed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::number;
use super::precision::{Place, Precision};

/// What was measured, where and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Benchmark {
    /// `device` for engines on a GPU. `reference` is the embedded executor on the CPU: it says nothing about a GPU and satisfies no gate.
    pub measured_on: Place,
    /// What ran it.
    pub device: BenchmarkDevice,
    /// How.
    pub settings: BenchmarkSettings,
    /// One for each precision, shape and way of running.
    #[serde(default)]
    pub results: Vec<BenchmarkResult>,
    /// Every candidate against the precision it is compared with, by shape and way of running.
    #[serde(default)]
    pub speedups: Vec<Speedup>,
    /// The device before the first warm-up.
    #[serde(default)]
    pub before: Option<DeviceState>,
    /// The device after the last run.
    #[serde(default)]
    pub after: Option<DeviceState>,
    /// What a reader of the figures must know, such as throttling.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Benchmark {
    /// The result of one precision at a shape.
    pub fn result(
        &self,
        precision: Precision,
        shape: BenchmarkShape,
        cuda_graph: bool,
    ) -> Option<&BenchmarkResult> {
        self.results.iter().find(|one| {
            one.precision == precision && one.shape == shape && one.cuda_graph == cuda_graph
        })
    }

    /// The shapes in the order in which they were measured.
    pub fn shapes(&self) -> Vec<BenchmarkShape> {
        let mut shapes = Vec::new();
        for result in &self.results {
            if !shapes.contains(&result.shape) {
                shapes.push(result.shape);
            }
        }
        shapes
    }

    /// The comparison that decides about a candidate at each shape: in the way of running that is faster for what it is compared with, so
    /// that the gain is not owed to a slow baseline.
    pub fn deciding(&self, precision: Precision) -> Vec<&Speedup> {
        let of = |shape| self.speedups.iter().filter(move |one| one.shape == shape);
        let baseline = |one: &Speedup| {
            let result = self.result(one.over, one.shape, one.cuda_graph);
            result.map_or(f64::INFINITY, |result| result.total.p50)
        };
        let fastest = |shape| {
            of(shape)
                .filter(|one| one.precision == precision)
                .min_by(|a, b| baseline(a).total_cmp(&baseline(b)))
        };
        self.shapes().into_iter().filter_map(fastest).collect()
    }
}

/// What ran the benchmark.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BenchmarkDevice {
    /// As its driver names it; of a reference, what the executor is.
    pub name: String,
    /// Compute capability, such as `9.0`.
    #[serde(default)]
    pub compute_capability: Option<String>,
    /// Version of the GPU driver.
    #[serde(default)]
    pub driver: Option<String>,
    /// CUDA version that the driver serves.
    #[serde(default)]
    pub cuda: Option<String>,
    /// Library and version that ran the engines.
    #[serde(default)]
    pub library: Option<String>,
}

/// How it was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchmarkSettings {
    /// Time that each engine ran at each shape before anything was counted.
    pub warmup_ms: u64,
    /// Time that was counted, each.
    pub duration_ms: u64,
    /// Runs that were counted at most, each.
    pub max_iterations: u64,
    /// Turns in which that time was spent: in each, every engine had one, forward and backward by turns, so that drift hits all alike.
    pub rounds: u64,
    /// Where the token ids come from.
    #[serde(default)]
    pub rows_from: String,
}

/// What is run at once.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct BenchmarkShape {
    /// Rows.
    pub batch: u64,
    /// Tokens of a row, padding included.
    pub length: u64,
}

/// One precision at one shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchmarkResult {
    /// What ran.
    pub precision: Precision,
    /// The BLAKE3 hash of the plan, or of the graph of a reference.
    #[serde(default)]
    pub artifact: Option<String>,
    /// Optimization profile that the engine ran in.
    #[serde(default)]
    pub profile: u64,
    /// What was run at once.
    pub shape: BenchmarkShape,
    /// Tokens of the batch that are not padding.
    pub real_tokens: u64,
    /// Whether launches were replayed from a CUDA graph.
    #[serde(default)]
    pub cuda_graph: bool,
    /// Runs that were counted.
    pub iterations: u64,
    /// Host's clock, from the first copy until the outputs are on the host.
    pub total: Spread,
    /// Host's clock, until the call that submits the work has returned; none where that is not apart.
    #[serde(default)]
    pub enqueue: Option<Spread>,
    /// Device's clock, host to device; none where the device has no clock of its own.
    #[serde(default)]
    pub copy_in: Option<Spread>,
    /// Device's clock, kernels.
    #[serde(default)]
    pub compute: Option<Spread>,
    /// Device's clock, device to host.
    #[serde(default)]
    pub copy_out: Option<Spread>,
    /// Rows a second, one batch after another.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub rows_per_s: f64,
    /// Tokens a second that are not padding.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub tokens_per_s: f64,
}

/// How a time is distributed over the runs, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Arithmetic mean.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub mean: f64,
    /// Half of the runs take no longer.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub p50: f64,
    /// 90 % take no longer.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub p90: f64,
    /// 95 % take no longer.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub p95: f64,
    /// 99 % take no longer.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub p99: f64,
    /// The longest.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub max: f64,
}

/// How many times as fast a precision is as another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Speedup {
    /// The candidate.
    pub precision: Precision,
    /// What it is compared with.
    pub over: Precision,
    /// What was run at once.
    pub shape: BenchmarkShape,
    /// Whether both replayed a CUDA graph.
    #[serde(default)]
    pub cuda_graph: bool,
    /// Median over the rounds of the other's median time over the candidate's.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub ratio: f64,
    /// Bounds of that median, low then high; each end alone holds with `confidence`. None: too few rounds for that confidence.
    #[serde(default, with = "number")]
    #[schemars(with = "Option<[f64; 2]>")]
    pub interval: Option<[f64; 2]>,
    /// Confidence of each end.
    #[serde(with = "number")]
    #[schemars(with = "f64")]
    pub confidence: f64,
    /// Rounds, each of which compares the two.
    pub rounds: u64,
}

/// A GPU as its management library sees it. A field is none where the chip or the driver does not tell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceState {
    /// Clock of the multiprocessors.
    #[serde(default)]
    pub sm_clock_mhz: Option<u32>,
    /// Clock of the memory.
    #[serde(default)]
    pub memory_clock_mhz: Option<u32>,
    /// The highest clock the multiprocessors may have.
    #[serde(default)]
    pub max_sm_clock_mhz: Option<u32>,
    /// Of the chip.
    #[serde(default)]
    pub temperature_c: Option<u32>,
    /// Power drawn.
    #[serde(default, with = "number")]
    #[schemars(with = "Option<f64>")]
    pub power_w: Option<f64>,
    /// Why clocks are held down, such as `software power cap`; empty when they are not.
    #[serde(default)]
    pub throttle_reasons: Vec<String>,
    /// Processes that use the device beside this one.
    #[serde(default)]
    pub other_processes: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(p50: f64) -> Spread {
        Spread { p50, ..Spread::default() }
    }

    fn result(precision: Precision, batch: u64, cuda_graph: bool, p50: f64) -> BenchmarkResult {
        BenchmarkResult {
            precision,
            artifact: None,
            profile: 0,
            shape: BenchmarkShape { batch, length: 64 },
            real_tokens: batch * 40,
            cuda_graph,
            iterations: 10,
            total: spread(p50),
            enqueue: None,
            copy_in: None,
            compute: None,
            copy_out: None,
            rows_per_s: 1.0,
            tokens_per_s: 40.0,
        }
    }

    fn speedup(batch: u64, cuda_graph: bool, ratio: f64) -> Speedup {
        Speedup {
            precision: Precision::Int8,
            over: Precision::Fp16,
            shape: BenchmarkShape { batch, length: 64 },
            cuda_graph,
            ratio,
            interval: Some([ratio - 0.1, ratio + 0.1]),
            confidence: 0.95,
            rounds: 10,
        }
    }

    #[test]
    fn the_faster_way_of_the_baseline_decides_at_each_shape() {
        let benchmark = Benchmark {
            measured_on: Place::Device,
            device: BenchmarkDevice::default(),
            settings: BenchmarkSettings::default(),
            results: vec![
                result(Precision::Fp16, 1, false, 2.0),
                result(Precision::Fp16, 1, true, 1.0),
                result(Precision::Fp16, 32, false, 4.0),
                result(Precision::Fp16, 32, true, 5.0),
            ],
            speedups: vec![
                speedup(1, false, 1.9),
                speedup(1, true, 1.1),
                speedup(32, false, 1.5),
                speedup(32, true, 1.8),
            ],
            before: None,
            after: None,
            notes: Vec::new(),
        };
        let ratios = benchmark.deciding(Precision::Int8).into_iter().map(|one| one.ratio);
        assert_eq!(ratios.collect::<Vec<_>>(), [1.1, 1.5]);
        assert!(benchmark.deciding(Precision::Fp16).is_empty());
        let json = serde_json::to_string(&benchmark).unwrap();
        assert_eq!(serde_json::from_str::<Benchmark>(&json).unwrap(), benchmark);
    }
}
