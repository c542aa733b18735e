//! `engine:`, how engines are built.
//!
//! The keys are the options of `trtforge-tensorrt`, read from its own tables: a new option there is a key here. Which SDK
//! takes which is not checked here, where the SDK is not known yet, but before any work is done.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use trtforge_tensorrt::{
    Backend, BuildOption, BuildOptions, ComputeCapability, Flag, HardwareCompatibility, Number,
    Pin, PreviewFeature, ProfilingVerbosity, Refit, RuntimePlatform, Size, TacticSource, Tiling,
};

use super::decode::{Mistakes, Section, scalar_text};
use super::tree::Value;

/// `engine:`
#[derive(Debug, Clone)]
pub struct EngineSection {
    /// The SDK.
    pub backend: Backend,
    /// What the builder is told, but for the timing cache.
    pub options: BuildOptions,
    /// Where tactic timings are kept.
    pub timing_cache: TimingCache,
}

/// `engine.timing_cache`
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TimingCache {
    /// None is read or written.
    Off,
    /// One in the output folder, used by all engines of this profile.
    Shared,
    /// This file.
    File {
        /// Where it lies.
        path: PathBuf,
        /// The hash it must have.
        pin: Option<Pin>,
    },
}

impl TimingCache {
    /// The file, where it is one that is only read.
    pub fn pinned(&self) -> Option<PathBuf> {
        match self {
            TimingCache::File { path, pin: Some(_) } => Some(path.clone()),
            _ => None,
        }
    }
}

/// The keys of `engine:`.
pub fn keys() -> Vec<&'static str> {
    std::iter::once("backend")
        .chain(BuildOption::all().into_iter().map(BuildOption::name))
        .collect()
}

/// Reads the section.
pub fn read(engine: &Section<'_>, folder: &Path, mistakes: &Mistakes<'_>) -> Option<EngineSection> {
    let backend = choice(engine, "backend", &Backend::NAMES);
    let flags = flags(engine);
    let numbers = numbers(engine);
    let sizes = sizes(engine);
    let words = words(engine);
    let lists = lists(engine, folder);
    let timing_cache = timing_cache(engine, folder, mistakes);
    let options = BuildOptions { flags: flags?, numbers: numbers?, sizes: sizes?, ..lists? };
    Some(EngineSection {
        backend: backend?.unwrap_or(Backend::Auto),
        options: words?(options),
        timing_cache: timing_cache?,
    })
}

/// A word, if it is there; the outer none is a reported mistake.
#[expect(
    clippy::option_option,
    reason = "as everywhere here, the outer none is a reported mistake"
)]
fn choice<T: Copy>(engine: &Section<'_>, key: &str, names: &[(&str, T)]) -> Option<Option<T>> {
    match engine.get(key) {
        Some(_) => engine.choice(key, names).map(Some),
        None => Some(None),
    }
}

fn flags(engine: &Section<'_>) -> Option<BTreeMap<Flag, bool>> {
    let there = Flag::NAMES.iter().filter(|(key, _)| engine.get(key).is_some());
    there.map(|(key, flag)| Some((*flag, engine.boolean(key)?))).collect()
}

fn numbers(engine: &Section<'_>) -> Option<BTreeMap<Number, u32>> {
    let there = Number::NAMES.iter().filter(|(key, _)| engine.get(key).is_some());
    there
        .map(|(key, number)| {
            let (least, most) = number.range().into_inner();
            Some((*number, engine.integer(key, least.into()..=most.into())? as u32))
        })
        .collect()
}

fn sizes(engine: &Section<'_>) -> Option<BTreeMap<Size, u64>> {
    let there = Size::NAMES.iter().filter(|(key, _)| engine.get(key).is_some());
    there
        .map(|(key, size)| {
            let text = engine.get(key).and_then(|node| match &node.value {
                Value::Integer(bytes) => Some(bytes.to_string()),
                Value::Text(text) => Some(text.clone()),
                _ => None,
            });
            let bytes = text.as_deref().and_then(bytes);
            if bytes.is_none() {
                engine.refuse(
                    key,
                    "a number of bytes such as `512MiB` or `2GB`",
                    "write a whole number of bytes, or a number and KB, MB, GB (thousands), KiB, MiB or GiB (1024)",
                );
            }
            Some((*size, bytes?))
        })
        .collect()
}

