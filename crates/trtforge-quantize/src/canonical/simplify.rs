//! Folding constants, taking out what passes tensors on, dropping what nothing needs: one patch for all of it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use trtforge_onnx::proto::TensorProto;
use trtforge_onnx::{Graph, Model, Patch, is_op, node_label};

use super::dead::{Needed, captured};
use super::fold::{Folds, Names, fold};
use super::passing::passes_on;
use super::{CanonicalOptions, Log, Rewrite, RewriteKind};
use crate::QuantizeError;

/// The model without what it does not need; borrowed when there is nothing to take out.
pub(super) fn simplify<'a>(
    model: &'a Model,
    options: &CanonicalOptions,
    log: &mut Log,
) -> Result<Cow<'a, Model>, QuantizeError> {
    let graph = model.graph();
    let plan = Plan::new(model, &graph, options);
    log.near_misses.extend(plan.folds.near_misses.iter().cloned());
    if !plan.changes() {
        return Ok(Cow::Borrowed(model));
    }
    plan.report(log);
    let mut patch = Patch::new(model);
    plan.apply(&mut patch);
    Ok(Cow::Owned(patch.finish()?))
}

struct Plan<'g, 'm> {
    graph: &'g Graph<'m>,
    /// Nodes that pass their input on, with the reason.
    passing: BTreeMap<usize, &'static str>,
    names: Names<'m>,
    folds: Folds<'m>,
    /// Nodes whose value is a constant or another node's.
    folded: HashSet<usize>,
    needed: Needed<'m>,
    /// Constants that become initializers: output of the node to the name they get, in graph order.
    stored: Vec<(&'m str, &'m str)>,
    /// Weights that nothing needs.
    idle: Vec<&'m str>,
}

impl<'g, 'm> Plan<'g, 'm> {
    fn new(model: &'m Model, graph: &'g Graph<'m>, options: &CanonicalOptions) -> Self {
        let mut names = Names::default();
        let mut passing = BTreeMap::new();
        for (index, node) in graph.nodes().iter().enumerate() {
            if let Some(reason) = passes_on(graph, node, model.opset()) {
                names.same.insert(&node.output[0], &node.input[0]);
                passing.insert(index, reason);
            }
        }
        let folds = fold(graph, &mut names, &passing.keys().copied().collect(), options);
        let mut folded: HashSet<usize> = folds.twins.iter().map(|(index, _)| *index).collect();
        folded.extend(folds.values.values().filter_map(|folded| folded.nodes.last()));
        let needed = Needed::of(model.graph_proto(), &|name| names.resolve(name), &|index| {
            !passing.contains_key(&index) && !folded.contains(&index)
        });
        let stored = stored(graph, &folds, &needed);
        let kept: HashSet<&str> = stored.iter().map(|(_, name)| *name).collect();
        let idle = model.graph_proto().initializer.iter().map(TensorProto::name);
        let idle =
            idle.filter(|name| !needed.tensors.contains(name) && !kept.contains(name)).collect();
        Self { graph, passing, names, folds, folded, needed, stored, idle }
    }

    fn changes(&self) -> bool {
        let all_needed = self.needed.nodes.iter().all(|&needed| needed);
        !(all_needed && self.idle.is_empty())
    }

    fn label(&self, node: usize) -> String {
        node_label(&self.graph.nodes()[node], node)
    }

    /// Whether a node is dropped because nothing needs it, and for no better reason.
    fn is_dead(&self, node: usize) -> bool {
        !self.needed.nodes[node]
            && !self.passing.contains_key(&node)
            && !self.folded.contains(&node)
    }

