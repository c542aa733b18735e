//! How many positions a model's position embedding has: the longest sequence that it can take.

use trtforge_onnx::{ElementType, Graph, Model};

/// Nodes between the positions and their use; more than any exporter writes.
const LONGEST_PATH: usize = 16;

/// The number of positions of the model's position embedding; nothing where none is recognised.
///
/// Recognised is a `Gather` from a constant table `[positions, hidden]` whose indices are a constant 0, 1, 2, … that
/// was cut to length, a `Range`, or an input named for positions; and a `Slice` of such a table along its rows that
/// is then added.
pub fn position_count(model: &Model) -> Option<i64> {
    let graph = model.graph();
    let gathered =
        graph.nodes().iter().filter(|node| node.op_type() == "Gather").filter_map(|node| {
            let rows = table_rows(&graph, node.input.first()?)?;
            indexed_positions(&graph, node.input.get(1)?, rows)
        });
    let sliced = graph.nodes().iter().filter(|node| node.op_type() == "Slice").filter_map(|node| {
        let rows = table_rows(&graph, node.input.first()?)?;
        let added = |output: &String| {
            let uses = graph.consumers(output);
            uses.iter().any(|used| {
                matches!(graph.nodes()[used.node].op_type(), "Add" | "Unsqueeze" | "Reshape")
            })
        };
        node.output.first().is_some_and(added).then_some(rows)
    });
    gathered.chain(sliced).min()
}

/// The rows of a constant floating-point table of rank 2.
fn table_rows(graph: &Graph<'_>, tensor: &str) -> Option<i64> {
    let table = graph.constant(tensor)?;
    let float =
        matches!(table.element_type, ElementType::F32 | ElementType::F16 | ElementType::Bf16);
    match table.dims[..] {
        [rows, _] if float => Some(rows),
        _ => None,
    }
}

/// How many positions the indices can count, if they are positions at all.
fn indexed_positions(graph: &Graph<'_>, indices: &str, rows: i64) -> Option<i64> {
    let mut tensor = indices;
    for _ in 0..LONGEST_PATH {
        if let Some(constant) = graph.constant(tensor) {
            let values = constant.to_i64().ok()?;
            let counts = values.iter().zip(0..).all(|(&value, expected)| value == expected);
            return (counts && values.len() > 1).then(|| rows.min(values.len() as i64));
        }
        if graph.is_input(tensor) {
            return tensor.to_lowercase().contains("position").then_some(rows);
        }
        let node = &graph.nodes()[graph.producer(tensor)?];
        match node.op_type() {
            "Range" => return Some(rows),
            "Slice" | "Unsqueeze" | "Squeeze" | "Expand" | "Cast" | "Reshape" | "Identity"
            | "Tile" => {
                tensor = node.input.first()?;
            }
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use trtforge_onnx::{Dim, build};

    fn model(indices: &str, extra: Vec<trtforge_onnx::proto::NodeProto>) -> Model {
        let ids = build::value("position_ids", ElementType::I64, &[Dim::Named("s".to_owned())]);
        let tokens = build::value("input_ids", ElementType::I64, &[Dim::Named("s".to_owned())]);
        let out = build::value("y", ElementType::F32, &[Dim::Named("s".to_owned()), Dim::Fixed(2)]);
        let table = build::tensor_f32("table", &[3, 2], &[0.0; 6]);
        let arange = build::tensor_i64("arange", &[1, 5], &[0, 1, 2, 3, 4]);
        let other = build::tensor_i64("other", &[1, 3], &[0, 2, 4]);
        let mut nodes = extra;
        nodes.push(build::node("Gather", "g", &["table", indices], &["y"], vec![]));
        let graph = build::graph(vec![ids, tokens], vec![out], nodes, vec![table, arange, other]);
        build::model(13, graph).unwrap()
    }

    #[test]
    fn positions_are_told_from_tokens() {
        let cast = || {
            vec![build::node(
                "Cast",
                "c",
                &["position_ids"],
                &["p"],
                vec![build::attr_int("to", 7)],
            )]
        };
        assert_eq!(position_count(&model("arange", vec![])), Some(3));
        assert_eq!(position_count(&model("p", cast())), Some(3));
        assert_eq!(position_count(&model("input_ids", vec![])), None);
        assert_eq!(position_count(&model("other", vec![])), None);
    }

    #[test]
    fn every_base_model_has_its_64() {
        let folder =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases/BASE");
        let Ok(files) = std::fs::read_dir(&folder) else {
            eprintln!("skipped: no shared cases here");
            return;
        };
        let paths = files.map(|file| file.unwrap().path());
        for path in paths.filter(|path| path.extension().is_some_and(|e| e == "onnx")) {
            let model = Model::open(&path).unwrap();
            assert_eq!(position_count(&model), Some(64), "{}", path.display());
        }
    }
}
