//! A one-layer BERT with its own vocabulary and rows, made here so that the tests need nothing else.

use std::fs;
use std::path::Path;

use serde_json::json;
use trtforge_onnx::build::{
    attr_float, attr_int, attr_ints, graph, model, node, tensor_f32, tensor_i64, value,
};
use trtforge_onnx::proto::{NodeProto, TensorProto};
use trtforge_onnx::{Dim, ElementType, Model, Patch};

const HIDDEN: i64 = 32;
const HEADS: i64 = 2;
const FEED_FORWARD: i64 = 64;
const POSITIONS: i64 = 32;
const WORDS: &[&str] = &[
    "the", "a", "film", "plot", "cast", "good", "bad", "dull", "bright", "slow", "fast", "warm",
    "cold", "rich", "poor", "fine", "sad", "glad", "long", "short",
];

/// Numbers that look random and are the same everywhere (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Between −1 and 1.
    fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

struct Builder {
    numbers: Numbers,
    nodes: Vec<NodeProto>,
    weights: Vec<TensorProto>,
}

impl Builder {
    fn weight(&mut self, name: &str, dims: &[i64], size: f32) {
        let count = dims.iter().product::<i64>() as usize;
        let values: Vec<f32> = (0..count).map(|_| size * self.numbers.unit()).collect();
        self.weights.push(tensor_f32(name, dims, &values));
    }

    fn op(&mut self, operator: &str, output: &str, inputs: &[&str]) {
        self.nodes.push(node(operator, &format!("/{output}"), inputs, &[output], Vec::new()));
    }

    fn gather(&mut self, node_name: &str, data: &str, index: &str, output: &str, axis: i64) {
        let attributes = vec![attr_int("axis", axis)];
        self.nodes.push(node("Gather", node_name, &[data, index], &[output], attributes));
    }

    fn linear(&mut self, name: &str, input: &str, (from, to): (i64, i64)) {
        self.weight(&format!("{name}.weight"), &[from, to], 1.5 / (from as f32).sqrt());
        self.weight(&format!("{name}.bias"), &[to], 0.1);
        self.op("MatMul", &format!("{name}.product"), &[input, &format!("{name}.weight")]);
        self.op("Add", name, &[&format!("{name}.product"), &format!("{name}.bias")]);
    }

    fn layer_norm(&mut self, name: &str, input: &str) {
        self.weights.push(tensor_f32(
            &format!("{name}.weight"),
            &[HIDDEN],
            &[1.0; HIDDEN as usize],
        ));
        self.weights.push(tensor_f32(&format!("{name}.bias"), &[HIDDEN], &[0.0; HIDDEN as usize]));
        let inputs = [input, &format!("{name}.weight"), &format!("{name}.bias")];
        let attributes = vec![attr_int("axis", -1), attr_float("epsilon", 1e-12)];
        self.nodes.push(node(
            "LayerNormalization",
            &format!("/{name}"),
            &inputs,
            &[name],
            attributes,
        ));
    }

    fn heads(&mut self, name: &str, input: &str, perm: &[i64]) {
        self.op("Reshape", &format!("{name}.split"), &[input, "split_shape"]);
        let attributes = vec![attr_ints("perm", perm)];
        let split = format!("{name}.split");
        self.nodes.push(node("Transpose", &format!("/{name}"), &[&split], &[name], attributes));
    }

    fn attention(&mut self) {
        for name in ["query", "key", "value"] {
            self.linear(name, "embedded", (HIDDEN, HIDDEN));
        }
        self.heads("q", "query", &[0, 2, 1, 3]);
        self.heads("k", "key", &[0, 2, 3, 1]);
        self.heads("v", "value", &[0, 2, 1, 3]);
        self.op("MatMul", "scores", &["q", "k"]);
        self.op("Div", "scaled", &["scores", "root"]);
        self.op("Add", "masked", &["scaled", "mask"]);
        self.nodes.push(node(
            "Softmax",
            "/softmax",
            &["masked"],
            &["softmax"],
            vec![attr_int("axis", -1)],
        ));
        self.op("MatMul", "mixed", &["softmax", "v"]);
        let attributes = vec![attr_ints("perm", &[0, 2, 1, 3])];
        self.nodes.push(node("Transpose", "/mixed_back", &["mixed"], &["mixed_back"], attributes));
        self.op("Reshape", "context", &["mixed_back", "join_shape"]);
        self.linear("attention", "context", (HIDDEN, HIDDEN));
        self.op("Add", "attended", &["attention", "embedded"]);
        self.layer_norm("attention_norm", "attended");
    }

