//! The check stage: everything a profile names is opened, checked and tried on one row before any long work.

use std::path::PathBuf;

use miette::Diagnostic;
use ndarray::ArrayD;
use thiserror::Error;
use trtforge_data::{ElementKind, Encoded, FeedPlan, InputRole, TextEncoder};
use trtforge_exec::{EmbeddedExecutor, EmbeddedOptions, Executor, NamedValue, Value};
use trtforge_onnx::{ElementType, Graph, Model, ValueInfo, is_op};
use trtforge_quantize::{Survey, survey};
use trtforge_report::CanonicalForm;
use trtforge_tensorrt::position_count;

use crate::canonical;
use crate::error::PipelineError;
use crate::profile::{CalibrationData, EvaluationData, Profile, Task};
use crate::readout::Readout;
use crate::rows::RowReader;
pub use crate::rows::{EncodedRows, EvaluationRows};

/// What does not fit together between model, tokenizer, data and profile.
#[derive(Debug, Diagnostic, Error)]
pub enum InputError {
    /// The vocabulary is larger than the embedding.
    #[error("the tokenizer gives ids up to {max_id}, and the embedding `{table}` has {rows} rows")]
    #[diagnostic(
        code(check::vocabulary),
        help("use the tokenizer that the model was trained with")
    )]
    Vocabulary {
        /// Largest id.
        max_id: u32,
        /// Weight.
        table: String,
        /// Its rows.
        rows: i64,
    },
    /// More tokens than positions.
    #[error(
        "max_length is {max_length}, and the model's position embedding has {positions} positions"
    )]
    #[diagnostic(code(check::positions), help("set `max_length: {positions}` or less"))]
    Positions {
        /// Of the profile.
        max_length: usize,
        /// Of the model.
        positions: i64,
    },
    /// Rows that no optimization profile takes.
    #[error(
        "{rows} of {all} evaluation rows have more than the {longest} tokens that `shapes` allows"
    )]
    #[diagnostic(
        code(check::uncovered),
        help(
            "raise a `max` in `shapes` to {needed} tokens, lower `max_length`, or let shapes be planned: `shapes: {{ from: evaluation, profiles: 3 }}`"
        )
    )]
    Uncovered {
        /// Too long.
        rows: usize,
        /// In all.
        all: usize,
        /// Most tokens of any profile.
        longest: usize,
        /// Tokens of the longest row.
        needed: usize,
    },
    /// A run folder without engines.
    #[error("the run `{run}` has no engines to time")]
    #[diagnostic(
        code(benchmark::no_plans),
        help(
            "build them: `trtforge build PROFILE` with a backend other than none; `--reference` times the graphs on the CPU"
        )
    )]
    NoPlans {
        /// The folder.
        run: String,
    },
    /// A plan whose precision nothing tells.
    #[error("the precision of `{path}` is not in its name")]
    #[diagnostic(
        code(benchmark::plan_name),
        help("name it as `trtforge build` does, for example `model.int8.plan`")
    )]
    PlanName {
        /// The plan.
        path: String,
    },
    /// `engine.backend: none` where an engine is to run.
    #[error("`engine.backend` is none: no library runs engines")]
    #[diagnostic(
        code(benchmark::no_backend),
        help("`--set engine.backend=auto` takes the library that is there")
    )]
    NoBackend,
    /// `int8` was asked for and nothing became INT8.
    #[error("no matrix multiplication would run in INT8")]
    #[diagnostic(
        code(quantize::nothing),
        help("narrow `quantize.skip` or widen `quantize.only`, or leave int8 out of `precisions`")
    )]
    NothingQuantized,
    /// See [`trtforge_tensorrt::InspectError`].
    #[error(transparent)]
    #[diagnostic(transparent)]
    Inspect(#[from] trtforge_tensorrt::InspectError),
    /// The file is another one than at the start of the run.
    #[error("`{path}` was changed while it was being worked on")]
    #[diagnostic(code(check::changed), help("run again once the file is complete"))]
    Changed {
        /// The model.
        path: String,
    },
    /// One row of `max_length` tokens does not run.
    #[error("the model does not run on one row of {length} tokens")]
    #[diagnostic(
        code(check::trial_run),
        help(
            "if the length is beyond what the model takes, lower `max_length`; else see the cause below"
        )
    )]
    TrialRun {
        /// Tokens tried.
        length: usize,
        /// What the executor said.
        #[source]
        source: Box<PipelineError>,
    },
}

