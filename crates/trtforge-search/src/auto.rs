//! Choosing thresholds by what they do to the logits of rows kept aside.
//!
//! 1. Each method alone, for the whole model, on all rows: the best is the *winner*.
//! 2. From the winner, one change at a time: another method for a family of tensors (those whose names differ in numbers
//!    alone, so the same place in every layer), then for single tensors. Changes that promise most come first, by the
//!    squared error their histograms tell; one is kept if it moves the logits less by more than chance.
//! 3. What came out must beat the winner on rows that step 2 did not look at, or the winner stays.
//!
//! Everything is a function of the candidates and the rows; nothing depends on time, threads or order of batches.

use std::collections::{BTreeMap, BTreeSet};

use trtforge_calibrate::{Method, TensorCalibration};

use crate::candidates::{Candidates, Choice};
use crate::divergence::Divergence;

/// Of the parts, one in this many judges the final choice and is not searched on.
const JUDGING_ONE_IN: usize = 3;
/// A change is kept from this many standard errors of gain on; with the dozens that are tried, two are chance.
const SIGNIFICANT: f64 = 2.5;
/// And from this share of the divergence on: less is not worth a mixed table.
const LEAST_GAIN: f64 = 0.01;
/// Parts after which a change that does worse is given up.
const LEAST_PARTS: usize = 2;
/// Thresholds closer than this are the same choice.
const ALIKE: f32 = 0.02;

/// Runs a variant on rows: what a search asks its questions of.
pub trait Measure {
    /// What running can end in.
    type Error;

    /// How many parts the rows come in.
    fn parts(&self) -> usize;

    /// How far the logits of one part move when tensors are quantized with these scales.
    fn measure(
        &mut self,
        scales: &BTreeMap<&str, f32>,
        part: usize,
    ) -> Result<Divergence, Self::Error>;
}

/// How far a search may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Passes over the rows, at most, that the choice by tensor may take; 0 leaves it at one method for the model.
    pub most_passes: usize,
}

impl Default for Effort {
    /// With 64 rows kept aside of 512, 12 passes cost what calibrating one and a half times does.
    fn default() -> Self {
        Self { most_passes: 12 }
    }
}

/// A method and how far it moved the logits.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// The method, for every tensor.
    pub method: Method,
    /// On all rows.
    pub divergence: Divergence,
}

/// Another method for some tensors than for the rest.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The tensors: one, or all of a family.
    pub tensors: Vec<String>,
    /// Their method before.
    pub from: Method,
    /// Their method now.
    pub to: Method,
    /// Mean shift on the searched rows before.
    pub before: f64,
    /// And after.
    pub after: f64,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Each method for the whole model, in the order of the candidates.
    pub tried: Vec<Tried>,
    /// The best of them.
    pub winner: Method,
    /// Changes from there that were kept; none where they did not hold on the rows that judge.
    pub changes: Vec<Change>,
    /// Why changes were found and not kept, in words.
    pub dropped: Option<String>,
    /// The table entries in the end.
    pub tensors: BTreeMap<String, TensorCalibration>,
    /// Of the final choice, on all rows.
    pub divergence: Divergence,
    /// Rows run in all.
    pub rows_run: usize,
}

/// Chooses a threshold for every tensor.
pub fn choose<M: Measure>(
    candidates: &Candidates,
    measure: &mut M,
    effort: Effort,
) -> Result<Found, M::Error> {
    let mut search = Search::new(candidates, measure);
    let (tried, best) = search.models()?;
    let winner = candidates.methods()[best];
    let start = State { choice: candidates.uniform(best), parts: search.all_parts(best) };
    let budget = effort.most_passes * tried[best].divergence.rows();
    let (end, changes) = search.refine(start.clone(), search.rows_run + budget)?;
    let judged = search.judge(&start, end)?;
    let (state, changes, dropped) = match judged {
        Ok(end) => (end, changes, None),
        Err(why) => (start, vec![], Some(why).filter(|_| !changes.is_empty())),
    };
    Ok(Found {
        tried,
        winner,
        changes,
        dropped,
        tensors: state.choice.table(),
        divergence: joined(&state.parts),
        rows_run: search.rows_run,
    })
}