    fn apply(&self, patch: &mut Patch) {
        let renamed: HashMap<&str, &str> = self.stored.iter().copied().collect();
        let place = |name: &'m str| {
            let resolved = self.names.resolve(name);
            renamed.get(resolved).copied().unwrap_or(resolved)
        };
        for (index, node) in self.graph.nodes().iter().enumerate() {
            if !self.needed.nodes[index] {
                patch.remove_node(index);
                continue;
            }
            for (input, name) in node.input.iter().enumerate().filter(|(_, n)| !n.is_empty()) {
                if place(name) != name {
                    patch.replace_input(index, input, place(name));
                }
            }
            for name in captured(node) {
                if place(name) != name {
                    patch.replace_captured(index, name, place(name));
                }
            }
        }
        for (output, name) in &self.stored {
            let value = &self.folds.values[output].value;
            let (element_type, dims) = (value.element_type, value.dims.clone());
            let bytes = value.bytes.clone();
            match self.graph.initializer(name) {
                Some(_) => patch.set_initializer(name, element_type, dims, bytes),
                None => patch.add_initializer(*name, element_type, dims, bytes),
            }
        }
        patch.remove_unused_initializers();
    }

    fn report(&self, log: &mut Log) {
        let stored: HashMap<&str, &str> = self.stored.iter().copied().collect();
        for (index, node) in self.graph.nodes().iter().enumerate() {
            let Some(output) = node.output.first().map(String::as_str) else { continue };
            let tensor = self.names.resolve(output);
            let own_names = [node.name(), output];
            if let Some(reason) = self.passing.get(&index) {
                log.origins.pass(own_names, tensor);
                log.add(RewriteKind::PassThroughRemoved, vec![self.label(index)], tensor, reason);
            } else if tensor != output {
                log.origins.pass(own_names, tensor);
                let reason = "it computes the same constant as another node";
                log.add(RewriteKind::ConstantFolded, vec![self.label(index)], tensor, reason);
            } else if let Some(name) = stored.get(output) {
                self.report_stored(index, output, name, log);
            } else if self.is_dead(index) {
                let names = node.output.iter().map(String::as_str).chain([node.name()]);
                log.origins.lose(names, "led to no output of the model and was dropped");
                let reason = "it leads to no output of the model";
                log.add(RewriteKind::DeadRemoved, vec![self.label(index)], "", reason);
            } else if !self.needed.nodes[index] {
                log.origins.lose(own_names, "was folded into a constant");
            }
        }
        for name in &self.idle {
            let unread = self.graph.consumers(name).is_empty();
            if unread && !self.graph.captured_by_subgraph(name) {
                log.add(RewriteKind::DeadRemoved, vec![], name, "no node reads this weight");
            }
            log.origins
                .lose([*name], "led to no output of the model, or was folded into a constant");
        }
    }

    fn report_stored(&self, index: usize, output: &str, name: &str, log: &mut Log) {
        let node = &self.graph.nodes()[index];
        let folded = &self.folds.values[output];
        log.origins.pass([node.name(), output], name);
        if is_op(node, "Constant") {
            let reason = "an initializer is the same constant";
            return log.add(RewriteKind::ConstantStored, vec![self.label(index)], name, reason);
        }
        for &before in &folded.nodes[..folded.nodes.len() - 1] {
            let node = &self.graph.nodes()[before];
            let names = node.output.iter().map(String::as_str).chain([node.name()]);
            log.origins.lose(names, &format!("was folded into the constant `{name}`"));
        }
        let labels = folded.nodes.iter().map(|&node| self.label(node)).collect();
        log.add(RewriteKind::ConstantFolded, labels, name, "all its inputs are constant");
    }
}

/// The constants that something still reads, under the name of the weight they are a form of where that one goes.
fn stored<'m>(
    graph: &Graph<'m>,
    folds: &Folds<'m>,
    needed: &Needed<'m>,
) -> Vec<(&'m str, &'m str)> {
    let outputs = graph.nodes().iter().filter_map(|node| node.output.first());
    let outputs: Vec<&str> = outputs
        .map(String::as_str)
        .filter(|output| folds.values.contains_key(output) && needed.tensors.contains(output))
        .collect();
    let mut forms: HashMap<&str, usize> = HashMap::new();
    for source in outputs.iter().filter_map(|output| folds.values[output].source) {
        *forms.entry(source).or_default() += 1;
    }
    let name = |output: &'m str| {
        let folded = &folds.values[output];
        let source = folded.source.filter(|source| {
            folded.value.dims.len() >= 2 && forms[source] == 1 && !needed.tensors.contains(source)
        });
        (output, source.unwrap_or(output))
    };
    outputs.into_iter().map(name).collect()
}

impl Log {
    pub(super) fn add(
        &mut self,
        kind: RewriteKind,
        nodes: Vec<String>,
        tensor: &str,
        reason: &str,
    ) {
        let (tensor, reason) = (tensor.to_owned(), reason.to_owned());
        self.rewrites.push(Rewrite { kind, nodes, tensor, reason });
    }
}
