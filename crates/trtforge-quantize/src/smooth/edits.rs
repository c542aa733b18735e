//! Constants scaled along an axis: in place where nobody else reads them, as a copy where someone does.

use std::collections::{BTreeMap, BTreeSet};

use trtforge_onnx::{ElementType, Patch};

use super::SUFFIX;
use super::fold::Operand;
use super::groups::Group;
use crate::analysis::{Analysis, Source};
use crate::gemm::WeightedGemm;
use crate::half_values::floats;

/// What is to be scaled in the end, and which inputs no longer read what they did.
pub(super) struct Edits<'a, 'm> {
    analysis: &'a Analysis<'m>,
    /// Axes and factors of constants that keep their name.
    in_place: BTreeMap<&'a str, Vec<(usize, Vec<f32>)>>,
    rewired: BTreeSet<(usize, usize)>,
}

impl<'a, 'm> Edits<'a, 'm> {
    pub fn new(analysis: &'a Analysis<'m>) -> Self {
        Self { analysis, in_place: BTreeMap::new(), rewired: BTreeSet::new() }
    }

    /// Multiplies the rows of all weights of a group's moved members; how many of them had to be copied.
    pub fn weights(
        &mut self,
        patch: &mut Patch,
        group: &Group,
        gemms: &'a [WeightedGemm],
        factors: &[f32],
    ) -> usize {
        let mut readers: BTreeMap<&str, Vec<&'a WeightedGemm>> = BTreeMap::new();
        for member in group.moved() {
            let gemm = &gemms[member.position];
            readers.entry(&gemm.weight).or_default().push(gemm);
        }
        let mut copied = 0;
        for (weight, readers) in readers {
            let (along, _) = stored_axes(readers[0]);
            let inputs: BTreeSet<(usize, usize)> = readers.iter().map(|r| (r.node, 1)).collect();
            let one_way = readers.iter().all(|reader| stored_axes(reader).0 == along);
            if one_way && only_read_by(self.analysis, weight, &inputs) {
                self.in_place.entry(weight).or_default().push((along, factors.to_vec()));
            } else {
                self.copy_weight(patch, &readers, factors);
                copied += 1;
            }
        }
        copied
    }

    /// One copy for each way the readers see the weight, stored as they see it.
    fn copy_weight(&mut self, patch: &mut Patch, readers: &[&WeightedGemm], factors: &[f32]) {
        let mut copies: BTreeMap<(bool, usize), String> = BTreeMap::new();
        for gemm in readers {
            let copy = copies.entry((gemm.transposed, gemm.channel_axis)).or_insert_with(|| {
                let name = patch.unique_name(&format!("{}{SUFFIX}", gemm.weight));
                let constant = &self.analysis.constants[gemm.weight.as_str()];
                let mut dims = constant.dims.clone();
                let mut values = floats(&constant.bytes);
                scale(&mut values, &dims, stored_axes(gemm).0, factors);
                if gemm.transposed {
                    values = transposed(&values, dims[1] as usize);
                    dims.reverse();
                }
                patch.add_initializer(&name, ElementType::F32, dims, bytes_of(&values));
                name
            });
            patch.replace_input(gemm.node, 1, copy);
            self.rewired.insert((gemm.node, 1));
        }
    }

    /// Scales one constant input of a producer along an axis.
    pub fn operand(&mut self, patch: &mut Patch, operand: &Operand, factors: &[f32]) {
        let (name, constant) = self
            .analysis
            .constants
            .get_key_value(operand.constant.as_str())
            .expect("a fold only names constants");
        let input = (operand.node, operand.input);
        if only_read_by(self.analysis, name, &BTreeSet::from([input])) {
            self.in_place.entry(name).or_default().push((operand.axis, factors.to_vec()));
            return;
        }
        let copy = patch.unique_name(&format!("{name}{SUFFIX}"));
        let mut values = floats(&constant.bytes);
        scale(&mut values, &constant.dims, operand.axis, factors);
        patch.add_initializer(&copy, ElementType::F32, constant.dims.clone(), bytes_of(&values));
        patch.replace_input(operand.node, operand.input, &copy);
        self.rewired.insert(input);
    }

