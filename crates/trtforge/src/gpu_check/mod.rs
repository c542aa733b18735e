//! `trtforge gpu-check`: everything that needs a GPU, tried on this machine within a few minutes, each step in a process of its own.
//!
//! A step that fails, hangs or crashes says so in the table and does not stop the others. The first answers a question that no document
//! answers: whether plans of the library at hand run on this GPU at all.

mod engines;
mod process;
mod summary;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};
use trtforge_tensorrt::{DoctorReport, probe};

use crate::cli::{GpuCheckArgs, GpuCheckStep};
use crate::commands::print;
use crate::error::{LIBRARY, MISSING, PipelineError};
use crate::progress::Progress;
use crate::store::{StoreError, write_atomic};

use process::{Ended, Task};

/// Version of the JSON layout.
const SCHEMA: u32 = 1;

/// All steps together end within this: a lease of ten minutes has room for the machine's own start.
const TOTAL: Duration = Duration::from_secs(460);

/// What came of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It did what it should.
    Passed,
    /// It did not; the detail says why.
    Failed,
    /// It was ended at its limit.
    TimedOut,
    /// What it needs did not come about.
    Skipped,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::TimedOut => "timed out",
            Self::Skipped => "skipped",
        }
    }
}

/// One step as it went.
#[derive(Debug, Clone, Serialize)]
pub struct StepReport {
    /// Its name, which `--only` takes for some.
    pub name: &'static str,
    /// What came of it.
    pub outcome: Outcome,
    /// How long it took.
    pub seconds: f64,
    /// Exit code of its process; none when it was ended or never began.
    pub exit_code: Option<i32>,
    /// In a sentence.
    pub detail: String,
    /// What it printed, where that is JSON.
    pub data: Option<Value>,
}

/// Everything.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Version of this layout.
    pub schema: u32,
    /// Of trtforge.
    pub version: &'static str,
    /// Libraries, driver and GPU.
    pub doctor: DoctorReport,
    /// Whether a plan made here runs on this GPU; none when that could not be tried.
    pub plans_run: Option<bool>,
    /// The same in a sentence, with the exact error where they do not.
    pub answer: String,
    /// In order.
    pub steps: Vec<StepReport>,
    /// All of it.
    pub seconds: f64,
}

/// Runs one step in this process, or all of them in others.
pub fn gpu_check(args: &GpuCheckArgs) -> Result<u8, PipelineError> {
    match args.only {
        Some(GpuCheckStep::Runs) => return engines::runs(),
        Some(GpuCheckStep::Conformance) => return engines::conformance(),
        None => {}
    }
    let report = Check::new(args)?.all();
    let text = serde_json::to_string_pretty(&report).unwrap_or_default();
    write_atomic(&args.output.join("gpu-check.json"), format!("{text}\n").as_bytes())?;
    print(args.json, &json!(report), &summary::table(&report))?;
    Ok(if report.doctor.gpus.is_empty() {
        MISSING
    } else if report.steps.iter().all(|step| step.outcome == Outcome::Passed) {
        0
    } else {
        LIBRARY
    })
}

struct Check<'a> {
    args: &'a GpuCheckArgs,
    program: PathBuf,
    begun: Instant,
    progress: Progress,
    steps: Vec<StepReport>,
}

impl<'a> Check<'a> {
    fn new(args: &'a GpuCheckArgs) -> Result<Self, PipelineError> {
        let program = std::env::current_exe();
        let program = program.map_err(StoreError::io("find", Path::new("the program itself")))?;
        let output = &args.output;
        std::fs::create_dir_all(output).map_err(StoreError::io("create", output))?;
        let log = output.join("gpu-check.log");
        std::fs::write(&log, "").map_err(StoreError::io("write", &log))?;
        let (begun, progress) = (Instant::now(), Progress::new(args.quiet));
        Ok(Self { args, program, begun, progress, steps: Vec::new() })
    }

    fn all(mut self) -> Report {
        let doctor = probe(None);
        let gpu =
            doctor.gpus.first().map(|gpu| format!("{} ({})", gpu.name, gpu.compute_capability));
        let (plans_run, answer) = match gpu {
            None => {
                let why = doctor.driver_problem.as_deref().unwrap_or("the driver sees none");
                (
                    None,
                    format!(
                        "no GPU here ({why}): nothing was tried, and no figure of a device exists"
                    ),
                )
            }
            Some(gpu) => {
                let answer = self.engines(&gpu);
                self.profile();
                answer
            }
        };
        Report {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            doctor,
            plans_run,
            answer,
            steps: self.steps,
            seconds: self.begun.elapsed().as_secs_f64(),
        }
    }

    /// Do plans run here? And do engines behave as every executor must?
    fn engines(&mut self, gpu: &str) -> (Option<bool>, String) {
        let step = ["gpu-check", "--only"];
        let runs = self.own("runs", 60, &[step[0], step[1], "runs"]);
        let answer = match runs.outcome {
            Outcome::Passed => {
                let library = runs.data.as_ref().and_then(|data| data["library"].as_str());
                let library = library.unwrap_or("the library at hand");
                (Some(true), format!("plans of {library} run on the {gpu}"))
            }
            // A missing library is no answer about the GPU.
            _ if runs.exit_code == Some(i32::from(MISSING)) => {
                (None, format!("not known whether plans run on the {gpu}: {}", runs.detail))
            }
            _ => (Some(false), format!("a plan does NOT run on the {gpu}: {}", runs.detail)),
        };
        self.own("conformance", 60, &[step[0], step[1], "conformance"]);
        answer
    }

