//! What was benchmarked, in a sentence.

use super::{duration, name, place};
use crate::Benchmark;

/// Device, library, time and turns.
pub fn benchmark(found: &Benchmark) -> String {
    let (device, settings) = (&found.device, &found.settings);
    let mut text = format!("On {} ({})", name(&device.name), place(found.measured_on));
    let parts = [
        ("compute capability ", &device.compute_capability),
        ("driver ", &device.driver),
        ("CUDA ", &device.cuda),
        ("", &device.library),
    ];
    for (what, value) in parts {
        if let Some(value) = value {
            text.push_str(&format!(", {what}{}", name(value)));
        }
    }
    text.push_str(&format!(
        "; {} of warm-up, then {} counted for each, in {} turns.",
        duration(settings.warmup_ms),
        duration(settings.duration_ms),
        settings.rounds
    ));
    text
}