/// How token rows become the inputs of this model, and which output to read.
#[derive(Debug)]
pub struct Wiring {
    /// Roles of the inputs.
    pub feeds: FeedPlan,
    /// What is read of the outputs.
    pub readout: Readout,
}

impl Wiring {
    /// The inputs of one batch, padded to `length` tokens.
    pub fn bind(&self, rows: &[&Encoded], length: usize) -> Vec<NamedValue> {
        let bound = self.feeds.bind(rows, length);
        let value = |(name, values, shape): (String, Vec<i64>, [usize; 2])| {
            let array = ArrayD::from_shape_vec(shape.to_vec(), values)
                .expect("a feed has as many values as its shape says");
            (name, Value::I64(array))
        };
        bound.into_iter().map(value).collect()
    }
}

/// The model side of a profile.
pub struct ModelInputs {
    /// Where the FP32 model lies. It is not held open: its mapped pages would count twice beside an executor's copy.
    path: PathBuf,
    /// Its content hash, hexadecimal.
    pub fingerprint: String,
    /// How its canonical form came about, which every stage works on; none when the profile turned that off.
    pub canonical: Option<CanonicalForm>,
    /// Its inputs, in graph order.
    pub graph_inputs: Vec<ValueInfo>,
    /// What in it can be quantized and what must be watched.
    pub survey: Survey,
    /// Inputs and output.
    pub wiring: Wiring,
    /// The tokenizer.
    pub encoder: TextEncoder,
    /// What the model does.
    pub task: Task,
    /// Rows of the position embedding, where one is recognised.
    pub positions: Option<i64>,
    /// What a person should know.
    pub warnings: Vec<String>,
}

impl ModelInputs {
    /// Opens and checks model and tokenizer.
    pub fn open(profile: &Profile) -> Result<ModelInputs, PipelineError> {
        Self::open_with_model(profile).map(|(inputs, _)| inputs)
    }

    /// The same, with the FP32 model that every stage works on, for what is done at once.
    pub fn open_with_model(profile: &Profile) -> Result<(ModelInputs, Model), PipelineError> {
        let model = Model::open(&profile.model.onnx)?;
        model.check()?;
        let (working, canonical) = working(model.clone(), profile.model.canonical)?;
        let survey = survey(&working)?;
        let encoder = TextEncoder::open(&profile.model.tokenizer, profile.max_length)?;
        let wiring = wire(&model, profile, encoder.pad_id())?;
        let mut warnings = encoder.notes().to_vec();
        let graph = model.graph();
        check_vocabulary(&graph, &wiring.feeds, &encoder)?;
        let positions = position_count(&model);
        if let Some(positions) =
            positions.filter(|&positions| positions < profile.max_length as i64)
        {
            return Err(InputError::Positions { max_length: profile.max_length, positions }.into());
        }
        warnings.extend(nan_weights(&graph));
        warnings.extend(canonical.as_ref().and_then(canonical::warning));
        let (path, graph_inputs) = (profile.model.onnx.clone(), graph.inputs());
        let fingerprint = model.fingerprint().to_hex().to_string();
        let inputs = ModelInputs {
            path,
            fingerprint,
            canonical,
            graph_inputs,
            survey,
            wiring,
            encoder,
            task: profile.task.clone(),
            positions,
            warnings,
        };
        Ok((inputs, working))
    }

    /// The FP32 model that every stage works on, made from the file that was checked.
    pub fn reopen(&self) -> Result<Model, PipelineError> {
        let model = Model::open(&self.path)?;
        if model.fingerprint().to_hex().as_str() == self.fingerprint {
            return Ok(working(model, self.canonical.is_some())?.0);
        }
        Err(InputError::Changed { path: self.path.display().to_string() }.into())
    }

    /// The FP32 model on the embedded executor, able to show the tensors `keep`; tried on one row of `max_length`.
    pub fn executor(
        &self,
        profile: &Profile,
        keep: &[String],
    ) -> Result<EmbeddedExecutor, PipelineError> {
        self.executor_of(&self.reopen()?, profile, keep)
    }

