//! Where a graph can be cut, so that only what lies behind some tensors has to be computed again.

use std::collections::BTreeSet;

use trtforge_onnx::{Graph, Model};

/// The tensors that cross from before `starts` to behind them: with them and `starts` given, computing `wanted` runs
/// only nodes that depend on `starts`.
///
/// Graph inputs are among them where nodes behind the cut read them; constants and what follows from constants alone are
/// not, since every run has those. The order is that of the names, so that it is the same every time.
pub fn crossing(model: &Model, starts: &[&str], wanted: &[&str]) -> Vec<String> {
    let graph = model.graph();
    let variable = reached(&graph, graph.inputs().iter().map(|input| input.name.as_str()));
    let behind = reached(&graph, starts.iter().copied());
    let mut crossing = BTreeSet::new();
    let mut seen: BTreeSet<String> = starts.iter().map(|name| (*name).to_owned()).collect();
    let mut ahead: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
    while let Some(name) = ahead.pop() {
        if !variable.contains(&name) || !seen.insert(name.clone()) {
            continue;
        }
        match graph.producer(&name) {
            Some(node) if behind.contains(&name) => ahead.extend(reads(&graph, node, &variable)),
            _ => {
                crossing.insert(name);
            }
        }
    }
    crossing.into_iter().collect()
}

/// Everything that depends on `from`, and `from` itself.
fn reached<'n>(graph: &Graph<'_>, from: impl Iterator<Item = &'n str>) -> BTreeSet<String> {
    let mut seen: BTreeSet<String> = from.map(str::to_owned).collect();
    let mut ahead: Vec<String> = seen.iter().cloned().collect();
    while let Some(name) = ahead.pop() {
        let readers = graph.consumers(&name).iter().map(|read| read.node);
        for node in readers.chain(graph.capturing_nodes(&name).iter().copied()) {
            let outputs = graph.nodes()[node].output.iter().filter(|output| !output.is_empty());
            for output in outputs {
                if seen.insert(output.clone()) {
                    ahead.push(output.clone());
                }
            }
        }
    }
    seen
}

/// The tensors that a node reads; those that its subgraphs read are looked for among `variable`.
fn reads(graph: &Graph<'_>, node: usize, variable: &BTreeSet<String>) -> Vec<String> {
    let proto = &graph.nodes()[node];
    let captured = variable.iter().filter(|name| graph.capturing_nodes(name).contains(&node));
    proto.input.iter().filter(|name| !name.is_empty()).chain(captured).cloned().collect()
}

#[cfg(test)]
mod tests {
    use trtforge_onnx::build::{graph, model, node, tensor_f32, value};
    use trtforge_onnx::{Dim, ElementType};

    use super::*;

    /// `a = x·w`, `b = a + x`, `c = b·w`, `y = c + a`, and `z = x + x` beside them.
    fn diamond() -> Model {
        let port =
            |name: &str| value(name, ElementType::F32, &[Dim::Named("n".into()), Dim::Fixed(2)]);
        let nodes = vec![
            node("MatMul", "", &["x", "w"], &["a"], vec![]),
            node("Add", "", &["a", "x"], &["b"], vec![]),
            node("MatMul", "", &["b", "w"], &["c"], vec![]),
            node("Add", "", &["c", "a"], &["y"], vec![]),
            node("Add", "", &["x", "x"], &["z"], vec![]),
        ];
        let weight = tensor_f32("w", &[2, 2], &[1.0, 0.5, -1.0, 2.0]);
        model(13, graph(vec![port("x")], vec![port("y"), port("z")], nodes, vec![weight])).unwrap()
    }

    #[test]
    fn what_crosses_is_what_nodes_behind_the_cut_read() {
        let model = diamond();
        for (starts, wanted, expected) in [
            (vec!["a"], vec!["y"], vec!["x"]),
            (vec!["b"], vec!["y"], vec!["a"]),
            (vec!["c"], vec!["y"], vec!["a"]),
            (vec!["c", "a"], vec!["y"], vec![]),
            (vec!["y"], vec!["y"], vec![]),
            // An output that does not depend on the start crosses itself.
            (vec!["c"], vec!["y", "z"], vec!["a", "z"]),
        ] {
            assert_eq!(crossing(&model, &starts, &wanted), expected, "{starts:?} to {wanted:?}");
        }
    }
}
