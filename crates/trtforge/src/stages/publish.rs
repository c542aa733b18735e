//! `publish`: accepted engines under their names, refused ones beside their verdict, nothing half-written.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path};

use trtforge_evaluate::EvaluatedOn;
use trtforge_report::{PrecisionRecord, RunRecord};
use trtforge_tensorrt::{DriverInfo, Library, OptimizationProfile, PlanManifest};

use crate::error::PipelineError;
use crate::profile::{EngineSection, Precision};
use crate::stages::engine::Engine;
use crate::stages::judge::Judged;
use crate::stages::manifest::manifest;
use crate::stages::predictions;
use crate::stages::rewrite::Graph;
use crate::store::{FILES, Store, StoreError, hash_file, write_atomic};

/// What publishing needs to know about the whole run.
pub struct Context<'a> {
    /// Where to.
    pub store: &'a Store,
    /// Stem of the published names.
    pub name: &'a str,
    /// The calibration table as it is written.
    pub table: &'a [u8],
    /// That built the engines.
    pub library: &'a Library,
    /// That the engines were built for.
    pub profiles: &'a [OptimizationProfile],
    /// How.
    pub engine: &'a EngineSection,
    /// The GPU's driver, where there is one.
    pub driver: Option<&'a DriverInfo>,
    /// What answered for the engines when they were judged.
    pub evaluated_on: EvaluatedOn,
}

/// The published name of a graph, relative to the output folder.
pub fn onnx_name(name: &str, precision: Precision) -> String {
    format!("onnx/{name}.{}.onnx", precision.name())
}

/// Publishes one graph: it is what the engine was built from, accepted or not.
pub fn graph(store: &Store, name: &str, graph: &Graph) -> Result<String, PipelineError> {
    let published = onnx_name(name, graph.precision);
    store.publish(&graph.onnx, &published)?;
    Ok(published)
}

/// Puts one engine where its verdict says, and takes an engine of an earlier run away from where it does not.
///
/// Returns its name relative to the output folder.
pub fn engine(
    context: &Context<'_>,
    graph: &Graph,
    engine: &Engine,
    judged: &Judged,
) -> Result<String, PipelineError> {
    let (to, from) =
        if judged.accepted { ("engines", "rejected") } else { ("rejected", "engines") };
    let file = format!("{}.{}.plan", context.name, engine.precision.name());
    // The old name goes first: at no moment is a refused engine under the accepted name.
    for suffix in ["", ".json"] {
        context.store.unpublish(&format!("{from}/{file}{suffix}"))?;
    }
    let published = format!("{to}/{file}");
    let manifest = manifest(context, (graph, engine), judged, &published)?;
    let beside = context.store.output().join(format!("{published}.json"));
    write_atomic(&beside, manifest.to_json().as_bytes())?;
    context.store.publish(&engine.plan, &published)?;
    Ok(published)
}

/// Every name that a run of this name may write, relative to the output folder.
pub fn targets(name: &str) -> Vec<String> {
    let mut targets: Vec<String> = FILES.map(str::to_owned).to_vec();
    targets.extend([predictions::ROWS.to_owned(), predictions::name("fp32")]);
    for precision in [Precision::Fp16, Precision::Int8] {
        targets.extend([onnx_name(name, precision), predictions::name(precision.name())]);
        for folder in ["engines", "rejected"] {
            let plan = format!("{folder}/{name}.{}.plan", precision.name());
            targets.extend([format!("{plan}.json"), plan]);
        }
    }
    targets
}

/// Takes away what the run before this one left in the folder and this one did not write again: engines of other
/// precisions, files under another name, logs.
///
/// A run that stopped early takes away engines alone, and only those whose graph or table is no longer the one in the
/// folder.
pub fn retire(store: &Store, now: &RunRecord) -> Result<(), StoreError> {
    let Ok(text) = fs::read_to_string(store.output().join("run.json")) else { return Ok(()) };
    let Ok(before) = RunRecord::from_json(&text) else { return Ok(()) };
    let kept: BTreeSet<String> = now.precisions.values().flat_map(files).collect();
    let stopped = now.stopped_after.is_some();
    for file in before.precisions.values().flat_map(files) {
        let plan = file.strip_suffix(".json").unwrap_or(&file);
        let is_plan = plan.strip_suffix(".plan").is_some();
        let still_fits = stopped && (!is_plan || fits(store, plan));
        // A record is a file like any other: nothing outside the folder is touched on its word.
        let inside = Path::new(&file).components().all(|part| matches!(part, Component::Normal(_)));
        if !kept.contains(&file) && !still_fits && inside {
            store.unpublish(&file)?;
        }
    }
    Ok(())
}

/// The files of one precision, as its record names them.
fn files(record: &PrecisionRecord) -> Vec<String> {
    let plan = record.plan.iter().flat_map(|plan| [plan.clone(), format!("{plan}.json")]);
    let log = record.engine_log.iter().filter_map(|log| log.file.clone());
    let predictions = record.predictions.iter().cloned();
    record.onnx.iter().cloned().chain(plan).chain(log).chain(predictions).collect()
}

/// Whether the graph and the table in the folder are still those that the plan's manifest states.
fn fits(store: &Store, plan: &str) -> bool {
    let manifest = PlanManifest::beside(&store.output().join(plan));
    let Ok(Some(PlanManifest { onnx, calibration: Some(table), .. })) = manifest else {
        return false;
    };
    let same = |name: &str, hash: &str| {
        hash_file(&store.output().join(name)).is_ok_and(|(found, _)| found == hash)
    };
    same(&onnx.name, &onnx.blake3) && same("calibration.json", &table.blake3)
}
