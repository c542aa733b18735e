//! Writes the canonical form of a model: `canonicalize MODEL.onnx OUT.onnx`. Prints what was done and how long it took.

use std::path::Path;
use std::time::Instant;

use trtforge_onnx::Model;
use trtforge_quantize::{CanonicalOptions, canonicalize};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(input), Some(output)) = (arguments.next(), arguments.next()) else {
        return Err("usage: canonicalize MODEL.onnx OUT.onnx".into());
    };
    let model = Model::open(Path::new(&input))?;
    let start = Instant::now();
    let canonical = canonicalize(&model, &CanonicalOptions::default())?;
    let ms = start.elapsed().as_secs_f64() * 1e3;
    let nodes = |model: &Model| model.graph_proto().node.len();
    println!(
        "{ms:.1} ms, {} nodes become {}, operator set {} becomes {}",
        nodes(&model),
        nodes(&canonical.model),
        model.opset(),
        canonical.model.opset()
    );
    for (kind, count) in canonical.counts() {
        println!("{count:>5} {kind}");
    }
    for miss in &canonical.near_misses {
        println!("near miss: {}: {}", miss.nodes.join(", "), miss.reason);
    }
    canonical.model.save(Path::new(&output))?;
    Ok(())
}
