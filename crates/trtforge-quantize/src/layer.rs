//! Which layer of the network a node belongs to, guessed from the names exporters leave behind.

/// Ends of parameter names that are not part of the module path, longest first.
const PARAMETER_SUFFIXES: [&str; 9] = [
    "weight_transposed",
    "weight_T",
    "kernel:0",
    "weight",
    "kernel",
    "bias:0",
    "bias",
    "gamma",
    "beta",
];

/// A module path such as `bert.encoder.layer.0.attention.self.query`, or `None` where no name tells.
///
/// - `parameters`: names of the weight and the bias; the best source, since they survive most exporters.
/// - `node`: the node's name; `output`: its output, which stands in where nodes have no names.
pub fn guess_layer(parameters: &[&str], node: &str, output: &str) -> Option<String> {
    parameters
        .iter()
        .find_map(|name| from_parameter(name))
        .or_else(|| from_node(node))
        .or_else(|| from_node(output))
}

fn from_parameter(name: &str) -> Option<String> {
    let path = dotted(name);
    let module = PARAMETER_SUFFIXES
        .iter()
        .find_map(|suffix| path.strip_suffix(suffix).and_then(|rest| rest.strip_suffix('.')))?;
    (!module.is_empty()).then(|| module.to_owned())
}

/// Scoped node names are `/scope/of/modules/Operator`; without a scope there is nothing to learn.
fn from_node(name: &str) -> Option<String> {
    let path = dotted(name);
    let (module, _operator) = path.rsplit_once('.')?;
    (!module.is_empty()).then(|| module.to_owned())
}

fn dotted(name: &str) -> String {
    name.replace("::", ".").replace('/', ".").trim_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_several_exporters() {
        let query = Some("bert.encoder.layer.0.attention.self.query".to_owned());
        for (parameters, node, output, expected) in [
            (
                ["bert.encoder.layer.0.attention.self.query.weight_T", ""],
                "node_MatMul_62",
                "val_62",
                &query,
            ),
            (
                ["1236", "bert.encoder.layer.0.attention.self.query.bias"],
                "MatMul_259",
                "1036",
                &query,
            ),
            (["bert/encoder/layer/0/attention/self/query/kernel:0", ""], "", "", &query),
            (
                ["onnx::MatMul_203", ""],
                "/bert/encoder/layer.0/attention/self/query/MatMul",
                "x",
                &query,
            ),
            (["w", ""], "", "/bert/encoder/layer.0/attention/self/query/MatMul_output_0", &query),
            (["1236", ""], "MatMul_259", "1036", &None),
        ] {
            assert_eq!(&guess_layer(&parameters, node, output), expected, "{parameters:?} {node}");
        }
    }
}