    fn feed_forward(&mut self) {
        self.linear("intermediate", "attention_norm", (HIDDEN, FEED_FORWARD));
        self.op("Div", "over_root_two", &["intermediate", "root_two"]);
        self.op("Erf", "erf", &["over_root_two"]);
        self.op("Add", "erf_plus_one", &["erf", "one"]);
        self.op("Mul", "gelu_twice", &["intermediate", "erf_plus_one"]);
        self.op("Mul", "gelu", &["gelu_twice", "half"]);
        self.linear("output", "gelu", (FEED_FORWARD, HIDDEN));
        self.op("Add", "summed", &["output", "attention_norm"]);
        self.layer_norm("output_norm", "summed");
    }

    fn embeddings(&mut self) {
        self.weight("word_embeddings", &[5 + WORDS.len() as i64, HIDDEN], 1.0);
        self.weight("position_embeddings", &[POSITIONS, HIDDEN], 0.3);
        self.op("Gather", "words", &["word_embeddings", "input_ids"]);
        self.op("Shape", "shape", &["input_ids"]);
        self.op("Gather", "length", &["shape", "one_index"]);
        self.op("Range", "positions", &["zero", "length", "one_step"]);
        self.op("Gather", "places", &["position_embeddings", "positions"]);
        self.op("Add", "sum", &["words", "places"]);
        self.layer_norm("embedded", "sum");
        self.op("Unsqueeze", "mask_4d", &["attention_mask", "mask_axes"]);
        self.nodes.push(node(
            "Cast",
            "/mask_float",
            &["mask_4d"],
            &["mask_float"],
            vec![attr_int("to", 1)],
        ));
        self.op("Sub", "mask_inverted", &["one", "mask_float"]);
        self.op("Mul", "mask", &["mask_inverted", "lowest"]);
    }

    fn constants(&mut self) {
        for (name, number) in [
            ("root", 4.0),
            ("root_two", std::f32::consts::SQRT_2),
            ("one", 1.0),
            ("half", 0.5),
            ("lowest", -10_000.0),
        ] {
            self.weights.push(tensor_f32(name, &[], &[number]));
        }
        for (name, number) in [("zero", 0), ("one_index", 1), ("one_step", 1), ("first", 0)] {
            self.weights.push(tensor_i64(name, &[], &[number]));
        }
        self.weights.push(tensor_i64("split_shape", &[4], &[0, 0, HEADS, HIDDEN / HEADS]));
        self.weights.push(tensor_i64("join_shape", &[3], &[0, 0, HIDDEN]));
        self.weights.push(tensor_i64("mask_axes", &[2], &[1, 2]));
    }
}

/// Writes `model.onnx`, `vocab.txt`, `tokenizer.json`, `calib.jsonl` and `eval.jsonl` (unlabelled truth: labels by
/// rule, so accuracy means little) into a folder.
pub fn write(folder: &Path) {
    write_head(&folder.join("model.onnx"), Head::Classes(2));
    let mut vocabulary: Vec<&str> = vec!["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
    vocabulary.extend(WORDS);
    fs::write(folder.join("vocab.txt"), vocabulary.join("\n")).unwrap();
    let vocabulary: serde_json::Map<_, _> =
        vocabulary.iter().enumerate().map(|(id, word)| ((*word).to_owned(), json!(id))).collect();
    fs::write(folder.join("tokenizer.json"), tokenizer(&vocabulary).to_string()).unwrap();
    write_rows(&folder.join("calib.jsonl"), 40, 1);
    write_rows(&folder.join("eval.jsonl"), 60, 2);
}

/// What a model says in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// `logits` `[batch, n]`, from the pooler.
    Classes(i64),
    /// `logits` `[batch, tokens, n]`.
    Tokens(i64),
    /// `start_logits` and `end_logits`, `[batch, tokens]` each.
    Spans,
    /// `last_hidden_state` `[batch, tokens, hidden]`.
    Hidden,
}

