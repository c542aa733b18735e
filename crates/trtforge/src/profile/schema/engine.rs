//! `engine:` of the schema, from the same tables as its reader.

use serde_json::{Value as Json, json};
use trtforge_tensorrt::{
    Backend, ComputeCapability, Flag, HardwareCompatibility, Number, PreviewFeature,
    ProfilingVerbosity, Refit, RuntimePlatform, Size, TacticSource, Tiling,
};

use super::parts::{boolean, either, integer, object, path, text, text_list, with_default, words};

/// Names alone.
fn names<T>(names: &[(&'static str, T)]) -> Vec<&'static str> {
    names.iter().map(|(name, _)| *name).collect()
}

pub fn engine() -> Json {
    let mut keys = vec![
        (
            "backend",
            with_default(
                words(
                    "tensorrt needs a GPU, tensorrt-rtx builds anywhere, none stops at the ONNX graphs.",
                    &names(&Backend::NAMES),
                ),
                "auto",
            ),
        ),
        ("timing_cache", with_default(timing_cache(), "off")),
    ];
    keys.extend(Flag::NAMES.iter().map(|(key, flag)| (*key, boolean(flag.about()))));
    keys.extend(Number::NAMES.iter().map(|(key, number)| {
        let (least, most) = number.range().into_inner();
        (*key, integer(number.about(), least.into()..=most.into()))
    }));
    keys.extend(Size::NAMES.iter().map(|(key, size)| (*key, bytes(size.about()))));
    keys.extend(choices());
    keys.extend(lists());
    object(
        "How engines are built. A key that the SDK at hand does not have is refused by name.",
        &[],
        &keys,
    )
}

fn timing_cache() -> Json {
    let pinned = object(
        "A file, read only, that must have a hash.",
        &["path"],
        &[
            ("path", path("The file.")),
            (
                "hash",
                json!({
                    "description": "blake3: and 64 hexadecimal digits, as manifests state it.",
                    "type": "string",
                    "pattern": "^blake3:[0-9a-fA-F]{64}$",
                }),
            ),
        ],
    );
    either(
        "Where tactic timings are kept.",
        vec![text("off, shared (one in the output folder), or a file."), pinned],
    )
}

/// A number of bytes.
fn bytes(about: &str) -> Json {
    either(
        &format!("{about} Bytes, or a number with KB, MB, GB, KiB, MiB or GiB."),
        vec![
            json!({ "type": "integer", "minimum": 1 }),
            json!({
                "type": "string",
                "pattern": r"^\s*(?=[0-9.]*[1-9])[0-9]+(\.[0-9]*)?\s*(B|KB|MB|GB|KiB|MiB|GiB)?\s*$",
            }),
        ],
    )
}

fn choices() -> Vec<(&'static str, Json)> {
    vec![
        (
            "profiling_verbosity",
            with_default(
                words(
                    "How much a plan says of its layers; the proof of precision reads the details.",
                    &names(ProfilingVerbosity::NAMES),
                ),
                "detailed",
            ),
        ),
        (
            "hardware_compatible",
            words(
                "On which other GPUs a TensorRT plan runs.",
                &names(HardwareCompatibility::NAMES),
            ),
        ),
        (
            "refit",
            words(
                "Which weights of a plan can be replaced later: any, by identical ones, or those of refit_weights.",
                &names(Refit::NAMES),
            ),
        ),
        ("tiling_optimization_level", words("How hard tiling is tried.", &names(Tiling::NAMES))),
        ("runtime_platform", words("What a plan runs on.", &names(RuntimePlatform::NAMES))),
    ]
}

/// A list of these words.
fn several(about: &str, words: &[Json]) -> Json {
    json!({ "description": about, "type": "array", "items": { "enum": words } })
}

fn lists() -> Vec<(&'static str, Json)> {
    let texts = |words: Vec<&str>| words.into_iter().map(Json::from).collect::<Vec<_>>();
    let mut capabilities = texts(names(ComputeCapability::NAMES));
    let numbers: Vec<Json> = names(ComputeCapability::NAMES)
        .iter()
        .filter_map(|name| Some(json!(name.parse::<f64>().ok()?)))
        .collect();
    capabilities.extend(numbers);
    vec![
        (
            "compute_capabilities",
            several(
                "The compute capabilities a TensorRT-RTX plan is made for; every one from Ampere on when absent.",
                &capabilities,
            ),
        ),
        (
            "tactic_sources",
            several(
                "Where tactics may come from; an empty list turns all off.",
                &texts(names(TacticSource::NAMES)),
            ),
        ),
        (
            "preview_features",
            several(
                "What the library can do and does not do unasked.",
                &texts(names(PreviewFeature::NAMES)),
            ),
        ),
        ("refit_weights", text_list("Of refit: individual, the initializers, by name.")),
        ("plugins", text_list("Libraries of plugins.")),
        ("build_route", text("Options of the library's compiler, in its own words.")),
    ]
}