    /// Writes what is scaled in place, and removes what only led to inputs that read a copy now.
    pub fn apply(mut self, patch: &mut Patch) {
        for (name, edits) in &self.in_place {
            let constant = &self.analysis.constants[name];
            let mut values = floats(&constant.bytes);
            for (axis, factors) in edits {
                scale(&mut values, &constant.dims, *axis, factors);
            }
            let dims = constant.dims.clone();
            patch.set_initializer(name, ElementType::F32, dims, bytes_of(&values));
        }
        for index in (0..self.analysis.nodes().len()).rev() {
            let node = &self.analysis.nodes()[index];
            let leads = matches!(node.op_type(), "Transpose" | "Identity" | "Constant");
            if leads && node.output.first().is_some_and(|output| self.is_abandoned(output)) {
                self.rewired.extend((0..node.input.len()).map(|input| (index, input)));
                patch.remove_node(index);
            }
        }
        for (name, constant) in &self.analysis.constants {
            if constant.source == Source::Initializer && self.is_abandoned(name) {
                patch.remove_initializer(name);
            }
        }
    }

    /// Whether a tensor had readers, and all of them read a copy now.
    fn is_abandoned(&self, tensor: &str) -> bool {
        let uses = self.analysis.graph.consumers(tensor);
        let all_rewired = uses.iter().all(|u| self.rewired.contains(&(u.node, u.input)));
        !uses.is_empty() && all_rewired && !self.analysis.name_is_fixed(tensor)
    }
}

/// Whether a stored constant ends in these inputs alone, through whatever Transposes and Identities.
pub(super) fn only_read_by(
    analysis: &Analysis,
    constant: &str,
    inputs: &BTreeSet<(usize, usize)>,
) -> bool {
    let stored = analysis.constants.get(constant).is_some_and(|c| c.source == Source::Initializer);
    stored && ends_in(analysis, constant, inputs)
}

fn ends_in(analysis: &Analysis, tensor: &str, inputs: &BTreeSet<(usize, usize)>) -> bool {
    let through = |node: usize| {
        let node = &analysis.nodes()[node];
        let passes = matches!(node.op_type(), "Transpose" | "Identity");
        passes && node.output.first().is_some_and(|output| ends_in(analysis, output, inputs))
    };
    let ours = |u: &trtforge_onnx::Use| inputs.contains(&(u.node, u.input)) || through(u.node);
    !analysis.name_is_fixed(tensor) && analysis.graph.consumers(tensor).iter().all(ours)
}

/// The axes of the stored weight: that of the dot products, and that of the output channels.
pub(super) fn stored_axes(gemm: &WeightedGemm) -> (usize, usize) {
    let channels = if gemm.transposed { 1 - gemm.channel_axis } else { gemm.channel_axis };
    (1 - channels, channels)
}

/// Multiplies each slice across `axis` of a vector or matrix by its factor.
fn scale(values: &mut [f32], dims: &[i64], axis: usize, factors: &[f32]) {
    let columns = dims.last().map_or(1, |&columns| columns as usize).max(1);
    if axis + 1 == dims.len() {
        for row in values.chunks_exact_mut(columns) {
            row.iter_mut().zip(factors).for_each(|(value, factor)| *value *= factor);
        }
    } else {
        for (row, factor) in values.chunks_exact_mut(columns).zip(factors) {
            for value in row {
                *value *= factor;
            }
        }
    }
}

fn transposed(values: &[f32], columns: usize) -> Vec<f32> {
    (0..columns).flat_map(|column| values.iter().skip(column).step_by(columns).copied()).collect()
}

pub(super) fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_scaled_across_the_axis() {
        let scaled = |dims: &[i64], axis, factors: &[f32]| {
            let mut values = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
            scale(&mut values, dims, axis, factors);
            values
        };
        assert_eq!(scaled(&[2, 3], 0, &[1.0, 2.0]), [1.0, 2.0, 3.0, 8.0, 10.0, 12.0]);
        assert_eq!(scaled(&[2, 3], 1, &[1.0, 2.0, 0.5]), [1.0, 4.0, 1.5, 4.0, 10.0, 3.0]);
        assert_eq!(scaled(&[6], 0, &[2.0; 6]), [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
        assert_eq!(transposed(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    }
}
