//! A diagnosis for people.

use std::fmt::Write as _;

use crate::diagnosis::{CauseReport, Cost, DeviceReport, Diagnosis};

/// Functions shown with a cause; the JSON has more.
const FUNCTIONS_SHOWN: usize = 4;

/// Longest name shown; kernels and templates go on for lines.
const NAME_WIDTH: usize = 72;

/// Lines of plain text, at most about 100 columns wide.
pub fn render_text(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    headline(diagnosis, &mut text);
    for device in &diagnosis.devices {
        device_lines(device, &mut text);
    }
    if !diagnosis.causes.is_empty() {
        text.push_str("\nCauses, most costly first\n");
    }
    for (index, cause) in diagnosis.causes.iter().enumerate() {
        cause_lines(index + 1, cause, &mut text);
    }
    workload(diagnosis, &mut text);
    for note in &diagnosis.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn headline(diagnosis: &Diagnosis, text: &mut String) {
    let part = if diagnosis.window.steps_only { "profiler steps" } else { "whole trace" };
    let _ = writeln!(
        text,
        "{}: {} events, {part}, {}",
        diagnosis.trace,
        diagnosis.events,
        time(diagnosis.window.length_us)
    );
    if diagnosis.devices.is_empty() {
        text.push_str("No work on any device.\n");
    }
}

fn device_lines(device: &DeviceReport, text: &mut String) {
    let name = device.name.as_ref().map_or(String::new(), |name| format!(" ({name})"));
    let _ = writeln!(
        text,
        "\nDevice {}{name}: busy {} of the time ({})",
        device.device,
        percent(device.busy_share),
        time(device.busy_us)
    );
    let _ = writeln!(
        text,
        "  kernels {}, copies {}, memsets {}; idle {} between first and last work, {} before, {} after",
        time(device.kernel_us),
        time(device.copy_us),
        time(device.memset_us),
        time(device.idle_us),
        time(device.before_us),
        time(device.after_us)
    );
    let _ = writeln!(
        text,
        "  {:<10} {:>7} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}",
        "stream", "works", "kernels", "copies", "idle", "host wait", "kernel wait", "other"
    );
    for stream in &device.streams {
        let _ = writeln!(
            text,
            "  {:<10} {:>7} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}",
            stream.stream.to_string(),
            stream.events,
            time(stream.kernel_us),
            time(stream.copy_us),
            time(stream.idle_us),
            time(stream.host_wait_us),
            time(stream.kernel_wait_us),
            time(stream.other_us)
        );
    }
}

fn cause_lines(number: usize, cause: &CauseReport, text: &mut String) {
    let _ = writeln!(
        text,
        "{number}. {} lost ({}): {}",
        time(cause.lost_us),
        percent(cause.share),
        cause.title
    );
    for evidence in &cause.evidence {
        let _ = writeln!(text, "     {evidence}");
    }
    for function in cause.functions.iter().take(FUNCTIONS_SHOWN) {
        let _ = writeln!(
            text,
            "     {:>10} in {} gaps  {}",
            time(function.idle_us),
            function.gaps,
            shortened(&function.name)
        );
    }
    for fix in &cause.fixes {
        let _ = writeln!(text, "     fix ({}): {}", cost(fix.cost), fix.what);
    }
    let _ = writeln!(
        text,
        "     gain: at most {} ({:.2} times today's throughput)",
        time(cause.gain.saves_us),
        cause.gain.times
    );
}

fn workload(diagnosis: &Diagnosis, text: &mut String) {
    if diagnosis.devices.is_empty() {
        return;
    }
    let launch = &diagnosis.launch;
    let _ = writeln!(
        text,
        "\n{} kernels of {} on average; a submitting call takes {}, a launch {} to start",
        launch.kernels,
        time(launch.kernel_mean_us),
        time(launch.call_median_us),
        time(launch.latency_us)
    );
    if let Some(steps) = &diagnosis.steps {
        let _ = writeln!(
            text,
            "{} profiler steps of {} on average, {:.0} kernels each",
            steps.count,
            time(steps.mean_us),
            steps.kernels_per_step
        );
    }
    for copy in &diagnosis.copies {
        let _ = writeln!(
            text,
            "{}: {} copies, {} bytes, {}, {:.2} GB/s",
            copy.name,
            copy.count,
            copy.bytes,
            time(copy.time_us),
            copy.gb_per_s
        );
    }
    text.push_str(
        "Once the device is busy, only faster kernels help: an FP16 engine (near-lossless), then INT8 (needs the accuracy gate).\n",
    );
}

pub(crate) fn cost(cost: Cost) -> &'static str {
    match cost {
        Cost::FreeAndSafe => "free and safe",
        Cost::NearLossless => "near-lossless",
        Cost::NeedsAccuracyGate => "needs the accuracy gate",
    }
}

/// Never rounded up to all: only exactly everything is 100 %.
pub(crate) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent < 100.0 { format!("{:.1} %", percent.min(99.9)) } else { "100 %".to_owned() }
}

fn time(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{:.3} s", us / 1e6),
        us if us >= 1e3 => format!("{:.2} ms", us / 1e3),
        us => format!("{us:.1} µs"),
    }
}

fn shortened(name: &str) -> String {
    match name.char_indices().nth(NAME_WIDTH) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_below_all_never_reads_as_all() {
        let cases = [(0.0, "0.0 %"), (0.5, "50.0 %"), (0.999_99, "99.9 %"), (1.0, "100 %")];
        for (share, text) in cases {
            assert_eq!(percent(share), text);
        }
    }

    #[test]
    fn times_have_readable_units() {
        let cases = [(0.5, "0.5 µs"), (999.9, "999.9 µs"), (1500.0, "1.50 ms"), (2.5e6, "2.500 s")];
        for (us, text) in cases {
            assert_eq!(time(us), text);
        }
    }
}
