//! `benchmark:`, how long engines are timed and at which shapes.

use std::time::Duration;

use trtforge_diagnose::benchmark::Limits;

use super::decode::{Mistakes, Section};
use super::read::{empty, optional, section};
use super::tree::{Node, Value};

/// Counted runs of one engine at one shape at most.
const MOST_RUNS: usize = 10_000;

/// `benchmark:`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BenchmarkSection {
    /// `[batch, length]` each; none means what each optimization profile is tuned for.
    pub shapes: Vec<[usize; 2]>,
    /// Time before anything is counted, for each engine, shape and way of running.
    pub warmup: Duration,
    /// Time that is counted, for each; zero turns the stage of a build off.
    pub duration: Duration,
    /// Turns in which that time is spent.
    pub rounds: usize,
    /// Whether engines also run from a CUDA graph.
    pub cuda_graph: bool,
}

impl Default for BenchmarkSection {
    fn default() -> Self {
        Self {
            shapes: Vec::new(),
            warmup: Duration::from_millis(200),
            duration: Duration::from_secs(1),
            rounds: 10,
            cuda_graph: true,
        }
    }
}

impl BenchmarkSection {
    /// For a measurement.
    pub fn limits(&self) -> Limits {
        Limits {
            warmup: self.warmup,
            duration: self.duration,
            max_iterations: MOST_RUNS,
            rounds: self.rounds,
        }
    }
}

/// Reads the section.
pub(super) fn read(top: &Section<'_>, mistakes: &Mistakes<'_>) -> Option<BenchmarkSection> {
    let known = ["shapes", "warmup_ms", "duration_ms", "rounds", "cuda_graph"];
    let empty = empty();
    let given = section(top, "benchmark", &known, &empty, mistakes)?;
    let usual = BenchmarkSection::default();
    let shapes = read_shapes(&given);
    let ms = |key, usual: Duration| {
        let usual = usual.as_millis() as i64;
        let read = optional(&given, key, |b| b.integer(key, 0..=3_600_000), usual)?;
        Some(Duration::from_millis(read as u64))
    };
    let (warmup, duration) = (ms("warmup_ms", usual.warmup), ms("duration_ms", usual.duration));
    let rounds = optional(&given, "rounds", |b| b.integer("rounds", 1..=1000), usual.rounds as i64);
    let cuda_graph = optional(&given, "cuda_graph", |b| b.boolean("cuda_graph"), usual.cuda_graph);
    Some(BenchmarkSection {
        shapes: shapes?,
        warmup: warmup?,
        duration: duration?,
        rounds: rounds? as usize,
        cuda_graph: cuda_graph?,
    })
}

fn read_shapes(section: &Section<'_>) -> Option<Vec<[usize; 2]>> {
    let Some(node) = section.get("shapes") else { return Some(Vec::new()) };
    let size = |node: &Node| match node.value {
        Value::Integer(value @ 1..=1_000_000) => Some(value as usize),
        _ => None,
    };
    let pair = |node: &Node| match &node.value {
        Value::List(items) => match &items[..] {
            [batch, length] => Some([size(batch)?, size(length)?]),
            _ => None,
        },
        _ => None,
    };
    let shapes: Option<Vec<[usize; 2]>> = match &node.value {
        Value::List(items) => items.iter().map(pair).collect(),
        _ => None,
    };
    if shapes.is_none() {
        section.refuse(
            "shapes",
            "a list of `[batch, length]`, each at least 1",
            "write `shapes: [[1, 128], [32, 128]]`",
        );
    }
    shapes
}
