//! What the user wants quantized, and which MatMuls that leaves.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::QuantizeError;
use crate::analysis::Analysis;
use crate::gemm::WeightedGemm;
use crate::pattern::{Pattern, require_match};
use crate::site::Site;
use crate::smooth::original_name;

/// How far Q/DQ pairs reach; each level adds to the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Inputs and weights of every MatMul and Gemm with a constant weight.
    #[default]
    Gemm,
    /// Also Q, Kᵀ, V and the softmax output of every attention, so that a fused kernel can run it in INT8.
    Attention,
    /// Also both inputs of each residual Add, so that it fuses with the product before it.
    Residual,
}

impl Level {
    /// Every level, the least first.
    pub const ALL: [Self; 3] = [Self::Gemm, Self::Attention, Self::Residual];

    /// Its name in a profile.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gemm => "gemm",
            Self::Attention => "attention",
            Self::Residual => "residual",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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
        let named = Self::ALL.into_iter().find(|level| level.name() == text);
        named.ok_or_else(|| UnknownLevel { given: text.to_owned() })
    }
}

/// What to quantize.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Policy {
    /// How far Q/DQ pairs reach.
    pub level: Level,
    /// What to leave in FP16: MatMuls and Gemms by node, output, weight or activation name; attentions by any of their
    /// nodes or tensors; residual Adds by node, output or input name.
    pub skip: Vec<Pattern>,
    /// If not empty, the only ones to quantize, by the same names.
    pub only: Vec<Pattern>,
    /// What a search gave back to FP16, by [`Unit::id`](crate::Unit::id): exact, where patterns could name more.
    pub returned: BTreeSet<String>,
}

/// Why a unit of [`Policy::returned`] is not INT8.
const RETURNED: &str = "returned to FP16, since INT8 as a whole lost too much accuracy";

/// The candidates a policy keeps, and the reason for each it drops; positions are those in `gemms` and in `sites`.
pub(crate) struct Selection {
    pub chosen: Vec<usize>,
    pub dropped: Vec<(usize, String)>,
    pub chosen_sites: Vec<usize>,
    pub dropped_sites: Vec<(usize, String)>,
    pub warnings: Vec<String>,
}

/// - `sites`: those of the policy's level.
pub(crate) fn select(
    policy: &Policy,
    analysis: &Analysis,
    gemms: &[WeightedGemm],
    sites: &[Site],
) -> Result<Selection, QuantizeError> {
    let gemm_names: Vec<Vec<&str>> = gemms.iter().map(|gemm| names(analysis, gemm)).collect();
    let site_names: Vec<BTreeSet<String>> =
        sites.iter().map(|site| names_of_site(analysis, site)).collect();
    let of_gemms = gemm_names.iter().flatten().map(|name| (*name).to_owned());
    let quantizable = of_gemms.chain(site_names.iter().flatten().cloned()).collect();
    let mut warnings = idle_patterns(policy, analysis, &quantizable)?;
    let kept = |barred: Option<&String>, names: &[&str]| {
        barred.cloned().or_else(|| dropped_by(policy, names))
    };
    let returned = |id: &String| policy.returned.contains(id).then(|| RETURNED.to_owned());
    let verdicts = gemms
        .iter()
        .zip(&gemm_names)
        .map(|(gemm, names)| kept(gemm.barred.as_ref(), names).or_else(|| returned(&gemm.output)));
    let (chosen, dropped) = divided(verdicts);
    let nodes: BTreeSet<usize> = chosen.iter().map(|&position| gemms[position].node).collect();
    let verdicts = sites.iter().zip(&site_names).map(|(site, names)| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let kept = kept(site.barred.as_ref(), &names).or_else(|| returned(&site.tensor));
        kept.or_else(|| idle(analysis, site, &nodes))
    });
    let (chosen_sites, dropped_sites) = divided(verdicts);
    for level in [Level::Attention, Level::Residual] {
        if policy.level >= level && !sites.iter().any(|site| site.level == level) {
            warnings.push(format!("level `{level}` adds nothing: {}", nothing_found(level)));
        }
    }
    if chosen.is_empty() && chosen_sites.is_empty() {
        warnings.push("nothing is quantized: the result is the FP16 model".to_owned());
    }
    Ok(Selection { chosen, dropped, chosen_sites, dropped_sites, warnings })
}

