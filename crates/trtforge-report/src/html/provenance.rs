//! What went in, what ran and for how long: enough to tell two runs apart, and to repeat one.

use maud::{Markup, html};

use super::absent;
use crate::{RunRecord, words};

pub fn section(record: &RunRecord) -> Markup {
    html! {
        @if record.inputs.files().next().is_some() { (inputs(record)) }
        (origin(record))
        @if !record.stages.is_empty() { (stages(record)) }
        @if !record.timings_ms.is_empty() { (timings(record)) }
        @if !record.profile.is_null() {
            details {
                summary { "The profile, with defaults filled in" }
                pre { (profile_text(record)) }
            }
        }
    }
}

fn profile_text(record: &RunRecord) -> String {
    let text = serde_json::to_string_pretty(&record.relative_profile()).unwrap_or_default();
    text.lines().map(words::one_line).collect::<Vec<_>>().join("\n")
}

fn inputs(record: &RunRecord) -> Markup {
    html! {
        table.stack {
            caption { "Files that went in, by the BLAKE3 fingerprint of their content" }
            thead { tr {
                th scope="col" { "Input" }
                th scope="col" { "File" }
                th.n scope="col" { "Size" }
                th.n scope="col" { "Rows" }
                th scope="col" { "Fingerprint" }
            } }
            tbody { @for (role, file) in record.inputs.files() { tr {
                th scope="row" { (role) }
                td data-label="File" { code { (words::name(&file.name)) } }
                td.n data-label="Size" { @match file.bytes { Some(size) => { (words::bytes(size)) } None => { (absent()) } } }
                td.n data-label="Rows" { @match file.rows { Some(rows) => { (words::count(rows)) } None => { (absent()) } } }
                td.fingerprint.wide data-label="Fingerprint" { code { (words::name(&file.fingerprint)) } }
            } } }
        }
    }
}

fn origin(record: &RunRecord) -> Markup {
    let machine = &record.machine;
    html! {
        dl {
            dt { "Tool" } dd { (words::name(&record.tool.name)) " " (words::name(&record.tool.version)) }
            @if let Some(engine) = &record.engine {
                dt { "Engine library" }
                dd { (words::name(&engine.backend)) " " @if let Some(version) = &engine.version { (words::name(version)) } }
            }
            dt { "Machine" }
            dd { (words::name(&machine.os)) " " (words::name(&machine.arch)) ", " (words::counted(machine.cores as u64, "core")) }
            dt { "GPU" }
            dd { @match &machine.gpu {
                Some(gpu) => { (words::name(gpu)) @if let Some(driver) = &machine.driver { ", driver " (words::name(driver)) } }
                None => "none",
            } }
            @if let Some(started) = &record.started { dt { "Started" } dd { (words::name(started)) } }
            @if let Some(stage) = &record.stopped_after { dt { "Stopped after" } dd { (words::name(stage)) } }
            dt { "Record" } dd { code { "run.json" } ", schema " (record.schema) }
        }
    }
}

fn stages(record: &RunRecord) -> Markup {
    let longest = record.stages.iter().map(|stage| stage.ms).max().unwrap_or(0).max(1) as f64;
    html! {
        table.stack {
            caption { "Stages in the order they ran" }
            thead { tr {
                th scope="col" { "Stage" }
                th scope="col" { "Outcome" }
                th scope="col" { "Time" }
            } }
            tbody { @for stage in &record.stages { tr {
                th scope="row" { (words::name(&stage.name)) }
                td data-label="Outcome" { (stage.outcome.word()) }
                td data-label="Time" {
                    span.bar aria-hidden="true" { span style=(format!("width:{:.1}%", stage.ms as f64 / longest * 100.0)) { } }
                    (words::duration(stage.ms))
                }
            } } }
        }
    }
}

fn timings(record: &RunRecord) -> Markup {
    html! {
        details {
            summary { "Finer timings" }
            table.stack {
                thead { tr { th scope="col" { "What" } th.n scope="col" { "Time" } } }
                tbody { @for (what, &ms) in &record.timings_ms { tr {
                    th scope="row" { (words::name(what)) }
                    td.n data-label="Time" { (words::duration(ms)) }
                } } }
            }
        }
    }
}
