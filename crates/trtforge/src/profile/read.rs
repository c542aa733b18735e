//! From the tree to a checked [`Profile`]: one function per section, all mistakes collected.

use std::path::Path;

use trtforge_calibrate::Method;
use trtforge_quantize::Level;

use super::data::read_data;
use super::decode::{Mistakes, Section, scalar_text};
use super::engine::{self, EngineSection};
use super::error::ProfileError;
use super::task::{check_metrics, read_task};
use super::tree::{self, Node, Value};
use super::{
    CalibrateSection, CalibrationDevice, EvaluateSection, ExplicitShape, GateSection, LengthSource,
    ModelSection, Padding, Precision, Profile, QuantizeSection, Shapes, Smooth,
};
use super::{benchmark, gate};

const SECTIONS: &[&str] = &[
    "version",
    "model",
    "task",
    "data",
    "max_length",
    "precisions",
    "shapes",
    "calibrate",
    "quantize",
    "evaluate",
    "gate",
    "engine",
    "benchmark",
    "output",
];

/// A profile is a page or two; a megabyte is a mistake (a data file given in its place).
const LARGEST_PROFILE_BYTES: u64 = 1 << 20;

impl Profile {
    /// Reads and checks the profile at `path`, with `--set` assignments applied.
    ///
    /// Every mistake is reported, not only the first. Files it names are not opened here.
    pub fn read(path: &Path, assignments: &[String]) -> Result<Profile, ProfileError> {
        let source = path
            .file_name()
            .map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
        let unreadable =
            |reason: String| ProfileError::Unreadable { path: path.display().to_string(), reason };
        let metadata = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
        if metadata.is_dir() {
            return Err(unreadable("it is a folder".into()));
        }
        if metadata.len() > LARGEST_PROFILE_BYTES {
            return Err(unreadable(format!("{} bytes are too many for a profile", metadata.len())));
        }
        let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        Self::from_text(&text, &source, &folder, assignments)
    }

    /// The same of a text that is already here.
    pub(super) fn from_text(
        text: &str,
        source: &str,
        folder: &Path,
        assignments: &[String],
    ) -> Result<Profile, ProfileError> {
        let mut root = tree::parse(text, source)?;
        for assignment in assignments {
            tree::set(&mut root, assignment)?;
        }
        let mistakes = Mistakes::new(source);
        let profile = read_root(&root, folder, &mistakes);
        mistakes.finish(profile)
    }
}

fn read_root(root: &Node, folder: &Path, mistakes: &Mistakes<'_>) -> Option<Profile> {
    let top = Section::open(root, "", SECTIONS, mistakes)?;
    if top.require("version", "the first line is `version: 1`").is_some() {
        top.integer("version", 1..=1);
    }
    let model = read_model(&top, folder, mistakes);
    top.require("max_length", "for example `max_length: 128` (tokens, special tokens included)");
    let max_length = top.integer("max_length", 2..=65_536);
    let task = read_task(&top, max_length.map(|length| length as usize), mistakes);
    let data = read_data(&top, task.as_ref(), folder, mistakes);
    let precisions = read_precisions(&top);
    let shapes = read_shapes(&top, mistakes);
    let calibrate = read_calibrate(&top, folder, mistakes);
    let quantize = read_quantize(&top, mistakes);
    let evaluate = read_evaluate(&top, mistakes);
    let gate = gate::read(&top, folder, mistakes);
    if let (Some(gate), Some(task)) = (&gate, &task) {
        check_metrics(&top, gate, task, mistakes);
    }
    let engine = read_engine(&top, folder, mistakes);
    let benchmark = benchmark::read(&top, mistakes);
    if let (Some(gate), Some(precisions)) = (&gate, &precisions) {
        check_speedup(&top, gate, precisions, mistakes);
    }
    let output = top.require_text("output", "for example `output: out/sentiment`");
    let (calibration, evaluation) = data?;
    Some(Profile {
        model: model?,
        task: task?,
        calibration,
        evaluation,
        max_length: max_length? as usize,
        precisions: precisions?,
        shapes: shapes?,
        calibrate: calibrate?,
        quantize: quantize?,
        evaluate: evaluate?,
        gate: gate?,
        engine: engine?,
        benchmark: benchmark?,
        output: folder.join(output?),
        as_written: root.value.to_json(),
    })
}

/// The speed-up is INT8's over FP16, so that both must be built.
fn check_speedup(
    top: &Section<'_>,
    gate: &GateSection,
    precisions: &[Precision],
    mistakes: &Mistakes<'_>,
) {
    if gate.min_speedup.is_some() && precisions.len() < 2 {
        mistakes.value(
            top.place("precisions"),
            "precisions",
            "one precision",
            "`[fp16, int8]`, since `gate.min_speedup` is the speed-up of INT8 over FP16",
            "build both, or leave `gate.min_speedup` out",
        );
    }
}