/// A choice and how far it moves the logits of each part known so far.
#[derive(Clone)]
struct State<'c> {
    choice: Choice<'c>,
    parts: Vec<Divergence>,
}

struct Search<'c, 'm, M> {
    candidates: &'c Candidates,
    measure: &'m mut M,
    /// Divergences by part of each method for the whole model.
    models: Vec<Vec<Divergence>>,
    rows_run: usize,
}

/// A change worth trying.
struct Trial<'c> {
    tensors: Vec<&'c str>,
    method: usize,
    /// The fall of squared error, summed over the tensors.
    promise: f64,
}

impl<'c, 'm, M: Measure> Search<'c, 'm, M> {
    fn new(candidates: &'c Candidates, measure: &'m mut M) -> Self {
        Self { candidates, measure, models: vec![], rows_run: 0 }
    }

    fn part(&mut self, choice: &Choice<'c>, part: usize) -> Result<Divergence, M::Error> {
        let found = self.measure.measure(&choice.scales(), part)?;
        self.rows_run += found.rows();
        Ok(found)
    }

    fn all_parts(&self, method: usize) -> Vec<Divergence> {
        self.models[method].clone()
    }

    /// Step 1: every method alone, and the position of the best.
    fn models(&mut self) -> Result<(Vec<Tried>, usize), M::Error> {
        let mut tried: Vec<Tried> = vec![];
        for (position, &method) in self.candidates.methods().iter().enumerate() {
            let choice = self.candidates.uniform(position);
            let scales = choice.scales();
            let same = |earlier: &usize| self.candidates.uniform(*earlier).scales() == scales;
            let parts = match (0..position).find(same) {
                Some(earlier) => self.models[earlier].clone(),
                None => (0..self.measure.parts())
                    .map(|part| self.part(&choice, part))
                    .collect::<Result<_, _>>()?,
            };
            tried.push(Tried { method, divergence: joined(&parts) });
            self.models.push(parts);
        }
        let mean = |position: usize| tried[position].divergence.mean();
        let best = (1..tried.len())
            .fold(0, |best, next| if mean(next) < mean(best) { next } else { best });
        Ok((tried, best))
    }

    /// Parts that changes are tried on; the rest judges.
    fn searched(&self) -> usize {
        let parts = self.measure.parts();
        parts - parts / JUDGING_ONE_IN
    }

    /// Step 2: families, then single tensors, while the budget of rows lasts.
    fn refine(
        &mut self,
        mut state: State<'c>,
        most_rows: usize,
    ) -> Result<(State<'c>, Vec<Change>), M::Error> {
        state.parts.truncate(self.searched());
        let mut changes = vec![];
        let names: Vec<&'c str> = self.candidates.tensors().keys().map(String::as_str).collect();
        let mut families: BTreeMap<String, Vec<&'c str>> = BTreeMap::new();
        for name in &names {
            families.entry(family(name)).or_default().push(name);
        }
        let families: Vec<Vec<&'c str>> = families.into_values().filter(|f| f.len() > 1).collect();
        let alone = names.iter().map(|&name| vec![name]).collect();
        for groups in [families, alone] {
            for trial in self.trials(&state.choice, groups) {
                if self.rows_run >= most_rows {
                    return Ok((state, changes));
                }
                let Some(next) = self.try_change(&state, &trial)? else { continue };
                changes.push(self.change(&state, &next, &trial));
                state = next;
            }
        }
        Ok((state, changes))
    }

