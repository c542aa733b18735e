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
