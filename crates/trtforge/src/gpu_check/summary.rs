//! What a check found, for people.

use std::fmt::Write as _;

use serde_json::Value;

use super::Report;

/// The answer first, then one line per step.
pub fn table(report: &Report) -> String {
    let mut text = format!("{}\n", report.answer);
    if report.steps.is_empty() {
        return text;
    }
    text.push('\n');
    for step in &report.steps {
        let (name, word) = (step.name, step.outcome.word());
        let _ = writeln!(text, "{name:<12} {word:<10} {:>6.1} s  {}", step.seconds, step.detail);
    }
    let _ = writeln!(text, "\n{:.0} s in all", report.seconds);
    text
}

/// What a step that passed found, in a sentence.
pub fn detail(name: &str, data: Option<&Value>) -> String {
    let Some(data) = data else { return String::new() };
    match name {
        "runs" => format!(
            "{} on {} {}: largest difference from the reference {}",
            word(&data["library"]),
            word(&data["gpu"]),
            word(&data["compute_capability"]),
            data["largest_difference"]
        ),
        "conformance" => {
            let checks = data["checks"].as_array().map_or(0, Vec::len);
            let skipped = data["checks"].as_array().map_or(0, |checks| {
                checks.iter().filter(|check| check["skipped"].is_string()).count()
            });
            format!(
                "{} of {checks} checks passed, {skipped} do not apply to engines",
                checks - skipped
            )
        }
        "benchmark" => benchmark(data),
        "diagnose" => {
            let cause = &data["causes"][0]["title"];
            if cause.is_string() {
                format!("first cause: {}", word(cause))
            } else {
                "no cause".to_owned()
            }
        }
        _ => String::new(),
    }
}

/// The fastest way of each precision at each shape would be a table; the detail has the counts and the speed-ups.
fn benchmark(data: &Value) -> String {
    let results = data["results"].as_array().map_or(0, Vec::len);
    let speedup = |one: &Value| {
        let shape = &one["shape"];
        let graph = if one["cuda_graph"] == true { ", graph" } else { "" };
        format!(
            "{:.2}x at {}x{}{graph}",
            one["ratio"].as_f64().unwrap_or(0.0),
            shape["batch"],
            shape["length"]
        )
    };
    let speedups: Vec<String> =
        data["speedups"].as_array().into_iter().flatten().map(speedup).collect();
    format!(
        "{results} results; INT8 over FP16: {}",
        if speedups.is_empty() { "none".to_owned() } else { speedups.join(", ") }
    )
}

/// Where the figures of one precision come from.
pub struct EvaluationLine {
    /// Whether the engine itself answered.
    pub on_device: bool,
    /// In words, with the count.
    pub text: String,
}

/// Of every precision that has an engine.
pub fn evaluations(record: &Value) -> Vec<EvaluationLine> {
    let precisions = record["precisions"].as_object().into_iter().flatten();
    let line = |(name, one): (&String, &Value)| {
        let evaluation = &one["evaluation"];
        one["plan"].as_str()?;
        let place = evaluation["evaluated_on"].as_str()?;
        let text = format!(
            "{name} {} {:.4} of {} rows ({place}), {}",
            word(&evaluation["metric"]),
            evaluation["value"].as_f64().unwrap_or(f64::NAN),
            evaluation["count"],
            one["verdict"]["outcome"].as_str().unwrap_or("not judged")
        );
        Some(EvaluationLine { on_device: place == "device", text })
    };
    precisions.filter_map(line).collect()
}

/// Whether the INT8 engine could be asked how much of it is INT8, and its answer. INT8 in name only is an answer.
pub fn proof(record: &Value) -> (bool, String) {
    let proof = &record["precisions"]["int8"]["proof"];
    match (proof["missing"].as_str(), proof["summary"].as_str()) {
        (None, Some(summary)) => (true, summary.to_owned()),
        (Some(missing), _) => (false, missing.to_owned()),
        (None, None) => (false, "the INT8 engine was not asked".to_owned()),
    }
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_engines_that_answered_count_as_on_device() {
        let record = serde_json::json!({ "precisions": {
            "fp32": { "evaluation": { "metric": "accuracy", "value": 0.9, "count": 10, "evaluated_on": "reference" } },
            "fp16": { "plan": "engines/a.fp16.plan", "evaluation": { "metric": "accuracy", "value": 0.9, "count": 10, "evaluated_on": "device" } },
            "int8": { "plan": "engines/a.int8.plan", "verdict": { "outcome": "accepted" },
                      "evaluation": { "metric": "accuracy", "value": 0.875, "count": 10, "evaluated_on": "reference" } },
        }});
        let lines = evaluations(&record);
        assert_eq!(lines.iter().map(|line| line.on_device).collect::<Vec<_>>(), [true, false]);
        assert_eq!(lines[1].text, "int8 accuracy 0.8750 of 10 rows (reference), accepted");
        assert!(evaluations(&Value::Null).is_empty());
    }

    #[test]
    fn a_proof_that_is_missing_is_no_answer() {
        let of = |proof: Value| proof_of(&proof);
        assert_eq!(
            of(serde_json::json!({ "summary": "12 of 12 in INT8" })),
            (true, "12 of 12 in INT8".into())
        );
        assert_eq!(
            of(serde_json::json!({ "summary": "", "missing": "no GPU" })),
            (false, "no GPU".into())
        );
        assert!(!of(Value::Null).0);
    }

    fn proof_of(value: &Value) -> (bool, String) {
        proof(&serde_json::json!({ "precisions": { "int8": { "proof": value } } }))
    }
}
