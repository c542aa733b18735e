//! `benchmark:` in the schema.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::parts::{boolean, integer, object, with_default};
use crate::profile::BenchmarkSection;

/// The section.
pub fn benchmark() -> Json {
    let usual = BenchmarkSection::default();
    let shapes = json!({
        "description": "Shapes to time, [batch, length] each; none means what each optimization profile is tuned for.",
        "type": "array",
        "items": {
            "type": "array",
            "items": { "type": "integer", "minimum": 1, "maximum": 1_000_000 },
            "minItems": 2,
            "maxItems": 2,
        },
        "default": [],
    });
    let ms = |description: &str, usual: Duration| {
        with_default(integer(description, 0..=3_600_000), usual.as_millis() as u64)
    };
    object(
        "How fast engines are: timed on the device, by turns.",
        &[],
        &[
            ("shapes", shapes),
            (
                "warmup_ms",
                ms(
                    "Time before anything is counted, for each engine, shape and way of running.",
                    usual.warmup,
                ),
            ),
            (
                "duration_ms",
                ms(
                    "Time that is counted, for each; 0 turns the benchmark of a build off.",
                    usual.duration,
                ),
            ),
            (
                "rounds",
                with_default(
                    integer(
                        "Turns in which that time is spent; each compares the engines once.",
                        1..=1000,
                    ),
                    usual.rounds,
                ),
            ),
            (
                "cuda_graph",
                with_default(boolean("Also replay launches from a CUDA graph."), usual.cuda_graph),
            ),
        ],
    )
}
