//! Files: what was written, how large it is, how long it took, and what the library said.

use maud::{Markup, html};

use super::{absent, typeset};
use crate::record::relative_name;
use crate::{EngineLog, Precision, PrecisionRecord, RunRecord, words};

pub fn section(record: &RunRecord) -> Option<Markup> {
    if record.precisions.is_empty() {
        return None;
    }
    let full = record
        .precisions
        .get(&Precision::Fp32)
        .and_then(|one| one.onnx_bytes)
        .filter(|bytes| *bytes > 0);
    let built_by = record.engine.as_ref().map(|engine| match &engine.version {
        Some(version) => {
            format!("Engines built by {} {}.", words::name(&engine.backend), words::name(version))
        }
        None => format!("Engine backend: {}.", words::name(&engine.backend)),
    });
    Some(html! {
        table.stack {
            caption { "Size of each graph and engine, and the time the engine took to build" }
            thead { tr {
                th scope="col" { "Precision" }
                th.n scope="col" { "ONNX" }
                th.n scope="col" { "Engine" }
                th scope="col" { "Engine against FP32 ONNX" }
                th.n scope="col" { "Build time" }
                th scope="col" { "Files" }
            } }
            tbody { @for (&precision, one) in &record.precisions { (row(precision, one, full)) } }
        }
        @if let Some(built_by) = built_by { p.legend { (built_by) } }
        @for (&precision, one) in &record.precisions {
            @if let Some(log) = &one.engine_log { (library_log(precision, log)) }
        }
    })
}

fn row(precision: Precision, one: &PrecisionRecord, full: Option<u64>) -> Markup {
    let ratio = one.plan_bytes.zip(full).map(|(plan, full)| plan as f64 / full as f64);
    html! { tr {
        th scope="row" { (precision.name()) }
        td.n data-label="ONNX" { @match one.onnx_bytes { Some(size) => { (words::bytes(size)) } None => { (absent()) } } }
        td.n data-label="Engine" { @match one.plan_bytes { Some(size) => { (words::bytes(size)) } None => { (absent()) } } }
        td data-label="Of FP32 ONNX" { @match ratio {
            Some(ratio) => { span.bar aria-hidden="true" { span style=(format!("width:{:.1}%", (ratio * 100.0).min(100.0))) { } } (typeset(&words::share(ratio))) }
            None => { (absent()) }
        } }
        td.n data-label="Build time" { @match one.build_ms { Some(ms) => { (words::duration(ms)) } None => { (absent()) } } }
        td.files.wide data-label="Files" {
            @if let Some(plan) = &one.plan {
                p { code { (words::name(relative_name(plan))) } " " @if one.published { small.good { "published" } } @else { small.bad { "kept back" } } }
            }
            @if let Some(onnx) = &one.onnx { p { code { (words::name(relative_name(onnx))) } } }
            @if one.plan.is_none() && one.onnx.is_none() { (absent()) }
        }
    } }
}

fn library_log(precision: Precision, log: &EngineLog) -> Markup {
    let said = format!(
        "{} build log: {}, {}, {}",
        precision.name(),
        words::counted(log.lines, "line"),
        words::counted(log.warnings, "warning"),
        words::counted(log.errors, "error")
    );
    html! {
        details {
            summary { (said) }
            @if let Some(file) = &log.file { p { "The whole log is " code { (words::name(relative_name(file))) } "." } }
            @if !log.notable.is_empty() { ul.log { @for line in &log.notable { li { code { (words::one_line(line)) } } } } }
        }
    }
}
