//! Which shard this process is, where a scheduler says so: Slurm job arrays and Kubernetes indexed jobs.

use std::str::FromStr;

use miette::Diagnostic;
use thiserror::Error;
use trtforge_calibrate::{Shard, ShardError};

/// Number of shards, where the scheduler itself does not tell it (Kubernetes).
const SHARDS: &str = "TRTFORGE_SHARDS";

/// `--shard`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardChoice {
    /// As the scheduler's environment says.
    Auto,
    /// This one.
    Given(Shard),
}

impl FromStr for ShardChoice {
    type Err = ShardError;

    fn from_str(text: &str) -> Result<Self, ShardError> {
        if text == "auto" { Ok(Self::Auto) } else { text.parse().map(Self::Given) }
    }
}

/// Why the shard cannot be told.
#[derive(Debug, Clone, PartialEq, Eq, Diagnostic, Error)]
pub enum SchedulerError {
    /// No scheduler is there.
    #[error(
        "`--shard auto` finds neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX in the environment"
    )]
    #[diagnostic(
        code(calibrate::no_scheduler),
        help("run it in a Slurm job array or a Kubernetes indexed job, or write `--shard I/N`")
    )]
    None,
    /// A variable does not hold what it must.
    #[error("the environment variable {name} is `{value}`, not {expected}")]
    #[diagnostic(
        code(calibrate::scheduler_value),
        help("the scheduler sets it; where it does not, write `--shard I/N`")
    )]
    Value {
        /// The variable.
        name: &'static str,
        /// What it holds.
        value: String,
        /// What it should.
        expected: &'static str,
    },
    /// A variable is missing beside another.
    #[error("{there} is set and {missing} is not: the number of shards cannot be told")]
    #[diagnostic(
        code(calibrate::scheduler_incomplete),
        help("give the number with `--shards N` or TRTFORGE_SHARDS, or write `--shard I/N`")
    )]
    Incomplete {
        /// What is set.
        there: &'static str,
        /// What is not.
        missing: &'static str,
    },
    /// The ids of a job array do not count through.
    #[error("the job array has {count} tasks with ids from {min} in steps of {step}, and {what}")]
    #[diagnostic(
        code(calibrate::scheduler_ids),
        help(
            "submit the array as `--array=1-N`; to run some tasks of it again, name the shard: `--shard \"$SLURM_ARRAY_TASK_ID/N\"`"
        )
    )]
    Ids {
        /// Tasks.
        count: u64,
        /// First id.
        min: u64,
        /// Distance of ids.
        step: u64,
        /// What does not fit.
        what: String,
    },
    /// Two sources say different things.
    #[error("{one} says {left}, and {other} says {right}")]
    #[diagnostic(
        code(calibrate::scheduler_conflict),
        help(
            "every shard must know the same number of shards: correct one of the two, or name the shard as `--shard I/N`"
        )
    )]
    Conflict {
        /// The first source.
        one: String,
        /// What it says.
        left: String,
        /// The second source.
        other: String,
        /// What it says.
        right: String,
    },
    /// The numbers are no shard.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Shard(#[from] ShardError),
}