    /// The steps that a profile describes; later ones need the engines of the first.
    fn profile(&mut self) {
        let profile = self.args.profile.to_string_lossy().into_owned();
        let run = self.args.output.join("run");
        let folder = run.to_string_lossy().into_owned();
        let mut build = vec!["build", &profile, "--output", &folder, "--json"];
        build.extend(self.args.assignments.iter().flat_map(|one| ["--set", one.as_str()]));
        // A gate that refuses is an answer, not a failure of the machine.
        let built = self.step("build", 150, &build, &[0, 1]);
        if built.outcome != Outcome::Passed {
            for name in ["device", "proof", "benchmark", "diagnose"] {
                self.skip(name, "the build left no engines");
            }
            return;
        }
        self.read_run(&run);
        let shapes =
            ["--shape", "1x32", "--shape", "32x32", "--shape", "1x128", "--shape", "32x128"];
        let mut benchmark = vec!["benchmark", &profile, "--run", &folder, "--json"];
        benchmark.extend(if self.args.usual_shapes { &[][..] } else { &shapes[..] });
        benchmark.extend(self.args.assignments.iter().flat_map(|one| ["--set", one.as_str()]));
        self.own("benchmark", 90, &benchmark);
        let mut diagnose = vec!["diagnose", &profile, "--record", &folder, "--json"];
        diagnose.extend(self.args.assignments.iter().flat_map(|one| ["--set", one.as_str()]));
        self.own("diagnose", 90, &diagnose);
        for name in ["run.json", "report.html", "report.md"] {
            // What is not there was said by its step.
            let _ = std::fs::copy(run.join(name), self.args.output.join(name));
        }
    }

    /// Whether the engines themselves answered the evaluation rows, and what INT8's says of its own precision.
    fn read_run(&mut self, run: &Path) {
        let text = std::fs::read_to_string(run.join("run.json")).unwrap_or_default();
        let record: Value = serde_json::from_str(&text).unwrap_or_default();
        let lines = summary::evaluations(&record);
        let on_device = !lines.is_empty() && lines.iter().all(|line| line.on_device);
        let detail = lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("; ");
        let detail = if detail.is_empty() { "nothing was evaluated".to_owned() } else { detail };
        self.finding("device", on_device, detail);
        let (proven, detail) = summary::proof(&record);
        self.finding("proof", proven, detail);
    }

    fn finding(&mut self, name: &'static str, holds: bool, detail: String) {
        let outcome = if holds { Outcome::Passed } else { Outcome::Failed };
        let (seconds, exit_code, data) = (0.0, None, None);
        self.keep(StepReport { name, outcome, seconds, exit_code, detail, data });
    }

    fn own(&mut self, name: &'static str, limit_s: u64, arguments: &[&str]) -> StepReport {
        self.step(name, limit_s, arguments, &[0])
    }

    fn step(
        &mut self,
        name: &'static str,
        limit_s: u64,
        arguments: &[&str],
        fine: &[i32],
    ) -> StepReport {
        let left = TOTAL.saturating_sub(self.begun.elapsed());
        if left.is_zero() {
            self.skip(name, "no time was left");
            return self.steps[self.steps.len() - 1].clone();
        }
        self.progress.say(&format!("gpu-check  {name}"));
        let task = Task {
            program: &self.program,
            arguments,
            log: &self.args.output.join("gpu-check.log"),
            limit: Duration::from_secs(limit_s).min(left),
        };
        let ended = task.run();
        let report = report(name, &ended, fine);
        self.keep(report.clone());
        report
    }

    fn skip(&mut self, name: &'static str, why: &str) {
        let detail = why.to_owned();
        let (outcome, seconds, exit_code, data) = (Outcome::Skipped, 0.0, None, None);
        self.keep(StepReport { name, outcome, seconds, exit_code, detail, data });
    }

    fn keep(&mut self, report: StepReport) {
        self.progress.say(&format!("gpu-check  {} {}", report.name, report.outcome.word()));
        self.steps.push(report);
    }
}

fn report(name: &'static str, ended: &Ended, fine: &[i32]) -> StepReport {
    let data: Option<Value> = serde_json::from_str(&ended.output).ok();
    let outcome = match ended.exit_code {
        _ if ended.timed_out => Outcome::TimedOut,
        Some(code) if fine.contains(&code) => Outcome::Passed,
        _ => Outcome::Failed,
    };
    let detail = match outcome {
        Outcome::Passed => summary::detail(name, data.as_ref()),
        Outcome::TimedOut => format!("ended after {:.0} s", ended.seconds),
        _ => ended.complaint(),
    };
    let (seconds, exit_code) = (ended.seconds, ended.exit_code);
    StepReport { name, outcome, seconds, exit_code, detail, data }
}
