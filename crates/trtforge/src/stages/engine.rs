//! `build`: a TensorRT engine from a rewritten graph.

use std::io::{ErrorKind, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use trtforge_tensorrt::{
    self as tensorrt, BuildOption, BuildOptions, BuildShare, Built, CacheFound, Library, LogLine,
    OptimizationProfile, Progress as Step, Sdk, Severity, TensorRtError, TimingCacheUse, build_to,
};

use crate::error::PipelineError;
use crate::interrupt;
use crate::profile::{EngineSection, Precision, TimingCache};
use crate::progress::Progress;
use crate::stages::rewrite::Graph;
use crate::store::{
    Artifact, Fingerprint, Store, StoreError, hash_file, read_json, to_json, write_atomic,
};

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
/// `timing_cache: shared` is a wish: an SDK without timing caches builds without one, and [`unused_wish`] says so. A file
/// is an order, which such an SDK refuses by name.
pub fn build_options(section: &EngineSection, sdk: Sdk, output: &Path) -> BuildOptions {
    let has_cache = BuildOption::TimingCache.refused_by(sdk).is_none();
    let timing_cache = match &section.timing_cache {
        TimingCache::Off => None,
        TimingCache::Shared => has_cache.then(|| tensorrt::TimingCache {
            path: output.join("timing.cache"),
            pin: None,
            replace: true,
        }),
        TimingCache::File { path, pin } => {
            Some(tensorrt::TimingCache { path: path.clone(), pin: *pin, replace: false })
        }
    };
    BuildOptions { timing_cache, ..section.options.clone() }
}

/// What the profile wishes for and this SDK does not have, in words.
pub fn unused_wish(section: &EngineSection, sdk: Sdk) -> Option<String> {
    let refusal = BuildOption::TimingCache.refused_by(sdk)?;
    (section.timing_cache == TimingCache::Shared).then(|| {
        format!(
            "`engine.timing_cache: shared` shares nothing: {sdk} has no timing cache, since {}",
            refusal.reason
        )
    })
}

/// What a timing cache did, for people.
fn told(used: &TimingCacheUse) -> String {
    let found = match used.found {
        CacheFound::Reused if used.grew() => "was read and has grown",
        CacheFound::Reused => "was read and had everything",
        CacheFound::Absent => "is new",
        CacheFound::Foreign => {
            "was of another version of TensorRT or another GPU, and was replaced"
        }
        CacheFound::Broken => "was cut short or no timing cache, and was replaced",
    };
    format!("timing cache {found} ({} bytes, {})", used.bytes, used.after)
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
            .with("engine", format!("{section:?} {}", plugins(&section.options)))
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
    let advance = |step: Step<'_>| {
        // A poisoned lock means a panic elsewhere; the bar has nothing to add to it.
        if let Ok(mut share) = share.lock() {
            let done = share.update(&step);
            stage.set((100.0 * done) as u64, share.phase().unwrap_or_default());
        }
        if interrupt::asked().load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    let mut account = BuildAccount::default();
    let plan = store.obtain(&plan_key, "plan", |path| {
        let start = Instant::now();
        let built = written(path, |out| {
            build_to(library, &graph.onnx.path, profiles, &options, &advance, out)
        })?;
        if let Some(used) = &built.timing_cache {
            progress.say(&told(used));
        }
        account = BuildAccount { build_ms: start.elapsed().as_millis() as u64, log: built.log };
        // Before the plan is sealed: a plan without its log would be built again.
        store.obtain(&log_key, "json", |path| write_atomic(path, to_json(&account).as_bytes()))?;
        Ok::<(), PipelineError>(())
    })?;
    let log_path = store.find(&log_key).map(|log| log.path).unwrap_or_default();
    Ok(Engine { precision, plan, account, log_path })
}

/// Builds straight into the file at `path`, which is there whole or not at all.
fn written(
    path: &Path,
    build: impl FnOnce(&mut (dyn Write + Send)) -> Result<Built, TensorRtError>,
) -> Result<Built, PipelineError> {
    let (mut build, mut result) = (Some(build), None);
    let written = trtforge_files::write_with(path, &mut |out| {
        let Some(build) = build.take() else { return Ok(()) };
        let built = build(out);
        // The file is not kept; the error itself comes out below.
        let kept = built.as_ref().map(drop).map_err(|_| ErrorKind::Other.into());
        result = Some(built);
        kept
    });
    match (result, written) {
        (Some(Err(TensorRtError::Cancelled { model, .. })), _) => Err(PipelineError::Interrupted {
            during: format!("the build of the plan of `{model}`"),
        }),
        (Some(Err(error)), _) => Err(error.into()),
        (_, Err(error)) => Err(StoreError::io("write", path)(error).into()),
        (Some(Ok(built)), Ok(_)) => Ok(built),
        (None, Ok(_)) => Err(PipelineError::Loop { what: "no plan was built".to_owned() }),
    }
}

/// The content of the plugin libraries, which the plan depends on as on the graph.
fn plugins(options: &BuildOptions) -> String {
    let hash =
        |path: &PathBuf| hash_file(path).map_or_else(|error| error.to_string(), |(hash, _)| hash);
    options.plugins.iter().map(hash).collect::<Vec<_>>().join(" ")
}
