//! Engines on the GPU of this machine.

use std::fs;
use std::path::Path;

use ndarray::Axis;
use trtforge_exec::{EvaluatedOn, ExecError, Executor, NamedValue, Port, Value};
use trtforge_tensorrt::{DeviceExecutor, DeviceOptions, DriverInfo, Library, OptimizationProfile};

use crate::error::PipelineError;
use crate::store::StoreError;

/// An engine that takes any batch: larger ones than its profiles go in parts, smaller ones are filled up with copies of their
/// last row, whose answers are dropped.
pub struct OnDevice {
    engine: DeviceExecutor,
    ranges: Vec<Range>,
}

/// Batches and lengths that one optimization profile takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    rows: [usize; 2],
    length: [usize; 2],
}

/// The GPU and its driver, in words for a fingerprint.
pub fn words(driver: &DriverInfo) -> String {
    let gpu = &driver.gpus[0];
    format!("{} {} CUDA {}", gpu.name, gpu.compute_capability, driver.cuda_version)
}

impl OnDevice {
    /// Brings a plan to life on the first GPU.
    pub fn open(library: &Library, plan: &Path) -> Result<Self, PipelineError> {
        let bytes = fs::read(plan).map_err(StoreError::io("read", plan))?;
        let engine = DeviceExecutor::open(library, &bytes, &DeviceOptions::default())?;
        let ranges = engine.profiles().iter().map(Range::of).collect();
        Ok(OnDevice { engine, ranges })
    }

    /// The GPU.
    pub fn gpu(&self) -> &str {
        &self.engine.gpu().name
    }

    /// The shortest length that some profile takes and that is not below `wanted`.
    pub fn length(&self, wanted: usize) -> usize {
        length(&self.ranges, wanted)
    }
}

fn length(ranges: &[Range], wanted: usize) -> usize {
    let taken = ranges.iter().filter(|range| range.length[1] >= wanted);
    taken.map(|range| range.length[0].max(wanted)).min().unwrap_or(wanted)
}

impl Range {
    /// What all inputs of a profile take; those without a batch and a length are no inputs of a text model.
    fn of(profile: &OptimizationProfile) -> Range {
        let mut range = Range { rows: [0, usize::MAX], length: [0, usize::MAX] };
        let size = |dim: i64| usize::try_from(dim).unwrap_or(0);
        for shapes in profile.inputs.values() {
            let axes = [&mut range.rows, &mut range.length];
            for (axis, [min, max]) in axes.into_iter().enumerate() {
                if let (Some(&least), Some(&most)) = (shapes.min.get(axis), shapes.max.get(axis)) {
                    (*min, *max) = ((*min).max(size(least)), (*max).min(size(most)));
                }
            }
        }
        range
    }
}

/// The rows of one part of a batch, and how many of its answers count.
type Part = (Vec<usize>, usize);

fn parts(ranges: &[Range], rows: usize, length: usize) -> Vec<Part> {
    let fitting = ranges.iter().filter(|r| (r.length[0]..=r.length[1]).contains(&length));
    let most = fitting.clone().map(|range| range.rows[1]).max().unwrap_or(rows).max(1);
    let part = |start: usize| {
        let real = most.min(rows - start);
        let takes = |r: &&Range| r.rows[1] >= real;
        let filled = fitting.clone().filter(takes).map(|r| r.rows[0].max(real)).min();
        let last = start + real - 1;
        ((start..start + filled.unwrap_or(real)).map(|row| row.min(last)).collect(), real)
    };
    (0..rows).step_by(most).map(part).collect()
}

impl Executor for OnDevice {
    fn inputs(&self) -> &[Port] {
        self.engine.inputs()
    }

    fn outputs(&self) -> &[Port] {
        self.engine.outputs()
    }

    fn evaluated_on(&self) -> EvaluatedOn {
        self.engine.evaluated_on()
    }