/// `512MiB`, `1.5 GB`, `4096`; more than nothing.
fn bytes(text: &str) -> Option<u64> {
    const UNITS: [(&str, f64); 8] = [
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("KB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("B", 1.0),
        ("", 1.0),
    ];
    let text = text.trim();
    let (unit, factor) = UNITS.iter().find(|(unit, _)| text.ends_with(unit))?;
    let number = text[..text.len() - unit.len()].trim_end();
    let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value = number
        .parse::<f64>()
        .ok()
        .filter(|_| plain && number.starts_with(|c: char| c.is_ascii_digit()))?;
    let bytes = (value * factor).round();
    // An f64 counts bytes exactly up to 8 PiB.
    (1.0..=9e15).contains(&bytes).then_some(bytes as u64)
}

/// The options that are one word each, as a change of the others.
fn words(engine: &Section<'_>) -> Option<impl FnOnce(BuildOptions) -> BuildOptions + use<>> {
    let verbosity = choice(engine, "profiling_verbosity", ProfilingVerbosity::NAMES);
    let hardware = choice(engine, "hardware_compatible", HardwareCompatibility::NAMES);
    let refit = choice(engine, "refit", Refit::NAMES);
    let tiling = choice(engine, "tiling_optimization_level", Tiling::NAMES);
    let platform = choice(engine, "runtime_platform", RuntimePlatform::NAMES);
    let (verbosity, hardware, refit, tiling, platform) =
        (verbosity?, hardware?, refit?, tiling?, platform?);
    Some(move |options| BuildOptions {
        profiling_verbosity: verbosity.unwrap_or(ProfilingVerbosity::Detailed),
        hardware_compatible: hardware,
        refit,
        tiling_optimization_level: tiling,
        runtime_platform: platform,
        ..options
    })
}

/// The options that are lists and texts.
fn lists(engine: &Section<'_>, folder: &Path) -> Option<BuildOptions> {
    let capabilities = several(engine, "compute_capabilities", ComputeCapability::NAMES);
    let sources = several(engine, "tactic_sources", TacticSource::NAMES);
    let features = several(engine, "preview_features", PreviewFeature::NAMES);
    let weights = texts(engine, "refit_weights");
    let plugins = texts(engine, "plugins");
    let route = match engine.get("build_route") {
        Some(_) => engine.text("build_route").map(Some),
        None => Some(None),
    };
    Some(BuildOptions {
        compute_capabilities: capabilities?.unwrap_or_default(),
        tactic_sources: sources?,
        preview_features: features?.unwrap_or_default(),
        refit_weights: weights?,
        plugins: plugins?.iter().map(|plugin| folder.join(plugin)).collect(),
        build_route: route?,
        ..BuildOptions::default()
    })
}

fn texts(engine: &Section<'_>, key: &str) -> Option<Vec<String>> {
    match engine.get(key) {
        Some(_) => engine.texts(key),
        None => Some(Vec::new()),
    }
}

/// A list of words.
#[expect(
    clippy::option_option,
    reason = "as everywhere here, the outer none is a reported mistake"
)]
fn several<T: Copy + Ord>(
    engine: &Section<'_>,
    key: &str,
    names: &[(&str, T)],
) -> Option<Option<BTreeSet<T>>> {
    let Some(node) = engine.get(key) else { return Some(None) };
    // 8.0 without quotes is a number, and reads as 8.
    let named = |text: &str| {
        names
            .iter()
            .find(|(name, _)| *name == text || name.strip_suffix(".0") == Some(text))
            .map(|(_, value)| *value)
    };
    let found = match &node.value {
        Value::List(items) => items.iter().map(|item| named(&scalar_text(&item.value)?)).collect(),
        _ => None,
    };
    if found.is_none() {
        let all: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        engine.refuse(
            key,
            "a list of known words",
            &format!("write a list of any of {}", all.join(", ")),
        );
    }
    found.map(Some)
}

fn timing_cache(
    engine: &Section<'_>,
    folder: &Path,
    mistakes: &Mistakes<'_>,
) -> Option<TimingCache> {
    let Some(node) = engine.get("timing_cache") else { return Some(TimingCache::Off) };
    if !matches!(node.value, Value::Map(_)) {
        return Some(match engine.text("timing_cache")?.as_str() {
            "off" => TimingCache::Off,
            "shared" => TimingCache::Shared,
            path => TimingCache::File { path: folder.join(path), pin: None },
        });
    }
    let section = Section::open(node, "engine.timing_cache", &["path", "hash"], mistakes)?;
    let path = section.require_text("path", "the file of the cache");
    let pin = match section.get("hash") {
        None => Some(None),
        Some(_) => section.text("hash").and_then(|text| match text.parse::<Pin>() {
            Ok(pin) => Some(Some(pin)),
            Err(expected) => {
                section.refuse("hash", "`blake3:` and 64 hexadecimal digits", &expected);
                None
            }
        }),
    };
    Some(TimingCache::File { path: folder.join(path?), pin: pin? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, expected) in [
            ("4096", Some(4096)),
            ("1B", Some(1)),
            ("512MiB", Some(536_870_912)),
            ("1.5 GB", Some(1_500_000_000)),
            ("2KB", Some(2000)),
            ("2GiB", Some(2_147_483_648)),
            ("0", None),
            ("0MiB", None),
            ("-1", None),
            ("1e9", None),
            ("512 M", None),
            ("GiB", None),
            (".5GiB", None),
            ("1.2.3KB", None),
            ("", None),
            ("99999999GiB", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }
}
