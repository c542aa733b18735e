//! Sizes, which are exact, and latencies, which are not.

use serde::Serialize;

use super::{Side, Standing};
use crate::record::number;
use crate::{Benchmark, BenchmarkResult, BenchmarkShape, Place, Precision};

/// A file of another size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SizeChange {
    /// The engine.
    pub precision: Precision,
    /// `engine` or `ONNX`.
    pub file: &'static str,
    /// The baseline's, in bytes.
    pub before: u64,
    /// The run's, in bytes.
    pub after: u64,
}

/// How long one batch takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Latency {
    /// What was run at once.
    pub shape: BenchmarkShape,
    /// Half of the runs take no longer, in milliseconds.
    #[serde(with = "number")]
    pub p50_ms: f64,
    /// 90 % take no longer.
    #[serde(with = "number")]
    pub p90_ms: f64,
    /// Whether a CUDA graph was replayed: the faster way counts.
    pub cuda_graph: bool,
    /// Where it was measured. A reference says nothing about a GPU.
    pub measured_on: Place,
    /// What ran it.
    pub device: String,
}

/// Latency of one engine at one shape in both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpeedChange {
    /// The engine.
    pub precision: Precision,
    /// That of the baseline.
    pub before: Latency,
    /// That of the run.
    pub after: Latency,
    /// `before.p50 / after.p50`: above 1 the run is faster.
    #[serde(with = "number")]
    pub speedup: f64,
    /// What can be said; the two were not measured by turns, so that only a change beyond the spread of both counts.
    pub standing: Standing,
}

/// Sizes in both runs.
pub fn sizes(before: &Side, after: &Side, pairs: &[(Precision, Precision)]) -> Vec<SizeChange> {
    let mut changes = Vec::new();
    for &(against, precision) in pairs {
        let one = &before.record.precisions[&against];
        let other = &after.record.precisions[&precision];
        let files = [
            ("engine", one.plan_bytes, other.plan_bytes),
            ("ONNX", one.onnx_bytes, other.onnx_bytes),
        ];
        for (file, before, after) in files {
            if let (Some(before), Some(after)) = (before, after) {
                changes.push(SizeChange { precision, file, before, after });
            }
        }
    }
    changes
}

/// The faster way of running at a shape.
pub fn latency(side: &Side, precision: Precision, shape: BenchmarkShape) -> Option<Latency> {
    let benchmark = side.record.benchmark.as_ref()?;
    let at = |one: &&BenchmarkResult| one.precision == precision && one.shape == shape;
    let found =
        benchmark.results.iter().filter(at).min_by(|a, b| a.total.p50.total_cmp(&b.total.p50))?;
    Some(Latency {
        shape,
        p50_ms: found.total.p50,
        p90_ms: found.total.p90,
        cuda_graph: found.cuda_graph,
        measured_on: benchmark.measured_on,
        device: benchmark.device.name.clone(),
    })
}

/// The shape that most engines were measured at, the first of several.
pub fn usual_shape(sides: &[Side]) -> Option<BenchmarkShape> {
    let benchmarks = || sides.iter().filter_map(|side| side.record.benchmark.as_ref());
    let mut best: Option<(BenchmarkShape, usize)> = None;
    for shape in benchmarks().flat_map(Benchmark::shapes) {
        let count = benchmarks().flat_map(|b| &b.results).filter(|r| r.shape == shape).count();
        if best.is_none_or(|(_, most)| count > most) {
            best = Some((shape, count));
        }
    }
    best.map(|(shape, _)| shape)
}

/// Latency of the engines that both runs measured, shape by shape.
pub fn speed(before: &Side, after: &Side, pairs: &[(Precision, Precision)]) -> Vec<SpeedChange> {
    let shapes = after.record.benchmark.as_ref().map(Benchmark::shapes).unwrap_or_default();
    let mut changes = Vec::new();
    for &(against, precision) in pairs {
        for &shape in &shapes {
            let both = (latency(before, against, shape), latency(after, precision, shape));
            if let (Some(before), Some(after)) = both {
                changes.push(SpeedChange {
                    precision,
                    speedup: before.p50_ms / after.p50_ms,
                    standing: standing(&before, &after),
                    before,
                    after,
                });
            }
        }
    }
    changes
}

/// Two runs are measured at two times, so nothing bounds their difference. It counts where each median is outside what the other run shows
/// between its median and its slowest tenth; other devices do not compare at all.
fn standing(before: &Latency, after: &Latency) -> Standing {
    if before.device != after.device || before.measured_on != after.measured_on {
        return Standing::Unknown;
    }
    let clear = |fast: &Latency, slow: &Latency| fast.p90_ms < slow.p50_ms;
    match () {
        () if clear(before, after) => Standing::Worse,
        () if clear(after, before) => Standing::Better,
        () => Standing::WithinNoise,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(p50_ms: f64, p90_ms: f64, device: &str) -> Latency {
        Latency {
            shape: BenchmarkShape { batch: 1, length: 64 },
            p50_ms,
            p90_ms,
            cuda_graph: false,
            measured_on: Place::Device,
            device: device.into(),
        }
    }

    #[test]
    fn only_a_change_beyond_the_spread_counts() {
        let before = latency(2.0, 2.2, "a");
        let cases = [
            (latency(2.1, 2.3, "a"), Standing::WithinNoise),
            (latency(2.5, 2.6, "a"), Standing::Worse),
            (latency(1.5, 1.9, "a"), Standing::Better),
            // Faster in the middle, and its slowest tenth is not.
            (latency(1.5, 2.1, "a"), Standing::WithinNoise),
            (latency(9.0, 9.1, "b"), Standing::Unknown),
            (latency(f64::NAN, f64::NAN, "a"), Standing::WithinNoise),
        ];
        for (after, expected) in cases {
            assert_eq!(standing(&before, &after), expected, "{after:?}");
        }
    }
}