/// Which shard to run.
///
/// - `shards`: `--shards`, the number of shards where it is stated.
/// - `variable`: the environment.
pub fn resolve(
    choice: ShardChoice,
    shards: Option<u32>,
    variable: impl Fn(&'static str) -> Option<String>,
) -> Result<Shard, SchedulerError> {
    let Environment { slurm, kubernetes } = match choice {
        ShardChoice::Given(shard) => {
            let stated = shards.map(|shards| ("--shards", shards));
            return agree(&format!("--shard {shard}"), shard, stated);
        }
        ShardChoice::Auto => Environment::read(shards, &variable)?,
    };
    match (slurm, kubernetes) {
        (None, None) => Err(SchedulerError::None),
        (Some(shard), None) | (None, Some(shard)) => Ok(shard),
        (Some(slurm), Some(kubernetes)) if slurm == kubernetes => Ok(slurm),
        (Some(slurm), Some(kubernetes)) => Err(SchedulerError::Conflict {
            one: "SLURM_ARRAY_TASK_ID".into(),
            left: format!("shard {slurm}"),
            other: "JOB_COMPLETION_INDEX".into(),
            right: format!("shard {kubernetes}"),
        }),
    }
}

/// What each scheduler says.
struct Environment {
    slurm: Option<Shard>,
    kubernetes: Option<Shard>,
}

impl Environment {
    fn read(
        shards: Option<u32>,
        variable: &dyn Fn(&'static str) -> Option<String>,
    ) -> Result<Self, SchedulerError> {
        let number = |name: &'static str| -> Result<Option<u64>, SchedulerError> {
            let Some(value) = variable(name).filter(|value| !value.is_empty()) else {
                return Ok(None);
            };
            let plain = value.bytes().all(|byte| byte.is_ascii_digit());
            let parsed = value.parse().ok().filter(|_| plain);
            let fault = || SchedulerError::Value { name, value, expected: "a whole number" };
            parsed.ok_or_else(fault).map(Some)
        };
        let stated = stated(shards, number(SHARDS)?)?;
        Ok(Self { slurm: slurm(&number, stated)?, kubernetes: kubernetes(&number, stated)? })
    }
}

/// The number of shards by `--shards` or the environment, with who said so.
fn stated(
    flag: Option<u32>,
    variable: Option<u64>,
) -> Result<Option<(&'static str, u32)>, SchedulerError> {
    let variable = match variable {
        None => None,
        Some(number) => Some(u32::try_from(number).ok().filter(|n| *n > 0).ok_or_else(|| {
            SchedulerError::Value {
                name: SHARDS,
                value: number.to_string(),
                expected: "a number of shards",
            }
        })?),
    };
    match (flag, variable) {
        (Some(flag), Some(variable)) if flag != variable => Err(SchedulerError::Conflict {
            one: "--shards".into(),
            left: flag.to_string(),
            other: SHARDS.into(),
            right: variable.to_string(),
        }),
        (Some(flag), _) => Ok(Some(("--shards", flag))),
        (None, variable) => Ok(variable.map(|variable| (SHARDS, variable))),
    }
}

type Number<'n> = &'n dyn Fn(&'static str) -> Result<Option<u64>, SchedulerError>;

/// The task of a job array. Ids may begin anywhere and go up in steps (`--array=10-24:2`).
fn slurm(
    number: Number<'_>,
    stated: Option<(&'static str, u32)>,
) -> Result<Option<Shard>, SchedulerError> {
    let Some(id) = number("SLURM_ARRAY_TASK_ID")? else { return Ok(None) };
    let count = number("SLURM_ARRAY_TASK_COUNT")?.ok_or(SchedulerError::Incomplete {
        there: "SLURM_ARRAY_TASK_ID",
        missing: "SLURM_ARRAY_TASK_COUNT",
    })?;
    let min = number("SLURM_ARRAY_TASK_MIN")?.ok_or(SchedulerError::Incomplete {
        there: "SLURM_ARRAY_TASK_ID",
        missing: "SLURM_ARRAY_TASK_MIN",
    })?;
    let step = number("SLURM_ARRAY_TASK_STEP")?.unwrap_or(1).max(1);
    let fault = |what: String| SchedulerError::Ids { count, min, step, what };
    if let Some(max) = number("SLURM_ARRAY_TASK_MAX")? {
        let last = count.checked_sub(1).and_then(|n| n.checked_mul(step)?.checked_add(min));
        if last != Some(max) {
            return Err(fault(format!("the last id is {max}: they do not count through")));
        }
    }
    let place = id.checked_sub(min).filter(|beyond| beyond % step == 0).map(|beyond| beyond / step);
    let Some(place) = place.filter(|place| *place < count) else {
        return Err(fault(format!("this task's id is {id}")));
    };
    let shard = shard(place, count)?;
    agree("SLURM_ARRAY_TASK_COUNT", shard, stated).map(Some)
}

/// The pod of an indexed job. Kubernetes tells it its index, from 0, and not the number of completions.
fn kubernetes(
    number: Number<'_>,
    stated: Option<(&'static str, u32)>,
) -> Result<Option<Shard>, SchedulerError> {
    let Some(index) = number("JOB_COMPLETION_INDEX")? else { return Ok(None) };
    let (who, count) = stated
        .ok_or(SchedulerError::Incomplete { there: "JOB_COMPLETION_INDEX", missing: SHARDS })?;
    if index >= u64::from(count) {
        return Err(SchedulerError::Conflict {
            one: "JOB_COMPLETION_INDEX".into(),
            left: format!("{index}, counted from 0"),
            other: who.into(),
            right: count.to_string(),
        });
    }
    shard(index, u64::from(count)).map(Some)
}

/// - `place`: from 0, below `count`.
fn shard(place: u64, count: u64) -> Result<Shard, SchedulerError> {
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    Ok(Shard::new(small(place).saturating_add(1), small(count))?)
}

fn agree(
    who: &str,
    shard: Shard,
    stated: Option<(&'static str, u32)>,
) -> Result<Shard, SchedulerError> {
    match stated {
        Some((other, shards)) if shards != shard.of() => Err(SchedulerError::Conflict {
            one: who.to_owned(),
            left: format!("{} shards", shard.of()),
            other: other.to_owned(),
            right: shards.to_string(),
        }),
        _ => Ok(shard),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auto(
        shards: Option<u32>,
        variables: &[(&'static str, &str)],
    ) -> Result<Shard, SchedulerError> {
        let variable = |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        resolve(ShardChoice::Auto, shards, variable)
    }

    /// id, count, min, max, step
    fn array(values: [&str; 5]) -> Vec<(&'static str, &str)> {
        let names = ["ID", "COUNT", "MIN", "MAX", "STEP"].map(|name| match name {
            "ID" => "SLURM_ARRAY_TASK_ID",
            "COUNT" => "SLURM_ARRAY_TASK_COUNT",
            "MIN" => "SLURM_ARRAY_TASK_MIN",
            "MAX" => "SLURM_ARRAY_TASK_MAX",
            _ => "SLURM_ARRAY_TASK_STEP",
        });
        names.into_iter().zip(values).filter(|(_, value)| !value.is_empty()).collect()
    }

    #[test]
    fn job_arrays_begin_anywhere_and_go_in_steps() {
        for (values, shard) in [
            (["0", "8", "0", "7", "1"], "1/8"),
            (["8", "8", "1", "8", "1"], "8/8"),
            (["14", "8", "10", "24", "2"], "3/8"),
            (["5", "1", "5", "5", "1"], "1/1"),
            (["3", "4", "2", "", ""], "2/4"),
        ] {
            assert_eq!(auto(None, &array(values)).unwrap().to_string(), shard, "{values:?}");
        }
    }

    #[test]
    fn job_arrays_that_do_not_count_through_are_refused() {
        for (values, shards, word) in [
            (["1", "3", "1", "7", "1"], None, "do not count through"),
            (["9", "8", "0", "", "1"], None, "this task's id is 9"),
            (["0", "8", "1", "", "1"], None, "this task's id is 0"),
            (["11", "8", "10", "", "2"], None, "this task's id is 11"),
            (["0", "0", "0", "", "1"], None, "this task's id is 0"),
            (
                ["3", "1", "3", "3", "1"],
                Some(8),
                "SLURM_ARRAY_TASK_COUNT says 1 shards, and --shards says 8",
            ),
            (["x", "8", "0", "7", "1"], None, "SLURM_ARRAY_TASK_ID is `x`"),
            (["-1", "8", "0", "7", "1"], None, "SLURM_ARRAY_TASK_ID is `-1`"),
            (["0", "1e3", "0", "7", "1"], None, "SLURM_ARRAY_TASK_COUNT is `1e3`"),
            (["0", "", "0", "7", "1"], None, "SLURM_ARRAY_TASK_COUNT is not"),
            (["0", "8", "", "7", "1"], None, "SLURM_ARRAY_TASK_MIN is not"),
            (["0", "99999999", "0", "", "1"], None, "more than 65536"),
        ] {
            let error = auto(shards, &array(values)).unwrap_err().to_string();
            assert!(error.contains(word), "{values:?}: {error}");
        }
    }

    #[test]
    fn indexed_jobs_need_to_be_told_the_number() {
        let index = |value| ("JOB_COMPLETION_INDEX", value);
        assert_eq!(auto(Some(4), &[index("0")]).unwrap().to_string(), "1/4");
        assert_eq!(auto(None, &[index("3"), (SHARDS, "4")]).unwrap().to_string(), "4/4");
        for (shards, variables, word) in [
            (None, vec![index("0")], "TRTFORGE_SHARDS is not"),
            (Some(4), vec![index("4")], "JOB_COMPLETION_INDEX says 4, counted from 0"),
            (
                Some(4),
                vec![index("0"), (SHARDS, "5")],
                "--shards says 4, and TRTFORGE_SHARDS says 5",
            ),
            (None, vec![index("0"), (SHARDS, "0")], "TRTFORGE_SHARDS is `0`"),
            (None, vec![index("0"), (SHARDS, "four")], "TRTFORGE_SHARDS is `four`"),
            (Some(4), vec![index("one")], "JOB_COMPLETION_INDEX is `one`"),
        ] {
            let error = auto(shards, &variables).unwrap_err().to_string();
            assert!(error.contains(word), "{variables:?}: {error}");
        }
    }

    #[test]
    fn two_schedulers_must_agree_and_none_is_an_error() {
        let mut both = array(["0", "2", "0", "1", "1"]);
        both.push(("JOB_COMPLETION_INDEX", "0"));
        assert_eq!(auto(Some(2), &both).unwrap().to_string(), "1/2");
        both.pop();
        both.push(("JOB_COMPLETION_INDEX", "1"));
        let error = auto(Some(2), &both).unwrap_err().to_string();
        assert!(error.contains("shard 1/2") && error.contains("shard 2/2"), "{error}");
        assert_eq!(auto(None, &[]).unwrap_err(), SchedulerError::None);
        assert_eq!(auto(None, &[("SLURM_ARRAY_TASK_ID", "")]).unwrap_err(), SchedulerError::None);
    }

    #[test]
    fn a_given_shard_ignores_the_scheduler_and_must_fit_the_number() {
        let slurm = |_| Some("7".to_owned());
        let given = ShardChoice::Given(Shard::new(2, 3).unwrap());
        assert_eq!(resolve(given, None, slurm).unwrap().to_string(), "2/3");
        assert_eq!(resolve(given, Some(3), slurm).unwrap().to_string(), "2/3");
        let error = resolve(given, Some(4), slurm).unwrap_err().to_string();
        assert_eq!(error, "--shard 2/3 says 3 shards, and --shards says 4");
    }
}