/// Writes a model with this head.
pub fn write_head(path: &Path, head: Head) {
    let mut builder = Builder { numbers: Numbers(7), nodes: Vec::new(), weights: Vec::new() };
    builder.constants();
    builder.embeddings();
    builder.attention();
    builder.feed_forward();
    let (batch, sequence) = (Dim::Named("batch".into()), Dim::Named("sequence".into()));
    let output = |name: &str, dims: &[Dim]| value(name, ElementType::F32, dims);
    let outputs = match head {
        Head::Classes(count) => {
            builder.gather("/first", "output_norm", "first", "first_token", 1);
            builder.linear("pooler", "first_token", (HIDDEN, HIDDEN));
            builder.op("Tanh", "pooled", &["pooler"]);
            builder.linear("classifier", "pooled", (HIDDEN, count));
            builder.op("Identity", "logits", &["classifier"]);
            vec![output("logits", &[batch.clone(), Dim::Fixed(count)])]
        }
        Head::Tokens(count) => {
            builder.linear("classifier", "output_norm", (HIDDEN, count));
            builder.op("Identity", "logits", &["classifier"]);
            vec![output("logits", &[batch.clone(), sequence.clone(), Dim::Fixed(count)])]
        }
        Head::Spans => {
            builder.linear("qa_outputs", "output_norm", (HIDDEN, 2));
            builder.gather("/start", "qa_outputs", "first", "start_logits", 2);
            builder.gather("/end", "qa_outputs", "one_index", "end_logits", 2);
            let dims = [batch.clone(), sequence.clone()];
            vec![output("start_logits", &dims), output("end_logits", &dims)]
        }
        Head::Hidden => {
            builder.op("Identity", "last_hidden_state", &["output_norm"]);
            let dims = [batch.clone(), sequence.clone(), Dim::Fixed(HIDDEN)];
            vec![output("last_hidden_state", &dims)]
        }
    };
    let input = |name| value(name, ElementType::I64, &[batch.clone(), sequence.clone()]);
    let inputs = vec![input("input_ids"), input("attention_mask")];
    let graph = graph(inputs, outputs, builder.nodes, builder.weights);
    model(17, graph).unwrap().save(path).unwrap();
}

fn tokenizer(vocabulary: &serde_json::Map<String, serde_json::Value>) -> serde_json::Value {
    json!({
        "version": "1.0",
        "added_tokens": [],
        "normalizer": { "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": { "type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2] },
        "decoder": null,
        "model": { "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocabulary },
    })
}

fn write_rows(path: &Path, count: usize, seed: u64) {
    let mut numbers = Numbers(seed);
    let mut text = String::new();
    for _ in 0..count {
        let words: Vec<&str> = (0..3 + numbers.next() % 12)
            .map(|_| WORDS[(numbers.next() % WORDS.len() as u64) as usize])
            .collect();
        let label = numbers.next() % 2;
        text.push_str(&json!({ "text": words.join(" "), "label": label }).to_string());
        text.push('\n');
    }
    fs::write(path, text).unwrap();
}

/// Takes `lead` away from the second class.
pub fn shift_bias(path: &Path, lead: f32) {
    let model = Model::open(path).unwrap();
    let bias = model.graph().initializer("classifier.bias").unwrap().to_f32().unwrap().to_vec();
    let bytes: Vec<u8> = [bias[0], bias[1] - lead].iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut patch = Patch::new(&model);
    patch.set_initializer("classifier.bias", ElementType::F32, vec![2], bytes);
    patch.finish().unwrap().save(path).unwrap();
}