/// An optional section: absent reads as an empty mapping, so that defaults stand in one place.
pub(super) fn section<'t>(
    top: &Section<'t>,
    key: &str,
    known: &[&str],
    empty: &'t Node,
    mistakes: &'t Mistakes<'t>,
) -> Option<Section<'t>> {
    Section::open(top.get(key).unwrap_or(empty), key, known, mistakes)
}

pub(super) fn empty() -> Node {
    Node { value: Value::Map(Vec::new()), place: tree::Place::File { line: 1, column: 1 } }
}

fn read_model(top: &Section<'_>, folder: &Path, mistakes: &Mistakes<'_>) -> Option<ModelSection> {
    let node =
        top.require("model", "write `model: { onnx: model.onnx, tokenizer: tokenizer.json }`")?;
    let keys = ["onnx", "tokenizer", "inputs", "output", "canonical"];
    let model = Section::open(node, "model", &keys, mistakes)?;
    let onnx = model.require_text("onnx", "the path of the FP32 ONNX model");
    let tokenizer = model.require_text("tokenizer", "the path of tokenizer.json or vocab.txt");
    let inputs = match model.get("inputs").map(|node| &node.value) {
        None => Vec::new(),
        Some(Value::Map(entries)) => entries
            .iter()
            .filter_map(|(name, node)| Some((name.clone(), scalar_text(&node.value)?)))
            .collect(),
        Some(_) => {
            model.refuse(
                "inputs",
                "a mapping of input names to roles",
                "write `inputs: { segments: token_type_ids }`",
            );
            Vec::new()
        }
    };
    Some(ModelSection {
        onnx: folder.join(onnx?),
        tokenizer: folder.join(tokenizer?),
        inputs: inputs.into_iter().collect(),
        outputs: match model.get("output").map(|node| &node.value) {
            Some(Value::List(_)) => model.texts("output")?,
            _ => model.text("output").into_iter().collect(),
        },
        canonical: model.boolean("canonical").unwrap_or(true),
    })
}

/// The value of `key` when it is written (`None` after a reported mistake), else `default`.
pub(super) fn optional<'t, T>(
    section: &Section<'t>,
    key: &str,
    read: impl FnOnce(&Section<'t>) -> Option<T>,
    default: T,
) -> Option<T> {
    if section.get(key).is_some() { read(section) } else { Some(default) }
}

fn read_precisions(top: &Section<'_>) -> Option<Vec<Precision>> {
    let names =
        optional(top, "precisions", |t| t.texts("precisions"), vec!["fp16".into(), "int8".into()])?;
    let parsed: Option<Vec<Precision>> = names
        .iter()
        .map(|name| match name.as_str() {
            "fp16" => Some(Precision::Fp16),
            "int8" => Some(Precision::Int8),
            _ => None,
        })
        .collect();
    match parsed {
        Some(mut precisions) if !precisions.is_empty() => {
            precisions.sort_unstable();
            precisions.dedup();
            Some(precisions)
        }
        _ => {
            top.refuse(
                "precisions",
                "a list of `fp16` and `int8`",
                "FP32 is always evaluated, as the baseline",
            );
            None
        }
    }
}

fn read_shapes(top: &Section<'_>, mistakes: &Mistakes<'_>) -> Option<Shapes> {
    let Some(node) = top.get("shapes") else {
        return Some(Shapes::FromLengths {
            from: LengthSource::Evaluation,
            profiles: 3,
            max_batch: 64,
        });
    };
    if let Value::List(items) = &node.value {
        if items.is_empty() {
            top.refuse(
                "shapes",
                "at least one `{ min, opt, max }`",
                "write `- { min: [1, 16], opt: [32, 128], max: [64, 256] }`",
            );
            return None;
        }
        let shapes: Vec<Option<ExplicitShape>> = items
            .iter()
            .enumerate()
            .map(|(index, item)| read_explicit(item, &format!("shapes[{index}]"), mistakes))
            .collect();
        return shapes.into_iter().collect::<Option<_>>().map(Shapes::Explicit);
    }
    let shapes = Section::open(node, "shapes", &["from", "profiles", "max_batch"], mistakes)?;
    let sources =
        [("evaluation", LengthSource::Evaluation), ("calibration", LengthSource::Calibration)];
    let from = optional(&shapes, "from", |s| s.choice("from", &sources), LengthSource::Evaluation);
    let profiles = optional(&shapes, "profiles", |s| s.integer("profiles", 1..=16), 3);
    let max_batch = optional(&shapes, "max_batch", |s| s.integer("max_batch", 1..=4096), 64);
    Some(Shapes::FromLengths {
        from: from?,
        profiles: profiles? as usize,
        max_batch: max_batch? as usize,
    })
}

