//! JUnit XML: one test case per precision and one per rule of its gate, so that a pipeline shows the gate among its tests.

use std::fmt::Write as _;

use crate::{Precision, PrecisionRecord, Rule, RunRecord, words};

/// One test suite for the run: an accepted precision or rule passes, a refused one fails, a precision without a verdict is skipped.
pub fn render_junit(record: &RunRecord) -> String {
    let cases: Vec<Case> = record
        .precisions
        .iter()
        .filter(|(precision, _)| **precision != Precision::Fp32)
        .flat_map(|(precision, one)| Case::all(record, *precision, one))
        .collect();
    let failures =
        cases.iter().filter(|case| matches!(case.result, CaseResult::Failed { .. })).count();
    let skipped = cases.iter().filter(|case| matches!(case.result, CaseResult::Skipped)).count();
    let suite = escape(&words::run_name(record));
    let counts =
        format!(r#"tests="{}" failures="{failures}" errors="0" skipped="{skipped}""#, cases.len());
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(xml, r#"<testsuites name="trtforge" {counts}>"#);
    let _ = writeln!(xml, r#"  <testsuite name="{suite}" {counts}>"#);
    for case in &cases {
        case.write(&mut xml, &suite);
    }
    xml.push_str("  </testsuite>\n</testsuites>\n");
    xml
}

struct Case {
    name: String,
    seconds: f64,
    result: CaseResult,
}

enum CaseResult {
    Passed { detail: String },
    Failed { kind: &'static str, message: String, detail: String },
    Skipped,
}

impl Case {
    fn all(record: &RunRecord, precision: Precision, one: &PrecisionRecord) -> Vec<Self> {
        let rules = one.verdict.iter().flat_map(|verdict| &verdict.rules);
        let rule = |rule: &Rule| Self {
            name: escape(&words::name(&format!("{} {}", precision.key(), rule.title()))),
            seconds: 0.0,
            result: if rule.passes {
                CaseResult::Passed { detail: words::sentence(&rule.reason) }
            } else {
                CaseResult::Failed {
                    kind: rule.outcome.word(),
                    message: words::one_line(&rule.reason),
                    detail: words::sentence(&rule.reason),
                }
            },
        };
        [Self::new(record, precision, one)].into_iter().chain(rules.map(rule)).collect()
    }

    fn new(record: &RunRecord, precision: Precision, one: &PrecisionRecord) -> Self {
        let result = match &one.verdict {
            None => CaseResult::Skipped,
            Some(verdict) => {
                let detail = words::figures(record, one, verdict);
                if verdict.lets_through() {
                    CaseResult::Passed { detail }
                } else {
                    CaseResult::Failed {
                        kind: verdict.outcome.word(),
                        message: words::one_line(&verdict.reason),
                        detail,
                    }
                }
            }
        };
        Self {
            name: format!("{} gate", precision.key()),
            seconds: one.build_ms.unwrap_or(0) as f64 / 1e3,
            result,
        }
    }

    fn write(&self, xml: &mut String, suite: &str) {
        let _ = write!(
            xml,
            r#"    <testcase classname="{suite}" name="{}" time="{:.3}">"#,
            self.name, self.seconds
        );
        let _ = match &self.result {
            CaseResult::Passed { detail } => {
                write!(xml, "\n      <system-out>{}</system-out>", escape(detail))
            }
            CaseResult::Failed { kind, message, detail } => {
                write!(
                    xml,
                    "\n      <failure type=\"{kind}\" message=\"{}\">{}</failure>",
                    escape(message),
                    escape(detail)
                )
            }
            CaseResult::Skipped => write!(xml, "\n      <skipped message=\"not judged\"/>"),
        };
        xml.push_str("\n    </testcase>\n");
    }
}

/// Escapes text for element content and attribute values alike; the callers have taken control characters out.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            // Not a character of XML 1.0, escaped or not.
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            _ => escaped.push(character),
        }
    }
    escaped
}
