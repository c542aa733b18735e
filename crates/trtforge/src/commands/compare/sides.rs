//! What the command line names: run folders, records, plans.

use std::fs;
use std::path::{Path, PathBuf};

use miette::Diagnostic;
use thiserror::Error;
use trtforge_report::{Precision, RunRecord, Side};

use crate::error::PipelineError;
use crate::run_folder::{RunFolder, read_record};

/// Runs that cannot stand side by side.
#[derive(Debug, Diagnostic, Error)]
pub enum CompareInputError {
    /// The same run, or the same engine of it, twice.
    #[error("`{path}` is given twice")]
    #[diagnostic(
        code(compare::twice),
        help("a run equals itself: give another run, or leave one of the two out")
    )]
    Twice {
        /// As it was given the second time.
        path: String,
    },
    /// A plan that lies in no run folder.
    #[error("no run.json belongs to the plan `{plan}`")]
    #[diagnostic(
        code(compare::plan_without_run),
        help(
            "a plan is compared by its run's record: leave it where `trtforge build` put it, below `engines/` or `rejected/`"
        )
    )]
    PlanWithoutRun {
        /// The plan.
        plan: String,
    },
    /// A plan that the run beside it does not know.
    #[error("the run `{run}` has no plan `{plan}`; it has {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
    #[diagnostic(
        code(compare::unknown_plan),
        help("give one of its plans, or the run folder itself")
    )]
    UnknownPlan {
        /// The folder.
        run: String,
        /// The plan's file name.
        plan: String,
        /// Those of the record.
        known: Vec<String>,
    },
    /// An engine that its run knows only by name.
    #[error("`{path}` is neither a run folder nor a file")]
    #[diagnostic(
        code(compare::missing),
        help("give the output folder of a `trtforge build`, its `run.json`, or one of its plans")
    )]
    Missing {
        /// As it was given.
        path: String,
    },
}

/// One run with where it lies.
#[derive(Debug)]
pub struct Opened {
    /// Its name and its record.
    pub side: Side,
    /// The folder that holds `predictions/`; none for a record by itself.
    pub folder: Option<PathBuf>,
    /// Files that must not be written over.
    pub files: Vec<PathBuf>,
    /// Parts of its path, the last one first, from which its name is made.
    names: Vec<String>,
    /// What makes it another one than the others.
    identity: (PathBuf, Option<Precision>),
}

/// Opens all, the baseline first.
pub fn open(runs: &[PathBuf], baseline: Option<&Path>) -> Result<Vec<Opened>, PipelineError> {
    let mut opened: Vec<Opened> = Vec::new();
    let mut first = None;
    if let Some(path) = baseline {
        let run = one(path)?;
        first = Some(run.identity.clone());
        opened.push(run);
    }
    for path in runs {
        let run = one(path)?;
        // The baseline may stand among the runs too.
        if first.as_ref().is_some_and(|first| *first == run.identity) {
            first = None;
            continue;
        }
        if opened.iter().any(|other| other.identity == run.identity) {
            return Err(CompareInputError::Twice { path: path.display().to_string() }.into());
        }
        opened.push(run);
    }
    name(&mut opened);
    Ok(opened)
}

fn one(path: &Path) -> Result<Opened, PipelineError> {
    if !path.exists() {
        return Err(CompareInputError::Missing { path: path.display().to_string() }.into());
    }
    if path.extension().is_some_and(|extension| extension == "plan") && path.is_file() {
        return plan(path);
    }
    if path.is_file() && path.file_name().is_some_and(|name| name != "run.json") {
        let record = read_record(path)?;
        let files = vec![path.to_owned()];
        return Ok(Opened::new(path, record, None, files, None));
    }
    let RunFolder { path: folder, record } = RunFolder::open(path)?;
    let files = vec![folder.join("run.json")];
    Ok(Opened::new(&folder, record, None, files, Some(folder.clone())))
}

/// A plan stands for its precision in the run that it lies in.
fn plan(path: &Path) -> Result<Opened, PipelineError> {
    let shown = path.display().to_string();
    let absolute = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = absolute
        .ancestors()
        .skip(1)
        .take(3)
        .find(|folder| folder.join("run.json").is_file())
        .ok_or(CompareInputError::PlanWithoutRun { plan: shown })?;
    let record = RunFolder::open(folder)?.record;
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let named = |plan: &Option<String>| -> Option<String> {
        Some(Path::new(plan.as_ref()?).file_name()?.to_string_lossy().into_owned())
    };
    let found =
        record.precisions.iter().find(|(_, one)| named(&one.plan).is_some_and(|n| n == file));
    let Some((&precision, _)) = found else {
        return Err(CompareInputError::UnknownPlan {
            run: folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            plan: file.into_owned(),
            known: record.precisions.values().filter_map(|one| named(&one.plan)).collect(),
        }
        .into());
    };
    let files = vec![folder.join("run.json"), path.to_owned()];
    Ok(Opened::new(folder, record, Some(precision), files, Some(folder.to_owned())))
}

impl Opened {
    fn new(
        path: &Path,
        record: RunRecord,
        only: Option<Precision>,
        files: Vec<PathBuf>,
        folder: Option<PathBuf>,
    ) -> Self {
        let absolute = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let shown = if folder.is_none() { absolute.with_extension("") } else { absolute.clone() };
        let parts = shown.components().rev().map(|part| part.as_os_str().to_string_lossy());
        let names = parts.map(std::borrow::Cow::into_owned).filter(|part| part != "/").collect();
        let side = Side { name: String::new(), record, only };
        Self { side, folder, files, names, identity: (absolute, only) }
    }

    /// The last `depth` parts of its path, and its precision where a plan was given.
    fn called(&self, depth: usize) -> String {
        let parts: Vec<&str> = self.names.iter().take(depth).map(String::as_str).rev().collect();
        let mut name =
            if parts.is_empty() { self.side.record.name.clone() } else { parts.join("/") };
        if let Some(precision) = self.side.only {
            name = format!("{name} {}", precision.key());
        }
        name
    }
}

/// Names each by as few parts of its path as tell all of them apart; never by a whole absolute path unless nothing else does.
fn name(opened: &mut [Opened]) {
    let deepest = opened.iter().map(|one| one.names.len()).max().unwrap_or(1);
    for depth in 1..=deepest {
        let names: Vec<String> = opened.iter().map(|one| one.called(depth)).collect();
        let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
        if distinct.len() == names.len() || depth == deepest {
            for (one, name) in opened.iter_mut().zip(names) {
                one.side.name = name;
            }
            return;
        }
    }
}
