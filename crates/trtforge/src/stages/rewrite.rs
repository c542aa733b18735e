//! `to_half` and `quantize`: the graphs that engines are built from, with a decision for every tensor.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use trtforge_calibrate::CalibrationTable;
use trtforge_onnx::Model;
use trtforge_quantize::{
    Arithmetic, Decision, HalfOptions, Macs, Pattern, Policy, Rewritten, Scales, Smoothed, Unit,
    UnitKind, quantize, smooth, to_half, units,
};

use crate::canonical;
use crate::error::PipelineError;
use crate::inputs::{InputError, ModelInputs};
use crate::profile::{Precision, Profile};
use crate::stages::auto;
use crate::store::{Artifact, Fingerprint, Store, StoreError, read_json, to_json, write_atomic};

/// One rewritten graph on disk.
#[derive(Debug, Clone)]
pub struct Graph {
    /// Of what precision.
    pub precision: Precision,
    /// The ONNX file.
    pub onnx: Artifact,
    /// How it came about.
    pub account: Account,
    /// Where that account is kept.
    pub account_path: PathBuf,
}

/// What the rewriter did.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Account {
    /// One entry per tensor considered.
    pub decisions: Vec<Decision>,
    /// What a person should look at.
    pub warnings: Vec<String>,
    /// How much of the arithmetic is INT8; of an INT8 graph.
    #[serde(default)]
    pub arithmetic: Option<Arithmetic>,
    /// The arithmetic of each product with weights and each attention; of an INT8 graph.
    #[serde(default)]
    pub work: Vec<Work>,
}

/// The arithmetic of one unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// The node's name in the ONNX file; an attention's is its softmax.
    pub node: String,
    /// What it is to its layer.
    pub kind: UnitKind,
    /// Its multiply-accumulates.
    pub macs: Macs,
}

impl Work {
    fn of(units: &[Unit]) -> Vec<Work> {
        let counted = units.iter().filter(|unit| unit.kind != UnitKind::ResidualAdd);
        counted
            .map(|unit| Work { node: unit.node.clone(), kind: unit.kind, macs: unit.macs })
            .collect()
    }
}

/// Makes (or finds) the graph of one precision.
pub fn graph(
    store: &Store,
    inputs: &ModelInputs,
    table: &CalibrationTable,
    profile: &Profile,
    precision: Precision,
) -> Result<Graph, PipelineError> {
    graph_without(store, inputs, table, profile, precision, &BTreeSet::new())
}

/// The same with some units left in FP16 that the profile would make INT8.
pub fn graph_without(
    store: &Store,
    inputs: &ModelInputs,
    table: &CalibrationTable,
    profile: &Profile,
    precision: Precision,
    returned: &BTreeSet<String>,
) -> Result<Graph, PipelineError> {
    let fingerprint = |stage| {
        Fingerprint::of(stage)
            .with("precision", precision.name())
            .with("model", &inputs.fingerprint)
            .with("canonical", canonical::version(inputs.canonical.is_some()))
            .with("table", table.to_json())
            .with("quantize", format!("{:?}", profile.quantize))
            .with("returned", format!("{returned:?}"))
    };
    let (onnx, account) = (fingerprint("graph"), fingerprint("account"));
    if let (Some(onnx), Some(kept)) = (store.find(&onnx), store.find(&account))
        && let Some(account) = read_json(&kept.path)
    {
        return Ok(Graph { precision, onnx, account, account_path: kept.path });
    }
    let (rewritten, arithmetic, work) = match precision {
        Precision::Fp16 => (rewrite(inputs, table, profile, precision)?, None, Vec::new()),
        Precision::Int8 => {
            let smoothed = smoothed(inputs, table, profile)?;
            let rewritten = quantized(&smoothed, table, profile, returned)?;
            let units = units_of(&smoothed.model, table, profile, returned)?;
            (rewritten, Some(Arithmetic::of(&units)), Work::of(&units))
        }
    };
    if precision == Precision::Int8 && rewritten.int8_weights() == 0 {
        return Err(InputError::NothingQuantized.into());
    }
    let Rewritten { model, decisions, warnings, .. } = rewritten;
    let made = Account { decisions, warnings, arithmetic, work };
    let onnx = store
        .obtain(&onnx, "onnx", |path| model.save(path).map(drop).map_err(PipelineError::from))?;
    let kept = store
        .obtain(&account, "json", |path| write_atomic(path, to_json(&made).as_bytes()))
        .map_err(|error: StoreError| PipelineError::from(error))?;
    Ok(Graph { precision, onnx, account: made, account_path: kept.path })
}

/// What a profile wants quantized.
pub fn policy(profile: &Profile) -> Policy {
    let section = &profile.quantize;
    Policy {
        level: section.level,
        skip: section.skip.iter().map(Pattern::new).collect(),
        only: section.only.iter().map(Pattern::new).collect(),
        returned: BTreeSet::new(),
    }
}

/// Rewrites the model in memory.
pub fn rewrite(
    inputs: &ModelInputs,
    table: &CalibrationTable,
    profile: &Profile,
    precision: Precision,
) -> Result<Rewritten, PipelineError> {
    Ok(match precision {
        Precision::Fp16 => to_half(&inputs.reopen()?, &table.ranges, &HalfOptions::default())?,
        Precision::Int8 => {
            quantized(&smoothed(inputs, table, profile)?, table, profile, &BTreeSet::new())?
        }
    })
}

/// The FP32 model that is quantized, smoothed as it was when the table was made: the scales fit that model and no other.
pub fn smoothed(
    inputs: &ModelInputs,
    table: &CalibrationTable,
    profile: &Profile,
) -> Result<Smoothed, PipelineError> {
    let model = inputs.reopen()?;
    let mut smoothed = smooth(&model, &table.channels, table.options.smooth, &policy(profile))?;
    if let Some(found) = auto::strength_reason(table) {
        smoothed.decisions.iter_mut().for_each(|decision| decision.reason += &found);
    }
    Ok(smoothed)
}

/// Its INT8 graph, `returned` left in FP16.
pub fn quantized(
    smoothed: &Smoothed,
    table: &CalibrationTable,
    profile: &Profile,
    returned: &BTreeSet<String>,
) -> Result<Rewritten, PipelineError> {
    let policy = Policy { returned: returned.clone(), ..policy(profile) };
    let mut rewritten = quantize(&smoothed.model, table, &policy)?;
    rewritten.decisions.splice(0..0, smoothed.decisions.iter().cloned());
    rewritten.warnings.splice(0..0, smoothed.warnings.iter().cloned());
    Ok(rewritten)
}

/// Its units, and which of them are INT8.
pub fn units_of(
    smoothed: &Model,
    table: &CalibrationTable,
    profile: &Profile,
    returned: &BTreeSet<String>,
) -> Result<Vec<Unit>, PipelineError> {
    let policy = Policy { returned: returned.clone(), ..policy(profile) };
    Ok(units(smoothed, &Scales::from(table), &policy)?)
}