    fn run(&self, inputs: &[NamedValue]) -> Result<Vec<NamedValue>, ExecError> {
        let shape = inputs.first().map_or(&[][..], |(_, value)| value.shape());
        let [rows, length, ..] = *shape else { return self.engine.run(inputs) };
        let parts = parts(&self.ranges, rows, length);
        if let [(only, real)] = &parts[..]
            && only.len() == *real
        {
            return self.engine.run(inputs);
        }
        let mut whole: Vec<NamedValue> = Vec::new();
        for (rows, real) in parts {
            let pick = |(name, value): &NamedValue| (name.clone(), select(value, &rows));
            let part: Vec<NamedValue> = inputs.iter().map(pick).collect();
            let counted: Vec<usize> = (0..real).collect();
            let outputs = self.engine.run(&part)?;
            for (index, (name, value)) in outputs.into_iter().enumerate() {
                let value = select(&value, &counted);
                match whole.get_mut(index) {
                    Some((_, before)) => append(before, &value),
                    None => whole.push((name, value)),
                }
            }
        }
        Ok(whole)
    }

    fn run_tapped(
        &self,
        inputs: &[NamedValue],
        taps: &[String],
        visit: &mut dyn FnMut(&str, &[f32]),
    ) -> Result<Vec<NamedValue>, ExecError> {
        self.engine.run_tapped(inputs, taps, visit)
    }

    fn can_tap(&self, name: &str) -> bool {
        self.engine.can_tap(name)
    }
}

fn select(value: &Value, rows: &[usize]) -> Value {
    match value {
        Value::F32(array) => array.select(Axis(0), rows).into(),
        Value::I64(array) => array.select(Axis(0), rows).into(),
        Value::I32(array) => array.select(Axis(0), rows).into(),
        Value::U8(array) => array.select(Axis(0), rows).into(),
        Value::I8(array) => array.select(Axis(0), rows).into(),
        Value::Bool(array) => array.select(Axis(0), rows).into(),
    }
}

/// Puts the rows of a further part behind those of the parts before it, which are of one type and shape.
fn append(before: &mut Value, part: &Value) {
    let appended = match (before, part) {
        (Value::F32(before), Value::F32(part)) => before.append(Axis(0), part.view()),
        (Value::I64(before), Value::I64(part)) => before.append(Axis(0), part.view()),
        (Value::I32(before), Value::I32(part)) => before.append(Axis(0), part.view()),
        (Value::U8(before), Value::U8(part)) => before.append(Axis(0), part.view()),
        (Value::I8(before), Value::I8(part)) => before.append(Axis(0), part.view()),
        (Value::Bool(before), Value::Bool(part)) => before.append(Axis(0), part.view()),
        _ => Ok(()),
    };
    debug_assert!(appended.is_ok(), "parts of one batch have the same shape beyond its rows");
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGES: [Range; 2] =
        [Range { rows: [1, 4], length: [1, 16] }, Range { rows: [2, 3], length: [32, 64] }];

    #[test]
    fn a_length_between_profiles_goes_up_to_the_next() {
        for (wanted, expected) in [(1, 1), (16, 16), (17, 32), (40, 40), (64, 64), (65, 65)] {
            assert_eq!(length(&RANGES, wanted), expected, "{wanted}");
        }
    }

    #[test]
    fn batches_are_cut_to_the_largest_and_filled_to_the_smallest() {
        let cases: [(usize, usize, Vec<Part>); 5] = [
            (4, 8, vec![(vec![0, 1, 2, 3], 4)]),
            (6, 8, vec![(vec![0, 1, 2, 3], 4), (vec![4, 5], 2)]),
            (1, 40, vec![(vec![0, 0], 1)]),
            (4, 40, vec![(vec![0, 1, 2], 3), (vec![3, 3], 1)]),
            // No profile takes it: the engine says so.
            (9, 100, vec![((0..9).collect(), 9)]),
        ];
        for (rows, length, expected) in cases {
            assert_eq!(parts(&RANGES, rows, length), expected, "{rows} x {length}");
        }
        assert!(parts(&RANGES, 0, 8).is_empty());
    }
}
