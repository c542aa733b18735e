//! What quantizing each unit of a model alone costs: logits, signal, clipped values, answers.
//!
//! One pass of the FP32 model per batch shows what every unit reads and makes. Each unit is then computed by the INT8
//! graph's own nodes from what it reads in FP32, and the FP32 model goes on from what they made. So a unit costs
//! itself and what lies behind it, never a whole pass, and the arithmetic is that of the INT8 graph.

use std::collections::{BTreeMap, BTreeSet};

use trtforge_evaluate::Prediction;
use trtforge_exec::{EmbeddedExecutor, EmbeddedOptions, HeldTensor, NamedValue, crossing};
use trtforge_onnx::{Graph, Model, is_op};
use trtforge_quantize::Unit;

use crate::cost::{ClipSums, ShiftSums, SignalSums, UnitCost};
use crate::error::SearchError;

/// Compares each unit's INT8 with FP32, batch by batch. Its memory does not grow with the rows.
pub struct Sensitivity {
    base: EmbeddedExecutor,
    quantized: EmbeddedExecutor,
    /// The tensors that answer.
    outputs: Vec<String>,
    /// Everything the FP32 pass must show.
    shown: Vec<String>,
    plans: Vec<Plan>,
}

/// How one unit is measured, and what was found so far.
struct Plan {
    unit: Unit,
    /// What the INT8 nodes are given: its name there, and the FP32 tensor it is.
    given: Vec<(String, String)>,
    /// What the FP32 model is given besides the unit's output.
    behind: Vec<String>,
    shift: ShiftSums,
    signal: SignalSums,
    clip: ClipSums,
}

impl Sensitivity {
    /// Gets ready to measure those of `units` that are INT8.
    ///
    /// - `base`: the FP32 model that was quantized (the smoothed one, where there is smoothing).
    /// - `quantized`: what [`trtforge_quantize::quantize`] made of it, with all of `units` in INT8.
    /// - `outputs`: the outputs that answer; at least one.
    pub fn new(
        base: &Model,
        quantized: &Model,
        units: &[Unit],
        outputs: &[&str],
    ) -> Result<Self, SearchError> {
        let names = Names { base: base.graph(), quantized: quantized.graph() };
        let wanted = units.iter().filter(|unit| unit.left.is_none());
        let plans: Vec<Plan> = wanted.map(|unit| plan(base, &names, unit, outputs)).collect();
        let mut shown: BTreeSet<String> = outputs.iter().map(|&output| output.to_owned()).collect();
        let mut inside = BTreeSet::new();
        for plan in &plans {
            shown.extend(plan.given.iter().map(|(_, name)| name.clone()));
            shown.extend(plan.unit.reads.iter().map(|read| read.tensor.clone()));
            shown.extend(plan.behind.iter().cloned());
            shown.insert(plan.unit.output.clone());
            inside.extend(plan.given.iter().map(|(name, _)| name.clone()));
            inside.insert(plan.unit.output.clone());
        }
        let load = |model: &Model, names: &BTreeSet<String>| {
            let graph = model.graph();
            let keep = names.iter().filter(|name| graph.producer(name).is_some()).cloned();
            let options = EmbeddedOptions { keep: keep.collect(), ..EmbeddedOptions::default() };
            EmbeddedExecutor::from_model(model, options)
        };
        Ok(Self {
            base: load(base, &shown)?,
            quantized: load(quantized, &inside)?,
            outputs: outputs.iter().map(|&output| output.to_owned()).collect(),
            shown: shown.into_iter().collect(),
            plans,
        })
    }

    /// How many units are measured.
    pub fn units(&self) -> usize {
        self.plans.len()
    }

    /// Measures all units on one batch.
    ///
    /// - `read`: the logits by row out of the values of `outputs`; rows it leaves out are not counted.
    /// - `changed`: whether a row's answer is another one.
    pub fn measure<E: From<SearchError>>(
        &mut self,
        inputs: &[NamedValue],
        read: &dyn Fn(Vec<NamedValue>) -> Result<Vec<Prediction>, E>,
        changed: &dyn Fn(&Prediction, &Prediction) -> bool,
    ) -> Result<(), E> {
        let wanted: Vec<&str> = self.shown.iter().map(String::as_str).collect();
        let tensors = self.base.run_holding(inputs, &wanted).map_err(SearchError::from)?;
        let held: BTreeMap<&str, HeldTensor> = wanted.into_iter().zip(tensors).collect();
        let answer = |tensors: Vec<HeldTensor>| {
            let named = self.outputs.iter().zip(tensors);
            let value = |(name, tensor): (&String, HeldTensor)| {
                Ok((name.clone(), tensor.into_value(name).map_err(SearchError::from)?))
            };
            read(named.map(value).collect::<Result<_, SearchError>>()?)
        };
        let outputs: Vec<&str> = self.outputs.iter().map(String::as_str).collect();
        let before = answer(outputs.iter().map(|output| held[output].clone()).collect())?;
        for plan in &mut self.plans {
            let after = plan.measure(&self.base, &self.quantized, &held, &outputs)?;
            for (before, after) in before.iter().zip(&answer(after)?) {
                plan.shift.add(before, after, changed(before, after));
            }
        }
        Ok(())
    }

