//! What an engine says of its precision, in every view.

use trtforge_report::{
    Arithmetic, EngineProof, LayerRow, Machine, Precision, ProvenProduct, RunRecord, TerminalStyle,
    Tool, render_html, render_markdown, render_terminal,
};

fn record(proof: EngineProof) -> RunRecord {
    let mut record = RunRecord::new("m", Tool::default(), Machine::default());
    let int8 = record.precisions.entry(Precision::Int8).or_default();
    int8.arithmetic = Some(Arithmetic { int8_macs: 97, all_macs: 100, share: 0.97, length: 128 });
    int8.proof = Some(proof);
    record
}

fn proven() -> EngineProof {
    EngineProof {
        summary: "1 of 2 matrix multiplications run in INT8, 1 in FP16".to_owned(),
        int8_share: Some(0.75),
        unproven_share: Some(0.0),
        products: vec![
            ProvenProduct {
                node: "/q/MatMul".to_owned(),
                graph: Some("INT8".to_owned()),
                engine: "INT8".to_owned(),
                layer: Some("/q/MatMul_myl0_1".to_owned()),
                why: "its kernel takes INT8 operands".to_owned(),
            },
            ProvenProduct {
                node: "/k/Mat<b>Mul".to_owned(),
                graph: Some("INT8".to_owned()),
                engine: "FP16".to_owned(),
                layer: None,
                why: "all 2 matrices that it reads are FP16".to_owned(),
            },
        ],
        quantizers: 6,
        quantizers_left: vec!["x_q_myl0_0".to_owned()],
        reformats: 1,
        layers: vec![LayerRow {
            name: "/q/MatMul_myl0_1".to_owned(),
            kind: "gemm".to_owned(),
            origin: vec!["/q/MatMul".to_owned()],
            reads: vec!["INT8".to_owned()],
            writes: vec!["FP16".to_owned()],
            computes: Some("INT8".to_owned()),
            tactic: Some("sm80_xmma_gemm_i8f32_i8i32_f32_tn_n".to_owned()),
            why: String::new(),
        }],
        ..EngineProof::default()
    }
}

#[test]
fn every_view_has_the_summary_and_the_page_every_layer() {
    let record = record(proven());
    let sentence = "1 of 2 matrix multiplications run in INT8, 1 in FP16";
    let terminal = render_terminal(&record, &TerminalStyle::default());
    assert!(terminal.contains(&format!("INT8 engine: {sentence}")), "{terminal}");
    let markdown = render_markdown(&record);
    assert!(markdown.contains(&format!("**INT8**: {sentence}")), "{markdown}");
    // What the graph has in INT8 and the engine not is named.
    assert!(markdown.contains("is INT8 in the graph and FP16 in the engine"), "{markdown}");
    assert!(!markdown.contains("`/q/MatMul` is INT8 in the graph"), "{markdown}");
    let page = render_html(&record);
    for words in [
        "What the engine runs in",
        sentence,
        "sm80_xmma_gemm_i8f32_i8i32_f32_tn_n",
        "/q/MatMul_myl0_1",
        "Find a layer, node or kernel",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(page.contains("/k/Mat&lt;b&gt;Mul") && !page.contains("/k/Mat<b>Mul"));
    // The graph's own share stands beside it, as what it is.
    assert!(page.contains("In the graph it was built from"));
}

#[test]
fn an_engine_that_could_not_be_asked_says_why() {
    let record = record(EngineProof::missing("no GPU is here to ask the engine on"));
    for view in [
        render_terminal(&record, &TerminalStyle { width: 120, ..TerminalStyle::default() }),
        render_markdown(&record),
        render_html(&record),
    ] {
        assert!(view.contains("not proven: no GPU is here"), "{view}");
    }
    assert!(!render_html(&record).contains("Find a layer"));
}

#[test]
fn a_proof_survives_the_record() {
    let record = record(proven());
    let json = record.to_json();
    assert_eq!(RunRecord::from_json(&json).unwrap(), record);
}
