//! A service's diagnosis for people, 80 columns wide.

use std::fmt::Write as _;

use super::{GpuFigures, HostSplit, Rung, ServiceCause, ServiceDiagnosis};
use crate::text::{cost, percent};

/// Columns of a line at most.
const WIDTH: usize = 80;

/// Lines of plain text, at most 80 columns wide.
pub fn render_service(diagnosis: &ServiceDiagnosis) -> String {
    let mut text = String::new();
    headline(diagnosis, &mut text);
    experiment(diagnosis, &mut text);
    model(diagnosis, &mut text);
    padding(diagnosis, &mut text);
    ladder(&diagnosis.ladder, &mut text);
    if let Some(figures) = &diagnosis.gpu {
        gpu(figures, &mut text);
    }
    if diagnosis.causes.is_empty() {
        text.push_str("\nNothing but the device's own work takes a hundredth of the time.\n");
    } else {
        text.push_str("\nCauses, most costly first\n");
    }
    for (index, cause) in diagnosis.causes.iter().enumerate() {
        cause_lines(index + 1, cause, &mut text);
    }
    wrapped(
        "",
        "Once the device is busy, only faster kernels help: an FP16 engine (near-lossless), then INT8 (needs the accuracy gate).",
        &mut text,
    );
    if !diagnosis.not_measured.is_empty() {
        text.push_str("\nNot measured here\n");
    }
    for item in &diagnosis.not_measured {
        wrapped("  ", &format!("{}: {}", item.what, item.reason), &mut text);
    }
    for note in &diagnosis.notes {
        wrapped("", &format!("note: {note}"), &mut text);
    }
    text
}

/// Breaks a sentence at spaces; following lines are indented two columns more.
fn wrapped(indent: &str, sentence: &str, text: &mut String) {
    let mut line = indent.to_owned();
    let mut empty = true;
    for word in sentence.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(text, "{line}");
            line = format!("{indent}  ");
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    let _ = writeln!(text, "{line}");
}

fn headline(diagnosis: &ServiceDiagnosis, text: &mut String) {
    let traffic = &diagnosis.traffic;
    wrapped(
        "",
        &format!(
            "{}: {} rows in batches of {}, padded to {} tokens (mean {:.1}, longest {})",
            diagnosis.name,
            traffic.rows,
            traffic.batch_rows,
            traffic.max_length,
            traffic.mean_tokens,
            traffic.longest_tokens
        ),
        text,
    );
    let device = &diagnosis.device;
    wrapped("", &format!("Device: {} ({})", device.name, device.evaluated_on), text);
}

fn experiment(diagnosis: &ServiceDiagnosis, text: &mut String) {
    let found = &diagnosis.experiment;
    let line = |what: &str, ms: f64, more: String, text: &mut String| {
        let _ = writeln!(text, "  {what:<28}{ms:>10.2} ms   {more}");
    };
    text.push_str("\nDevice alone against the whole loop, for a batch\n");
    let alone =
        format!("{:>8.1} rows/s ({} calls)", found.device_only_rows_per_s, found.device_only_calls);
    line("one cached batch, repeated", found.device_only_ms, alone, text);
    let whole = format!("{:>8.1} rows/s ({} batches)", found.rows_per_s, found.batches);
    line("end to end", found.end_to_end_ms, whole, text);
    line("difference: the host", found.host_ms, format!("{:>8}", percent(found.host_share)), text);
    split(&found.split, text);
}

fn split(split: &HostSplit, text: &mut String) {
    let parts = [
        ("tokenize", Some(split.tokenize_ms)),
        ("collate", Some(split.collate_ms)),
        ("copy in", split.copy_in_ms),
        ("device", Some(split.device_ms)),
        ("copy out", split.copy_out_ms),
        ("launch and wait", split.waiting_ms),
        ("post-process", Some(split.post_process_ms)),
        ("other", Some(split.other_ms)),
    ];
    for (what, ms) in parts {
        let _ = match ms {
            Some(ms) => writeln!(text, "    {what:<26}{ms:>10.3} ms"),
            None => writeln!(text, "    {what:<26}{:>10}      in the device's call", "-"),
        };
    }
}

fn model(diagnosis: &ServiceDiagnosis, text: &mut String) {
    let model = &diagnosis.model;
    text.push_str("\nDevice busy                     predicted   measured\n");
    let line = |what: &str, predicted: f64, measured: f64, text: &mut String| {
        let _ = writeln!(text, "  {what:<28}{:>11}{:>11}", percent(predicted), percent(measured));
    };
    line("blocking loop", model.blocking_predicted, model.blocking_measured, text);
    let workers = plural(model.workers_used, "worker");
    line(
        &format!("{workers} ahead of it"),
        model.overlapped_predicted,
        model.overlapped_measured,
        text,
    );
    let hide = match model.workers_to_hide {
        Some(needed) if needed > model.workers_used => {
            format!("{needed} would hide the host; this run had {workers}")
        }
        Some(1) => "1 worker hides the host; more do not help".to_owned(),
        Some(needed) => format!("{needed} workers hide the host; more do not help"),
        None => "the device takes no time: no number of workers keeps up with it".to_owned(),
    };
    wrapped("  ", &hide, text);
}