    /// Every other threshold of every group, most promising first.
    fn trials(&self, choice: &Choice<'c>, groups: Vec<Vec<&'c str>>) -> Vec<Trial<'c>> {
        let mut trials: Vec<Trial<'c>> = vec![];
        for tensors in groups {
            let mut seen: BTreeSet<Vec<u32>> = BTreeSet::new();
            for method in 0..self.candidates.methods().len() {
                let scales = tensors.iter().map(|tensor| self.scale(tensor, method).to_bits());
                let differs = tensors.iter().any(|tensor| {
                    let (old, new) =
                        (self.scale(tensor, choice.of(tensor)), self.scale(tensor, method));
                    (new - old).abs() > ALIKE * old
                });
                if seen.insert(scales.collect()) && differs {
                    let noise =
                        |tensor: &&str, m: usize| self.candidates.tensors()[*tensor][m].noise;
                    let promise =
                        tensors.iter().map(|t| noise(t, choice.of(t)) - noise(t, method)).sum();
                    trials.push(Trial { tensors: tensors.clone(), method, promise });
                }
            }
        }
        // Stable: equal promises stay in the order of names and methods.
        trials.sort_by(|a, b| b.promise.total_cmp(&a.promise));
        trials
    }

    fn scale(&self, tensor: &str, method: usize) -> f32 {
        self.candidates.tensors()[tensor][method].calibration.scale
    }

    /// The state after a change, if it is worth keeping. One that does worse is given up after a few parts.
    fn try_change(
        &mut self,
        state: &State<'c>,
        trial: &Trial<'c>,
    ) -> Result<Option<State<'c>>, M::Error> {
        let choice = state.choice.with(&trial.tensors, trial.method);
        if choice == state.choice {
            return Ok(None);
        }
        let before = joined(&state.parts);
        let mut parts: Vec<Divergence> = vec![];
        for part in 0..state.parts.len() {
            parts.push(self.part(&choice, part)?);
            let gain = before.gain(&joined(&parts));
            if parts.len() >= LEAST_PARTS && gain.mean <= 0.0 {
                return Ok(None);
            }
        }
        let gain = before.gain(&joined(&parts));
        let keep = gain.mean > SIGNIFICANT * gain.noise && gain.mean > LEAST_GAIN * before.mean();
        Ok(keep.then_some(State { choice, parts }))
    }

    fn change(&self, before: &State<'c>, after: &State<'c>, trial: &Trial<'c>) -> Change {
        let methods = self.candidates.methods();
        Change {
            tensors: trial.tensors.iter().map(|&tensor| tensor.to_owned()).collect(),
            from: methods[before.choice.of(trial.tensors[0])],
            to: methods[trial.method],
            before: joined(&before.parts).mean(),
            after: joined(&after.parts).mean(),
        }
    }

    /// Step 3: the end state with all its parts, or why it does not replace the start.
    fn judge(
        &mut self,
        start: &State<'c>,
        mut end: State<'c>,
    ) -> Result<Result<State<'c>, String>, M::Error> {
        if end.choice == start.choice {
            return Ok(Ok(start.clone()));
        }
        let searched = end.parts.len();
        for part in searched..self.measure.parts() {
            let found = self.part(&end.choice, part)?;
            end.parts.push(found);
        }
        let judging = |state: &State| joined(&state.parts[searched..]);
        let (before, after) = (judging(start), judging(&end));
        if after.mean() > before.mean() {
            let reason = format!(
                "a choice by tensor moved the logits less on the rows it was found on, and {:.5} instead of {:.5} on {} others: one method serves all",
                after.mean(),
                before.mean(),
                after.rows()
            );
            return Ok(Err(reason));
        }
        Ok(Ok(end))
    }
}

fn joined(parts: &[Divergence]) -> Divergence {
    let mut all = Divergence::default();
    for part in parts {
        all.extend(part.clone());
    }
    all
}

/// A name without its numbers.
fn family(name: &str) -> String {
    let mut family = String::new();
    for character in name.chars() {
        match character {
            digit if digit.is_ascii_digit() => {
                if !family.ends_with('#') {
                    family.push('#');
                }
            }
            other => family.push(other),
        }
    }
    family
}

#[cfg(test)]
#[path = "auto_tests.rs"]
mod tests;