    /// The same of a rewritten model.
    pub fn executor_of(
        &self,
        model: &Model,
        profile: &Profile,
        keep: &[String],
    ) -> Result<EmbeddedExecutor, PipelineError> {
        let options = EmbeddedOptions { keep: keep.to_vec(), ..EmbeddedOptions::default() };
        let executor = EmbeddedExecutor::from_model(model, options)?;
        self.try_row(&executor, profile.max_length)?;
        Ok(executor)
    }

    fn try_row(&self, executor: &dyn Executor, length: usize) -> Result<(), PipelineError> {
        let row = self.encoder.encode("a", self.task.joins_texts().then_some("a"))?;
        let run = || {
            let inputs = self.wiring.bind(&[&row], length);
            self.wiring.readout.read(&executor.run(&inputs)?, &[&row], length)
        };
        match run() {
            Ok(_) => Ok(()),
            Err(error @ PipelineError::Readout(_)) => Err(error),
            Err(error) => Err(InputError::TrialRun { length, source: Box::new(error) }.into()),
        }
    }

    /// Reads and encodes the calibration file. What is right is not asked for.
    pub fn calibration_rows(&self, data: &CalibrationData) -> Result<EncodedRows, PipelineError> {
        RowReader { encoder: &self.encoder, task: &self.task }.calibration(data)
    }

    /// Reads and encodes the evaluation file, every row with what is right.
    pub fn evaluation_rows(&self, data: &EvaluationData) -> Result<EvaluationRows, PipelineError> {
        RowReader { encoder: &self.encoder, task: &self.task }.evaluation(data)
    }
}

/// The canonical form with its account, or the model itself.
fn working(model: Model, on: bool) -> Result<(Model, Option<CanonicalForm>), PipelineError> {
    if !on {
        return Ok((model, None));
    }
    let (model, form) = canonical::canonical_form(&model)?;
    Ok((model, Some(form)))
}

fn wire(model: &Model, profile: &Profile, pad_id: u32) -> Result<Wiring, PipelineError> {
    let graph = model.graph();
    let inputs: Vec<(String, ElementKind)> =
        graph.inputs().into_iter().map(|input| (input.name, kind(input.element_type))).collect();
    let overrides = profile
        .model
        .inputs
        .iter()
        .map(|(name, role)| Ok((name.clone(), role.parse::<InputRole>()?)))
        .collect::<Result<_, PipelineError>>()?;
    let feeds = FeedPlan::new(&inputs, &overrides, pad_id)?;
    let outputs: Vec<String> = graph.outputs().into_iter().map(|output| output.name).collect();
    let readout = Readout::of(&profile.task, &profile.model.outputs, &outputs)?;
    Ok(Wiring { feeds, readout })
}

fn kind(element: ElementType) -> ElementKind {
    match element {
        ElementType::I32 => ElementKind::Int32,
        ElementType::I64 => ElementKind::Int64,
        ElementType::F32 => ElementKind::Float32,
        other => ElementKind::Other(format!("{other:?}").to_lowercase()),
    }
}

/// Compares the rows of the word embedding with the ids that will be looked up in it.
fn check_vocabulary(
    graph: &Graph<'_>,
    feeds: &FeedPlan,
    encoder: &TextEncoder,
) -> Result<(), InputError> {
    let ids = feeds.inputs().iter().find(|input| input.role == InputRole::InputIds);
    for node in graph.nodes().iter().filter(|node| is_op(node, "Gather")) {
        let [data, indices, ..] = node.input.as_slice() else { continue };
        let Some(table) = graph.constant(data) else { continue };
        let [rows, _] = table.dims[..] else { continue };
        if ids.is_some_and(|ids| &ids.name == indices) && i64::from(encoder.max_id()) >= rows {
            return Err(InputError::Vocabulary {
                max_id: encoder.max_id(),
                table: data.clone(),
                rows,
            });
        }
    }
    Ok(())
}

/// Weights with NaN, which make every row that meets them meaningless.
fn nan_weights(graph: &Graph<'_>) -> Vec<String> {
    use rayon::prelude::*;
    let tensors: Vec<_> =
        graph.initializers().filter(|tensor| tensor.element_type.is_float()).collect();
    tensors
        .par_iter()
        .filter_map(|tensor| {
            let values = tensor.to_f32().ok()?;
            let bad = values.iter().filter(|value| value.is_nan()).count();
            let name = &tensor.name;
            (bad > 0).then(|| format!("weight `{name}` holds {bad} NaN values of {}", values.len()))
        })
        .collect()
}
