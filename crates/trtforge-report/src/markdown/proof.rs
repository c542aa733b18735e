//! What the engine itself says of its precision, without the single layers.

use std::fmt::Write as _;

use super::plain;
use crate::{RunRecord, words};

/// Products listed that the graph has in INT8 and the engine not; `report.html` has them all.
const PRODUCTS: usize = 10;

pub fn section(record: &RunRecord, text: &mut String) {
    if record.precisions.values().all(|one| one.proof.is_none()) {
        return;
    }
    let _ = writeln!(text, "\n## What the engine runs in\n");
    for (precision, one) in &record.precisions {
        let Some(proof) = &one.proof else { continue };
        let _ =
            write!(text, "- **{}**: {}", precision.name(), plain(&words::sentence(&proof.summary)));
        if let (Some(share), Some(unproven)) = (proof.int8_share, proof.unproven_share) {
            let _ = write!(
                text,
                " By multiply-accumulates {} is proven to run in INT8, and of {} nothing is proven.",
                words::share(share),
                words::share(unproven)
            );
        }
        text.push('\n');
        let lost = proof
            .products
            .iter()
            .filter(|product| product.graph.as_deref() == Some("INT8") && product.engine != "INT8");
        for product in lost.take(PRODUCTS) {
            let _ = writeln!(
                text,
                "  - `{}` is INT8 in the graph and {} in the engine: {}",
                plain(&product.node),
                plain(&product.engine),
                plain(&words::shorten(&product.why, 160))
            );
        }
    }
}
