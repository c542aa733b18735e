//! Topological order of nodes, changing as little as possible.

use std::collections::HashMap;

use crate::attribute::node_label;
use crate::error::OnnxError;
use crate::proto::NodeProto;
use crate::walk::captured_names;

/// The order in which nodes can run: each as early as in the given order, its unmet dependencies moved just before it.
/// A list that is in order already comes back unchanged.
pub(crate) fn topological_order(nodes: &[NodeProto]) -> Result<Vec<usize>, OnnxError> {
    let mut producer = HashMap::new();
    for (index, node) in nodes.iter().enumerate() {
        for output in node.output.iter().filter(|o| !o.is_empty()) {
            producer.entry(output.as_str()).or_insert(index);
        }
    }
    let dependencies: Vec<Vec<usize>> = nodes
        .iter()
        .map(|node| {
            let inputs = node.input.iter().map(String::as_str);
            inputs
                .chain(captured_names(node))
                .filter_map(|name| producer.get(name).copied())
                .collect()
        })
        .collect();
    let mut order = Vec::with_capacity(nodes.len());
    let mut state = vec![State::New; nodes.len()];
    for root in 0..nodes.len() {
        visit(root, &dependencies, &mut state, &mut order).map_err(|cycle| OnnxError::Cycle {
            nodes: cycle.iter().map(|&i| node_label(&nodes[i], i)).collect(),
        })?;
    }
    Ok(order)
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    New,
    Open,
    Done,
}

/// Depth first without recursion, so that a long chain of nodes cannot exhaust the stack. Fails with the nodes of a cycle.
fn visit(
    root: usize,
    dependencies: &[Vec<usize>],
    state: &mut [State],
    order: &mut Vec<usize>,
) -> Result<(), Vec<usize>> {
    if state[root] == State::Done {
        return Ok(());
    }
    state[root] = State::Open;
    let mut path = vec![(root, 0)];
    while let Some((node, next)) = path.last_mut() {
        let Some(&dependency) = dependencies[*node].get(*next) else {
            state[*node] = State::Done;
            order.push(*node);
            path.pop();
            continue;
        };
        *next += 1;
        match state[dependency] {
            State::Done => {}
            State::New => {
                state[dependency] = State::Open;
                path.push((dependency, 0));
            }
            State::Open => {
                let start = path.iter().position(|&(n, _)| n == dependency).unwrap_or(0);
                // Walked against the data flow; reversed, the message reads in the direction of the data.
                let mut cycle: Vec<usize> = path[start..].iter().rev().map(|&(n, _)| n).collect();
                cycle.push(cycle[0]);
                return Err(cycle);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{attr_graph, graph, node};

    fn order(nodes: &[(&[&str], &str)]) -> Result<Vec<usize>, OnnxError> {
        let nodes: Vec<_> = nodes
            .iter()
            .map(|(inputs, output)| node("Op", output, inputs, &[output], vec![]))
            .collect();
        topological_order(&nodes)
    }

    #[test]
    fn order_is_kept_where_it_can_be() {
        assert_eq!(order(&[(&["x"], "a"), (&["x"], "b"), (&["b"], "c")]).unwrap(), [0, 1, 2]);
        // Added at the end, wanted by node 1: goes just before it.
        assert_eq!(
            order(&[(&["x"], "a"), (&["n"], "b"), (&["b"], "c"), (&["a"], "n")]).unwrap(),
            [0, 3, 1, 2]
        );
    }

    #[test]
    fn subgraphs_count_as_readers() {
        let body = graph(vec![], vec![], vec![node("Relu", "", &["late"], &["r"], vec![])], vec![]);
        let reader = node("If", "", &["c"], &["y"], vec![attr_graph("then_branch", body)]);
        let nodes = [reader, node("Relu", "", &["x"], &["late"], vec![])];
        assert_eq!(topological_order(&nodes).unwrap(), [1, 0]);
    }

    #[test]
    fn a_cycle_is_told_in_the_direction_of_the_data() {
        let error = order(&[(&["c"], "a"), (&["a"], "b"), (&["b"], "c")]).unwrap_err();
        assert_eq!(error.to_string(), "nodes form a cycle: b -> c -> a -> b");
    }

    #[test]
    fn long_chains_do_not_exhaust_the_stack() {
        let nodes: Vec<_> = (0..200_000)
            .rev()
            .map(|i| node("Op", "", &[&format!("t{i}")], &[&format!("t{}", i + 1)], vec![]))
            .collect();
        let sorted = topological_order(&nodes).unwrap();
        assert_eq!((sorted[0], sorted[199_999]), (199_999, 0));
    }
}
