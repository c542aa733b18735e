//! `to_half` and `quantize`: the graphs that engines are built from, with a decision for every tensor.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use trtforge_calibrate::CalibrationTable;
use trtforge_quantize::{
    Decision, HalfOptions, Pattern, Policy, Rewritten, quantize, smooth, to_half,
};

use crate::error::PipelineError;
use crate::inputs::{InputError, ModelInputs};
use crate::profile::{Precision, Profile};
use crate::store::{Artifact, Fingerprint, Store, StoreError, to_json, write_atomic};

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
}

/// Makes (or finds) the graph of one precision.
pub fn graph(
    store: &Store,
    inputs: &ModelInputs,
    table: &CalibrationTable,
    profile: &Profile,
    precision: Precision,
) -> Result<Graph, PipelineError> {
    let fingerprint = |stage| {
        Fingerprint::of(stage)
            .with("precision", precision.name())
            .with("model", &inputs.fingerprint)
            .with("table", table.to_json())
            .with("quantize", format!("{:?}", profile.quantize))
    };
    let (onnx, account) = (fingerprint("graph"), fingerprint("account"));
    if let (Some(onnx), Some(kept)) = (store.find(&onnx), store.find(&account))
        && let Some(account) = read_account(&kept.path)
    {
        return Ok(Graph { precision, onnx, account, account_path: kept.path });
    }
    let rewritten = rewrite(inputs, table, profile, precision)?;
    if precision == Precision::Int8 && rewritten.int8_weights() == 0 {
        return Err(InputError::NothingQuantized.into());
    }
    let Rewritten { model, decisions, warnings, .. } = rewritten;
    let made = Account { decisions, warnings };
    let onnx = store
        .obtain(&onnx, "onnx", |path| model.save(path).map(drop).map_err(PipelineError::from))?;
    let kept = store
        .obtain(&account, "json", |path| write_atomic(path, to_json(&made).as_bytes()))
        .map_err(|error: StoreError| PipelineError::from(error))?;
    Ok(Graph { precision, onnx, account: made, account_path: kept.path })
}

fn read_account(path: &Path) -> Option<Account> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
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
    let model = inputs.reopen()?;
    Ok(match precision {
        Precision::Fp16 => to_half(&model, &table.ranges, &HalfOptions::default())?,
        Precision::Int8 => {
            let policy = policy(profile);
            // The table says how the model was smoothed when it was made; the scales fit that model and no other.
            let smoothed = smooth(&model, &table.channels, table.options.smooth, &policy)?;
            let mut rewritten = quantize(&smoothed.model, table, &policy)?;
            rewritten.decisions.splice(0..0, smoothed.decisions);
            rewritten.warnings.splice(0..0, smoothed.warnings);
            rewritten
        }
    })
}
