//! Writes a model of the size of BERT-base (438 MB: twelve layers of six weights and the embeddings, random) to measure with.
//!
//! `large_model OUT.onnx [COPIES]`: `COPIES` times as many layers, to pass 2 GB.

use std::path::PathBuf;

use trtforge_onnx::build::{graph, model, node, tensor_raw, value};
use trtforge_onnx::{Dim, ElementType};

fn main() -> miette::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(path) = arguments.first().map(PathBuf::from) else {
        eprintln!("usage: large_model OUT.onnx [COPIES]");
        return Ok(());
    };
    let layers = 12 * arguments.get(1).and_then(|n| n.parse().ok()).unwrap_or(1);
    let mut weights = vec![weight("embeddings", 30_522, 768)];
    let ids = value(
        "ids",
        ElementType::I64,
        &[Dim::Named("batch".into()), Dim::Named("sequence".into())],
    );
    let mut nodes = vec![node("Gather", "lookup", &["embeddings", "ids"], &["x0"], vec![])];
    let shapes = [(768, 768), (768, 768), (768, 768), (768, 768), (768, 3072), (3072, 768)];
    for (index, (k, n)) in shapes.iter().cycle().take(layers * shapes.len()).enumerate() {
        let name = format!("w{index}");
        nodes.push(node(
            "MatMul",
            "",
            &[&format!("x{index}"), &name],
            &[&format!("x{}", index + 1)],
            vec![],
        ));
        weights.push(weight(&name, *k, *n));
    }
    let output = value(
        &format!("x{}", layers * shapes.len()),
        ElementType::F32,
        &[Dim::Unknown, Dim::Unknown, Dim::Fixed(768)],
    );
    let written = model(17, graph(vec![ids], vec![output], nodes, weights))?.save(&path)?;
    println!("{written:?}");
    Ok(())
}

/// Small random values; the generator is a plain linear congruence, since only the size matters.
fn weight(name: &str, rows: i64, columns: i64) -> trtforge_onnx::proto::TensorProto {
    let mut state = name.bytes().fold(1_u32, |s, b| s.wrapping_mul(31).wrapping_add(u32::from(b)));
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 16_777_216.0 * 0.04 - 0.02
    };
    let bytes: Vec<u8> = (0..rows * columns).flat_map(|_| next().to_le_bytes()).collect();
    tensor_raw(name, ElementType::F32, vec![rows, columns], bytes)
}