fn plural(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn padding(diagnosis: &ServiceDiagnosis, text: &mut String) {
    let padding = &diagnosis.padding;
    let _ = writeln!(text, "\nPadding is                         tokens operations");
    let mut line = |what: String, waste: &crate::PaddingWaste| {
        let _ =
            writeln!(text, "  {what:<31}{:>8}{:>11}", percent(waste.tokens), percent(waste.flops));
    };
    line(format!("padded to {}", padding.padded_to), &padding.waste);
    line("length buckets".to_owned(), &padding.remaining);
    text.push_str("\nDevice time of a row\n");
    for cost in &diagnosis.batches {
        let _ = writeln!(
            text,
            "  in batches of {:<14}{:>10.3} ms   ({} calls)",
            cost.batch_rows, cost.row_ms, cost.calls
        );
    }
}

fn ladder(rungs: &[Rung], text: &mut String) {
    let _ = writeln!(
        text,
        "\n{:<28}{:>8}{:>9}{:>9}{:>8}{:>8}{:>7}",
        "The same requests", "rows/s", "p50 ms", "p95 ms", "busy", "padding", "gain"
    );
    for rung in rungs {
        let Some(figures) = &rung.measured else {
            let reason = rung.not_run.as_deref().unwrap_or("no reason known");
            wrapped("  ", &format!("{}: not run, {reason}", rung.name), text);
            continue;
        };
        let _ = writeln!(
            text,
            "  {:<26}{:>8.1}{:>9.1}{:>9.1}{:>8}{:>8}{:>7.2}",
            rung.name,
            figures.rows_per_s,
            figures.latency_p50_ms,
            figures.latency_p95_ms,
            percent(figures.utilization),
            percent(figures.padding_share),
            figures.gain
        );
    }
    let largest = rungs
        .iter()
        .filter_map(|rung| rung.measured.map(|figures| figures.largest_difference))
        .fold(0.0, f64::max);
    let _ = writeln!(text, "  largest difference between answers of these: {largest:.1e}");
}

/// How busy the parts of the GPU were, and what its launches and copies cost.
fn gpu(figures: &GpuFigures, text: &mut String) {
    let share = |value: Option<f64>| {
        value.map_or_else(|| "-".to_owned(), |percent| format!("{percent:.0} %"))
    };
    if !figures.activity.is_empty() {
        let _ = writeln!(
            text,
            "\n{:<30}{:>8}{:>8}{:>10}{:>8}{:>8}{:>7}",
            "The GPU", "\"util\"", "SMs", "occupancy", "tensor", "INT8", "DRAM"
        );
    }
    for one in &figures.activity {
        let _ = writeln!(
            text,
            "  {:<28}{:>8}{:>8}{:>10}{:>8}{:>8}{:>7}",
            one.of,
            share(one.utilization),
            share(one.sm_active),
            share(one.sm_occupancy),
            share(one.tensor_active),
            share(one.integer_tensor_active),
            share(one.dram_bandwidth)
        );
    }
    for test in &figures.launches {
        wrapped("  ", &test.verdict(), text);
        if let Some(problem) = &test.graph_problem {
            wrapped("    ", &format!("no CUDA graph: {problem}"), text);
        }
    }
    for test in &figures.copies {
        wrapped("  ", &test.verdict(), text);
    }
}

fn cause_lines(number: usize, cause: &ServiceCause, text: &mut String) {
    wrapped(
        "",
        &format!(
            "{number}. {} lost ({}): {}",
            time(cause.lost_ms),
            percent(cause.share),
            cause.title
        ),
        text,
    );
    for evidence in &cause.evidence {
        wrapped("     ", evidence, text);
    }
    for fix in &cause.fixes {
        wrapped("     ", &format!("fix ({}): {}", cost(fix.cost), fix.what), text);
    }
    let gain = format!(
        "gain: at most {} ({:.2} times today's throughput)",
        time(cause.gain.saves_ms),
        cause.gain.times
    );
    wrapped("     ", &gain, text);
}

fn time(ms: f64) -> String {
    if ms >= 1e3 { format!("{:.2} s", ms / 1e3) } else { format!("{ms:.1} ms") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_break_at_spaces_within_the_width() {
        let mut text = String::new();
        wrapped("  ", &"word ".repeat(40), &mut text);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("    word")), "{text}");
        assert_eq!(text.split_whitespace().count(), 40);
    }
}
