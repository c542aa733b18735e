//! Reading a `run.json`: of which layout it is, what an earlier one lacks, and which field is at fault.

use miette::Diagnostic;
use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;

use super::{Precision, PrecisionRecord, RunRecord};
use crate::words;

/// The layout this version writes. It reads every earlier one.
pub const SCHEMA: u32 = 2;

/// What takes a record of one layout to the next: `STEPS[0]` from 1 to 2.
const STEPS: [fn(&mut Value); SCHEMA as usize - 1] = [from_1];

/// Longest reason shown: a wrong value may be megabytes long.
const LONGEST_REASON: usize = 300;

/// Why a `run.json` could not be read.
#[derive(Debug, Diagnostic, Error)]
pub enum RecordError {
    /// Not JSON.
    #[error("this is not a run record")]
    #[diagnostic(
        code(report::not_a_record),
        help("give a run folder or its `run.json`, as written by `trtforge build`")
    )]
    NotARecord {
        /// What was wrong, with line and column.
        #[source]
        source: serde_json::Error,
    },
    /// JSON, and not that of a run.
    #[error("this is not a run record: `{field}`: {reason}")]
    #[diagnostic(
        code(report::record_field),
        help(
            "give a `run.json` as `trtforge build` wrote it; `trtforge schema run` prints what belongs in it"
        )
    )]
    Field {
        /// Where, such as `precisions.int8.evaluation.value`; `.` is the whole.
        field: String,
        /// What was found and what is expected.
        reason: String,
    },
    /// A layout that this version does not know.
    #[error(
        "this run record has schema {found}; this version reads {}",
        if SCHEMA == 1 { "schema 1".to_owned() } else { format!("schemas 1 to {SCHEMA}") }
    )]
    #[diagnostic(
        code(report::unknown_schema),
        help("read it with the version that wrote it, or run `trtforge build` again")
    )]
    UnknownSchema {
        /// The schema the record names.
        found: u64,
    },
}

/// Reads a record, taking it through every layout between its own and [`SCHEMA`].
pub fn record(json: &str) -> Result<RunRecord, RecordError> {
    let mut value: Value =
        serde_json::from_str(json).map_err(|source| RecordError::NotARecord { source })?;
    let field = |reason: &str| RecordError::Field { field: "schema".into(), reason: reason.into() };
    if !value.is_object() {
        let reason = format!("{} where the fields of a run belong", kind(&value));
        return Err(RecordError::Field { field: ".".into(), reason });
    }
    let found = match &value["schema"] {
        Value::Null => return Err(field("it is missing; every record says its layout")),
        Value::Number(number) => number.as_u64().ok_or_else(|| {
            field(&format!("{number} is no layout; those of this version are 1 to {SCHEMA}"))
        })?,
        other => return Err(field(&format!("{} where a whole number belongs", kind(other)))),
    };
    if found == 0 || found > u64::from(SCHEMA) {
        return Err(RecordError::UnknownSchema { found });
    }
    for step in &STEPS[found as usize - 1..] {
        step(&mut value);
    }
    value["schema"] = json!(SCHEMA);
    for (precision, one) in value["precisions"].as_object().into_iter().flatten() {
        let field = format!("precisions.{precision}");
        parsed::<Precision>(&field, &json!(precision))?;
        parsed::<PrecisionRecord>(&field, one)?;
    }
    parsed(".", &value)
}

/// One part of a record. Keys of a map that are no plain text have no name in the path that the whole would give, so that what is
/// below them is read by itself first.
fn parsed<'de, T: Deserialize<'de>>(at: &str, value: &'de Value) -> Result<T, RecordError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let field = match (at, path.trim_start_matches(['?', '.'])) {
            (_, "") => at.to_owned(),
            (".", path) => path.to_owned(),
            (at, path) => format!("{at}.{path}"),
        };
        let reason = error.inner().to_string();
        RecordError::Field {
            field: words::name(&field),
            reason: words::shorten(&words::one_line(&reason), LONGEST_REASON),
        }
    })
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Layout 1 grew while trtforge had no release. Its first records had one metric, in `evaluation` alone, and no word in a verdict
/// on whether an inconclusive one was tolerated: it was where the engine was published. Where a logit shift of `auto` was no
/// number, `null` was written, which no field takes.
fn from_1(record: &mut Value) {
    let precisions = record.get_mut("precisions").and_then(Value::as_object_mut);
    for precision in precisions.into_iter().flat_map(|found| found.values_mut()) {
        let published = precision["published"] == json!(true);
        if let Some(verdict) = precision.get_mut("verdict").and_then(Value::as_object_mut) {
            let outcome = verdict.get("outcome").and_then(Value::as_str).unwrap_or_default();
            let passed = outcome == "accepted" || (outcome == "inconclusive" && published);
            verdict.entry("passed").or_insert(json!(passed));
        }
        let evaluation = precision["evaluation"].clone();
        if let Some(fields) = precision.as_object_mut()
            && evaluation.is_object()
        {
            let metrics = fields.entry("metrics").or_insert(Value::Null);
            if metrics.is_null() || *metrics == json!([]) {
                *metrics = json!([evaluation]);
            }
        }
    }
    let changes = record.pointer_mut("/calibration/search/changes").and_then(Value::as_array_mut);
    for change in changes.into_iter().flatten().filter_map(Value::as_object_mut) {
        for side in ["before", "after"] {
            if change.get(side) == Some(&Value::Null) {
                change.insert(side.into(), json!("NaN"));
            }
        }
    }
}
