//! Which nodes of the ONNX graph a layer comes from.

/// How the parser marks each node in a layer's metadata: `[ONNX Layer: <name> | <function> (<its name>) …]`.
const MARK: &str = "[ONNX Layer: ";
/// What TensorRT puts between the marks of a fused layer.
const SEPARATOR: char = '\u{1f}';

/// The names of the ONNX nodes in a layer's metadata, in order, each once. Names may hold brackets and spaces.
pub(crate) fn of_metadata(metadata: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for mark in metadata.split(MARK).skip(1) {
        let mark = mark.trim_end_matches(|c: char| c == SEPARATOR || c == ',' || c.is_whitespace());
        let inside = mark.strip_suffix(']').unwrap_or(mark);
        let name = inside.split(" | ").next().unwrap_or_default();
        if !name.is_empty() && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// The names that a layer without metadata may be of: its own name, taken apart where layers were fused, without what
/// TensorRT's graph compiler appends (`_myl0_12`).
pub(crate) fn of_name(name: &str) -> Vec<&str> {
    name.split([SEPARATOR, '+'])
        .flat_map(|part| part.split(" || "))
        .map(|part| without_suffix(part.trim()))
        .filter(|part| !part.is_empty())
        .collect()
}

fn without_suffix(name: &str) -> &str {
    let Some(at) = name.rfind("_myl").or_else(|| name.rfind("_mye")) else { return name };
    let suffix = &name[at + 4..];
    let counts = !suffix.is_empty() && suffix.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    if counts { &name[..at] } else { name }
}

/// The first and last node of a region that TensorRT compiled as one: `{ForeignNode[first...last]}`.
pub(crate) fn region(name: &str) -> Option<(&str, &str)> {
    let inside = name.split_once("ForeignNode[")?.1.rsplit_once(']')?.0;
    inside.split_once("...")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_of_every_shape_gives_its_nodes() {
        let cases: [(&str, &[&str]); 8] = [
            ("", &[]),
            ("[ONNX Layer: /q/MatMul]", &["/q/MatMul"]),
            ("[ONNX Layer: /q/MatMul]\u{1f}[ONNX Layer: /q/Add]", &["/q/MatMul", "/q/Add"]),
            ("[ONNX Layer: a][ONNX Layer: b]", &["a", "b"]),
            ("[ONNX Layer: a], [ONNX Layer: a]", &["a"]),
            ("[ONNX Layer: add | block (Block) | model (Model)]", &["add"]),
            ("[ONNX Layer: layers[0]/Mat Mul]\u{1f}[ONNX Layer: x]", &["layers[0]/Mat Mul", "x"]),
            ("[LAYER: something else]", &[]),
        ];
        for (metadata, names) in cases {
            assert_eq!(of_metadata(metadata), names, "{metadata}");
        }
    }

    #[test]
    fn names_of_fused_layers_are_taken_apart() {
        let cases: [(&str, &[&str]); 5] = [
            ("/q/MatMul", &["/q/MatMul"]),
            ("/q/MatMul_myl0_12", &["/q/MatMul"]),
            ("value+key+query_myl3_2", &["value", "key", "query"]),
            ("conv1 + relu1 || conv2", &["conv1", "relu1", "conv2"]),
            ("a_mylar", &["a_mylar"]),
        ];
        for (name, parts) in cases {
            assert_eq!(of_name(name), parts, "{name}");
        }
        let region_of = "{ForeignNode[/embeddings/Gather.../pooler/Gemm]}";
        assert_eq!(region(region_of), Some(("/embeddings/Gather", "/pooler/Gemm")));
        assert_eq!(region("/q/MatMul"), None);
    }
}
