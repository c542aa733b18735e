//! `build`: a TensorRT engine from a rewritten graph.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use trtforge_tensorrt::{
    BuildOption, BuildOptions, BuildShare, Library, LogLine, OptimizationProfile, Sdk, Severity,
    build,
};

use crate::error::PipelineError;
use crate::profile::{EngineSection, Precision, TimingCache};
use crate::progress::Progress;
use crate::stages::rewrite::Graph;
use crate::store::{Artifact, Fingerprint, Store, StoreError, read_json, to_json, write_atomic};

/// One engine on disk.
#[derive(Debug, Clone)]
pub struct Engine {
    /// Of what precision.
    pub precision: Precision,
    /// The plan.
    pub plan: Artifact,
    /// How the build went.
    pub account: BuildAccount,
    /// Where that account is kept.
    pub log_path: PathBuf,
}

/// How a build went; kept beside the plan so that a cached plan still has its log.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct BuildAccount {
    /// Wall-clock time of the build, in milliseconds.
    pub build_ms: u64,
    /// Everything the library said.
    pub log: Vec<LogLine>,
}

impl BuildAccount {
    /// Lines of one severity.
    pub fn count(&self, severity: Severity) -> u64 {
        self.log.iter().filter(|line| line.severity == severity).count() as u64
    }
}

/// The builder's options for a profile on this SDK.
///
/// `timing_cache: shared` is a wish: an SDK without timing caches builds without one. A file is an order, which such an
/// SDK refuses by name.
pub fn build_options(section: &EngineSection, sdk: Sdk, output: &Path) -> BuildOptions {
    let has_cache = BuildOption::TimingCache.refused_by(sdk).is_none();
    BuildOptions {
        optimization_level: section.optimization_level,
        version_compatible: section.version_compatible,
        timing_cache: match &section.timing_cache {
            TimingCache::Off => None,
            TimingCache::Shared => has_cache.then(|| output.join("timing.cache")),
            TimingCache::File(path) => Some(path.clone()),
        },
        ..BuildOptions::default()
    }
}

/// Builds (or finds) the engine of one graph.
pub fn engine(
    store: &Store,
    library: &Library,
    graph: &Graph,
    profiles: &[OptimizationProfile],
    section: &EngineSection,
    progress: Progress,
) -> Result<Engine, PipelineError> {
    let precision = graph.precision;
    let fingerprint = |stage| {
        Fingerprint::of(stage)
            .with("onnx", graph.onnx.hash())
            .with("profiles", format!("{profiles:?}"))
            .with("engine", format!("{section:?}"))
            .with("library", format!("{:?} {}", library.sdk(), library.version()))
    };
    let (plan_key, log_key) = (fingerprint("plan"), fingerprint("buildlog"));
    if let (Some(plan), Some(log)) = (store.find(&plan_key), store.find(&log_key))
        && let Some(account) = read_json(&log.path)
    {
        return Ok(Engine { precision, plan, account, log_path: log.path });
    }
    let options = build_options(section, library.sdk(), store.output());
    let stage = progress.stage(&format!("Building {}", precision.name()), 100, "%");
    let share = Mutex::new(BuildShare::default());
    let start = Instant::now();
    let plan = build(library, &graph.onnx.path, profiles, &options, &|step| {
        // A poisoned lock means a panic elsewhere; the bar has nothing to add to it.
        if let Ok(mut share) = share.lock() {
            let done = share.update(&step);
            stage.set((100.0 * done) as u64, share.phase().unwrap_or_default());
        }
        ControlFlow::Continue(())
    })?;
    let account =
        BuildAccount { build_ms: start.elapsed().as_millis() as u64, log: plan.log.clone() };
    let artifact = store
        .obtain(&plan_key, "plan", |path| write_atomic(path, plan.bytes()))
        .map_err(|error: StoreError| PipelineError::from(error))?;
    let log = store
        .obtain(&log_key, "json", |path| write_atomic(path, to_json(&account).as_bytes()))
        .map_err(|error: StoreError| PipelineError::from(error))?;
    Ok(Engine { precision, plan: artifact, account, log_path: log.path })
}
