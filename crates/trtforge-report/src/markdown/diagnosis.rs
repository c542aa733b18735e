//! Where a service's time goes, as the page says it without its timelines.

use std::fmt::Write as _;

use super::{plain, row, rule};
use crate::diagnosis::{Diagnosis, Rung};
use crate::{RunRecord, words};

pub fn section(record: &RunRecord, text: &mut String) {
    let Some(found) = Diagnosis::of(record) else { return };
    let traffic = &found.traffic;
    let _ = writeln!(
        text,
        "\n## Where the time goes\n\n{} in batches of {}, padded to {} tokens, on the {} ({}).",
        words::counted(traffic.rows, "request"),
        traffic.batch_rows,
        traffic.max_length,
        plain(&words::name(&found.device.name)),
        plain(&words::name(&found.device.evaluated_on))
    );
    if let Some(words) = found.experiment_words() {
        let _ = writeln!(text, "{}", plain(&words));
    }
    let model = &found.model;
    let _ = writeln!(
        text,
        "Device busy {} in the blocking loop (the model says {}), {} in the overlapped one with {} (the model says {}).\n",
        words::share(model.blocking_measured),
        words::share(model.blocking_predicted),
        words::share(model.overlapped_measured),
        words::counted(model.workers_used, "worker"),
        words::share(model.overlapped_predicted)
    );
    ladder(&found.ladder, text);
    causes(&found, text);
    for one in &found.not_measured {
        let _ = writeln!(
            text,
            "- not measured: {} ({})",
            plain(&words::one_line(&one.what)),
            plain(&words::one_line(&one.reason))
        );
    }
    for note in &found.notes {
        let _ = writeln!(text, "- {}", plain(&words::sentence(note)));
    }
}

fn ladder(rungs: &[Rung], text: &mut String) {
    let columns =
        ["step", "rows/s", "latency p50, p95", "device busy", "padding", "gain"].map(str::to_owned);
    row(text, &columns);
    rule(text, columns.len());
    for rung in rungs {
        let name = plain(&words::name(&rung.name));
        let Some(figures) = &rung.measured else {
            let reason = rung.not_run.as_deref().unwrap_or("no reason given");
            let not_run = format!("not run: {}", plain(&words::one_line(reason)));
            row(text, &[&name, not_run.as_str(), "", "", "", ""].map(str::to_owned));
            continue;
        };
        row(
            text,
            &[
                name,
                format!("{:.1}", figures.rows_per_s),
                format!("{:.1}, {:.1} ms", figures.latency_p50_ms, figures.latency_p95_ms),
                words::share(figures.utilization),
                words::share(figures.padding_share),
                format!("{:.2}×", figures.gain),
            ],
        );
    }
    text.push('\n');
}

fn causes(found: &Diagnosis, text: &mut String) {
    if found.causes.is_empty() {
        let _ = writeln!(text, "Nothing but the device's own work takes a hundredth of the time.");
    }
    for cause in &found.causes {
        let evidence: Vec<String> =
            cause.evidence.iter().map(|line| plain(&words::one_line(line))).collect();
        let fixes: Vec<String> =
            cause.fixes.iter().map(|fix| plain(&words::one_line(&fix.what))).collect();
        let _ = writeln!(
            text,
            "- **{}** takes {} of the time ({}). To do: {}; at most {:.2}×.",
            plain(&words::one_line(&cause.title)),
            words::share(cause.share),
            evidence.join("; "),
            fixes.join("; "),
            cause.gain.times
        );
    }
}