fn read_explicit(node: &Node, path: &str, mistakes: &Mistakes<'_>) -> Option<ExplicitShape> {
    let section = Section::open(node, path, &["min", "opt", "max"], mistakes)?;
    let pair = |key: &str| -> Option<[usize; 2]> {
        section.require(key, "write `[batch, length]`")?;
        let values: Option<Vec<usize>> = match &section.get(key)?.value {
            Value::List(items) => items
                .iter()
                .map(|item| match item.value {
                    Value::Integer(value @ 1..=1_000_000) => Some(value as usize),
                    _ => None,
                })
                .collect(),
            _ => None,
        };
        let pair = values.and_then(|values| <[usize; 2]>::try_from(values).ok());
        if pair.is_none() {
            section.refuse(key, "`[batch, length]`, both at least 1", "write two whole numbers");
        }
        pair
    };
    let (min, opt, max) = (pair("min"), pair("opt"), pair("max"));
    let shape = ExplicitShape { min: min?, opt: opt?, max: max? };
    for (axis, name) in ["batch", "length"].into_iter().enumerate() {
        if !(shape.min[axis] <= shape.opt[axis] && shape.opt[axis] <= shape.max[axis]) {
            let found =
                format!("{name} {} / {} / {}", shape.min[axis], shape.opt[axis], shape.max[axis]);
            mistakes.value(
                &node.place,
                path,
                &found,
                "min ≤ opt ≤ max",
                "order the three numbers of each axis",
            );
            return None;
        }
    }
    Some(shape)
}

fn read_calibrate(
    top: &Section<'_>,
    folder: &Path,
    mistakes: &Mistakes<'_>,
) -> Option<CalibrateSection> {
    let empty = empty();
    let known = ["method", "percentile", "table", "batch_size", "device"];
    let calibrate = section(top, "calibrate", &known, &empty, mistakes)?;
    let name = optional(&calibrate, "method", |c| c.text("method"), "entropy".into())?;
    let percentile =
        optional(&calibrate, "percentile", |c| c.number("percentile", 50.0..=100.0), 99.99)?;
    let method = match name.as_str() {
        "percentile" => Some(Method::Percentile(percentile)),
        other => other.parse::<Method>().ok(),
    };
    if method.is_none() {
        calibrate.refuse(
            "method",
            "`entropy`, `minmax`, `percentile`, `mse` or `auto`",
            "`entropy` is the default",
        );
    }
    let batch_size = optional(&calibrate, "batch_size", |c| c.integer("batch_size", 1..=4096), 8);
    let devices = &CalibrationDevice::NAMES;
    let device =
        optional(&calibrate, "device", |c| c.choice("device", devices), CalibrationDevice::Auto);
    Some(CalibrateSection {
        method: method?,
        table: calibrate.text("table").map(|path| folder.join(path)),
        batch_size: batch_size? as usize,
        device: device?,
    })
}

fn read_smooth(quantize: &Section<'_>) -> Option<Smooth> {
    match quantize.get("smooth").and_then(|node| scalar_text(&node.value)).as_deref() {
        Some("auto") => Some(Smooth::Auto),
        Some(text) if text.parse::<f64>().is_err() => {
            let help = "0 is off, 0.8 to 0.9 is good for BERT, `auto` tries";
            quantize.refuse("smooth", "a number between 0 and 1, or `auto`", help);
            None
        }
        _ => quantize.number("smooth", 0.0..=1.0).map(Smooth::Strength),
    }
}

fn read_quantize(top: &Section<'_>, mistakes: &Mistakes<'_>) -> Option<QuantizeSection> {
    let empty = empty();
    let quantize =
        section(top, "quantize", &["level", "skip", "only", "smooth"], &empty, mistakes)?;
    let levels = Level::ALL.map(|level| (level.name(), level));
    let level = optional(&quantize, "level", |q| q.choice("level", &levels), Level::Gemm);
    let skip = optional(&quantize, "skip", |q| q.texts("skip"), Vec::new());
    let only = optional(&quantize, "only", |q| q.texts("only"), Vec::new());
    let smooth = optional(&quantize, "smooth", read_smooth, Smooth::Strength(0.0));
    Some(QuantizeSection { level: level?, skip: skip?, only: only?, smooth: smooth? })
}

fn read_evaluate(top: &Section<'_>, mistakes: &Mistakes<'_>) -> Option<EvaluateSection> {
    let empty = empty();
    let evaluate = section(top, "evaluate", &["batch_size", "padding"], &empty, mistakes)?;
    let paddings = [("longest", Padding::Longest), ("max_length", Padding::MaxLength)];
    let batch_size = optional(&evaluate, "batch_size", |e| e.integer("batch_size", 1..=4096), 32);
    let padding =
        optional(&evaluate, "padding", |e| e.choice("padding", &paddings), Padding::Longest);
    Some(EvaluateSection { batch_size: batch_size? as usize, padding: padding? })
}

fn read_engine(top: &Section<'_>, folder: &Path, mistakes: &Mistakes<'_>) -> Option<EngineSection> {
    let empty = empty();
    let section = section(top, "engine", &engine::keys(), &empty, mistakes)?;
    engine::read(&section, folder, mistakes)
}

#[cfg(test)]
mod tests;