    /// What was found, in the order of the units.
    pub fn finish(self) -> Vec<UnitCost> {
        self.plans.into_iter().map(Plan::cost).collect()
    }
}

impl Plan {
    /// Computes the unit in INT8 and returns what the FP32 model answers then.
    fn measure(
        &mut self,
        base: &EmbeddedExecutor,
        quantized: &EmbeddedExecutor,
        held: &BTreeMap<&str, HeldTensor>,
        outputs: &[&str],
    ) -> Result<Vec<HeldTensor>, SearchError> {
        for read in &self.unit.reads {
            if let Some(scale) = read.scale {
                held[read.tensor.as_str()].with_f32(|values| self.clip.add(values, scale));
            }
        }
        let made_name = self.unit.output.as_str();
        let given = self.given.iter().map(|(there, here)| (there.as_str(), &held[here.as_str()]));
        let made = first(quantized.run_from(&given.collect::<Vec<_>>(), &[made_name])?, made_name)?;
        held[made_name].with_f32(|exact| made.with_f32(|values| self.signal.add(exact, values)));
        let others: Vec<&str> =
            outputs.iter().copied().filter(|output| *output != made_name).collect();
        let behind = self.behind.iter().map(|name| (name.as_str(), &held[name.as_str()]));
        let given: Vec<(&str, &HeldTensor)> = behind.chain([(made_name, &made)]).collect();
        // An output may be the unit itself; the model cannot be asked for what it was given.
        let found = if others.is_empty() { vec![] } else { base.run_from(&given, &others)? };
        let mut found = found.into_iter();
        let answer =
            |output: &&str| if *output == made_name { Some(made.clone()) } else { found.next() };
        let answers: Option<Vec<HeldTensor>> = outputs.iter().map(answer).collect();
        let missing = || trtforge_exec::ExecError::UnknownTap { tensor: outputs.join(", ") };
        Ok(answers.ok_or_else(missing)?)
    }

    fn cost(self) -> UnitCost {
        UnitCost {
            unit: self.unit,
            shift: self.shift.mean(),
            relative_shift: self.shift.relative(),
            max_shift: self.shift.max(),
            snr_db: self.signal.decibels(),
            clipped: self.clip.share(),
            flips: self.shift.flips,
            not_finite: self.shift.not_finite,
            rows: self.shift.rows,
        }
    }
}

fn first(tensors: Vec<HeldTensor>, name: &str) -> Result<HeldTensor, SearchError> {
    let missing = || trtforge_exec::ExecError::UnknownTap { tensor: name.to_owned() };
    Ok(tensors.into_iter().next().ok_or_else(missing)?)
}

/// Both graphs, to find tensors of one in the other.
struct Names<'m> {
    base: Graph<'m>,
    quantized: Graph<'m>,
}

impl Names<'_> {
    /// The names under which the INT8 graph holds a tensor of the FP32 model.
    ///
    /// A tensor whose name is fixed, such as a graph output, is made under another name there and cast to its own; nodes
    /// may read either.
    fn there(&self, name: &str) -> Vec<String> {
        let mut names = vec![name.to_owned()];
        let producer = self.quantized.producer(name).map(|node| &self.quantized.nodes()[node]);
        if let Some(cast) = producer.filter(|node| is_op(node, "Cast")) {
            let own = |input: &&String| {
                self.base.producer(input).is_none() && !self.quantized.is_input(input)
            };
            names.extend(cast.input.first().filter(own).cloned());
        }
        names
    }

    fn holds(&self, name: &str) -> bool {
        self.quantized.producer(name).is_some() || self.quantized.is_input(name)
    }
}

fn plan(base: &Model, names: &Names<'_>, unit: &Unit, outputs: &[&str]) -> Plan {
    let starts: Vec<&str> = unit.starts.iter().map(String::as_str).collect();
    // What else the unit needs, such as a mask or the shape for a Reshape, is not INT8: it comes from FP32 too.
    let mut read = crossing(base, &starts, &[&unit.output]);
    read.extend(unit.starts.iter().cloned());
    let there = |name: &String| {
        let found = names.there(name).into_iter().filter(|there| names.holds(there));
        found.map(|there| (there, name.clone())).collect::<Vec<_>>()
    };
    Plan {
        given: read.iter().flat_map(there).collect(),
        behind: crossing(base, &[&unit.output], outputs),
        unit: unit.clone(),
        shift: ShiftSums::default(),
        signal: SignalSums::default(),
        clip: ClipSums::default(),
    }
}