fn nothing_found(level: Level) -> &'static str {
    match level {
        Level::Residual => "no Add of a projection to what it was computed from was found",
        _ => "no Softmax between two products of activations was found",
    }
}

/// Positions without a reason against them, and the others with theirs.
fn divided(verdicts: impl Iterator<Item = Option<String>>) -> (Vec<usize>, Vec<(usize, String)>) {
    let (mut chosen, mut dropped) = (vec![], vec![]);
    for (position, verdict) in verdicts.enumerate() {
        match verdict {
            None => chosen.push(position),
            Some(reason) => dropped.push((position, reason)),
        }
    }
    (chosen, dropped)
}

/// Pairs around an Add gain nothing when the product before it is FP16.
fn idle(analysis: &Analysis, site: &Site, quantized: &BTreeSet<usize>) -> Option<String> {
    let product = site.serves.filter(|product| !quantized.contains(product))?;
    Some(format!("its projection `{}` is not quantized", analysis.label(product)))
}

/// Fails on a pattern that names nothing; warns of one that names nothing quantizable.
fn idle_patterns(
    policy: &Policy,
    analysis: &Analysis,
    quantizable: &BTreeSet<String>,
) -> Result<Vec<String>, QuantizeError> {
    let mut all = every_name(analysis);
    all.extend(analysis.origins.gone.keys().cloned());
    let mut warnings = vec![];
    for (option, patterns) in [("skip", &policy.skip), ("only", &policy.only)] {
        require_match(option, patterns, &all, quantizable)?;
        let idle = patterns.iter().filter(|p| !quantizable.iter().any(|name| p.matches(name)));
        warnings.extend(idle.map(|pattern| {
            let text = pattern.as_str();
            format!(
                "`quantize.{option}` pattern `{text}` matches nothing that level `{}` quantizes{}",
                policy.level,
                rewritten_clause(analysis, pattern)
            )
        }));
    }
    Ok(warnings)
}

/// What became of the first name that a pattern fits, where the canonical form has it no more.
fn rewritten_clause(analysis: &Analysis, pattern: &Pattern) -> String {
    let mut fitting = analysis.origins.gone.iter().filter(|(name, _)| pattern.matches(name));
    let Some((name, what)) = fitting.next() else { return String::new() };
    let more = match fitting.count() {
        0 => String::new(),
        count => format!(", and {count} more such names"),
    };
    format!(
        ": `{name}` {what}{more} (name that tensor or a node that reads it, or set `model.canonical: false`)"
    )
}

fn dropped_by(policy: &Policy, names: &[&str]) -> Option<String> {
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
    let passed: Vec<&str> =
        names.iter().flat_map(|name| analysis.origins.of_tensor(name)).collect();
    names.extend(passed);
    names
}

fn names_of_site(analysis: &Analysis, site: &Site) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = site.reads.iter().map(|read| read.tensor.clone()).collect();
    for &node in &site.nodes {
        let proto = &analysis.nodes()[node];
        names.extend([proto.name().to_owned(), analysis.label(node)]);
        names.extend(proto.output.iter().cloned());
    }
    names.remove("");
    let before: Vec<String> =
        names.iter().filter_map(|name| original_name(name)).map(str::to_owned).collect();
    names.extend(before);
    with_origins(analysis, names)
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
    with_origins(analysis, names)
}

/// Adds the names that tensors were passed on under before the canonical form.
fn with_origins(analysis: &Analysis, mut names: BTreeSet<String>) -> BTreeSet<String> {
    let passed = analysis.origins.passed.iter().filter(|(_, now)| names.contains(*now));
    let passed: Vec<String> = passed.map(|(name, _)| name.clone()).collect();
    names.extend(passed);
    names
}
