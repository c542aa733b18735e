//! What the user wants quantized, and which MatMuls that leaves.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::QuantizeError;
use crate::analysis::Analysis;
use crate::gemm::WeightedGemm;
use crate::pattern::{Pattern, require_match};
use crate::smooth::original_name;

/// How far Q/DQ pairs reach; each level adds to the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Inputs and weights of every MatMul and Gemm with a constant weight.
    #[default]
    Gemm,
    /// Also Q, K, V and the softmax output. Not available yet.
    Attention,
    /// Also both inputs of each residual Add. Not available yet.
    Residual,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gemm => "gemm",
            Self::Attention => "attention",
            Self::Residual => "residual",
        })
    }
}

/// A level name that does not exist.
#[derive(Debug, thiserror::Error, miette::Diagnostic, PartialEq, Eq)]
#[error("`{given}` is no level")]
#[diagnostic(code(quantize::unknown_level), help("levels are `gemm`, `attention`, `residual`"))]
pub struct UnknownLevel {
    /// What was given.
    pub given: String,
}

impl FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        match text {
            "gemm" => Ok(Self::Gemm),
            "attention" => Ok(Self::Attention),
            "residual" => Ok(Self::Residual),
            _ => Err(UnknownLevel { given: text.to_owned() }),
        }
    }
}

/// What to quantize.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Policy {
    /// How far Q/DQ pairs reach.
    pub level: Level,
    /// MatMuls and Gemms to leave in FP16, by node, output, weight or activation name.
    pub skip: Vec<Pattern>,
    /// If not empty, the only ones to quantize, by the same names.
    pub only: Vec<Pattern>,
}

/// The candidates a policy keeps, and the reason for each it drops; positions are those in `gemms`.
pub(crate) struct Selection {
    pub chosen: Vec<usize>,
    pub dropped: Vec<(usize, String)>,
    pub warnings: Vec<String>,
}

pub(crate) fn select(
    policy: &Policy,
    analysis: &Analysis,
    gemms: &[WeightedGemm],
) -> Result<Selection, QuantizeError> {
    if policy.level != Level::Gemm {
        return Err(QuantizeError::LevelNotAvailable { level: policy.level });
    }
    let all = every_name(analysis);
    let quantizable: BTreeSet<String> =
        gemms.iter().flat_map(|gemm| names(analysis, gemm)).map(str::to_owned).collect();
    let mut warnings = vec![];
    for (option, patterns) in [("skip", &policy.skip), ("only", &policy.only)] {
        require_match(option, patterns, &all, &quantizable)?;
        let idle = patterns.iter().filter(|p| !quantizable.iter().any(|name| p.matches(name)));
        warnings.extend(idle.map(|pattern| {
            let pattern = pattern.as_str();
            format!(
                "`quantize.{option}` pattern `{pattern}` matches nothing that level `{}` quantizes",
                policy.level
            )
        }));
    }
    let (mut chosen, mut dropped) = (vec![], vec![]);
    for (position, gemm) in gemms.iter().enumerate() {
        match gemm.barred.clone().or_else(|| dropped_by(policy, analysis, gemm)) {
            None => chosen.push(position),
            Some(reason) => dropped.push((position, reason)),
        }
    }
    if chosen.is_empty() {
        warnings.push("nothing is quantized: the result is the FP16 model".to_owned());
    }
    Ok(Selection { chosen, dropped, warnings })
}

fn dropped_by(policy: &Policy, analysis: &Analysis, gemm: &WeightedGemm) -> Option<String> {
    let names = names(analysis, gemm);
    let fits = |pattern: &&Pattern| names.iter().any(|name| pattern.matches(name));
    if let Some(pattern) = policy.skip.iter().find(fits) {
        return Some(format!("`quantize.skip` pattern `{}`", pattern.as_str()));
    }
    let outside = !policy.only.is_empty() && !policy.only.iter().any(|p| fits(&p));
    outside.then(|| "no `quantize.only` pattern names it".to_owned())
}

fn names<'a>(analysis: &'a Analysis, gemm: &'a WeightedGemm) -> Vec<&'a str> {
    let node = analysis.nodes()[gemm.node].name();
    let mut names =
        vec![node, &gemm.label, &gemm.output, &gemm.weight, &gemm.activation, &gemm.direct_input];
    names.retain(|name| !name.is_empty());
    let before: Vec<&str> = names.iter().filter_map(|name| original_name(name)).collect();
    names.extend(before);
    names
}

fn every_name(analysis: &Analysis) -> BTreeSet<String> {
    let nodes = analysis.nodes().iter();
    let mut names: BTreeSet<String> = nodes
        .enumerate()
        .flat_map(|(index, node)| {
            let tensors = node.input.iter().chain(&node.output).cloned();
            tensors.chain([node.name().to_owned(), analysis.label(index)])
        })
        .collect();
    names.remove("");
    let before: Vec<String> =
        names.iter().filter_map(|name| original_name(name)).map(str::to_owned).collect();
    names.extend(before);
    names
}
