//! What became of the names that a model had before its canonical form, kept in the model itself so that patterns of
//! `quantize.skip` and `quantize.only` still mean what the user saw.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use trtforge_onnx::{Model, Patch};

/// The metadata entry; finished FP16 and INT8 graphs do not carry it.
pub(crate) const ORIGINS: &str = "trtforge.canonical";

/// Names of the original graph that the canonical one does not have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Origins {
    /// Nodes and tensors that only passed a tensor on, to the name it has now.
    pub passed: BTreeMap<String, String>,
    /// Nodes and tensors that are part of something else now, to what, in words.
    pub gone: BTreeMap<String, String>,
}

impl Origins {
    /// Those of a model; none when it never was brought to canonical form.
    pub fn of(model: &Model) -> Self {
        let entry = model.proto().metadata_props.iter().find(|entry| entry.key() == ORIGINS);
        let read = entry.and_then(|entry| serde_json::from_str(entry.value()).ok());
        read.unwrap_or_default()
    }

    pub fn is_empty(&self) -> bool {
        self.passed.is_empty() && self.gone.is_empty()
    }

    /// Notes names that one tensor now stands for.
    pub fn pass<S: Into<String>>(&mut self, names: impl IntoIterator<Item = S>, tensor: &str) {
        let named = names.into_iter().map(Into::into).filter(|name: &String| !name.is_empty());
        self.passed.extend(named.map(|name| (name, tensor.to_owned())));
    }

    /// Notes names that nothing stands for.
    pub fn lose<S: Into<String>>(&mut self, names: impl IntoIterator<Item = S>, what: &str) {
        let named = names.into_iter().map(Into::into).filter(|name: &String| !name.is_empty());
        self.gone.extend(named.map(|name| (name, what.to_owned())));
    }

    /// The original names that `tensor` stands for besides its own.
    pub fn of_tensor<'o>(&'o self, tensor: &'o str) -> impl Iterator<Item = &'o str> {
        let of_this = move |(_, now): &(&'o String, &'o String)| now.as_str() == tensor;
        self.passed.iter().filter(of_this).map(|(name, _)| name.as_str())
    }

    /// Follows names through later steps, and forgets those that the model still has.
    ///
    /// - `present`: every node and tensor name of the finished model.
    pub fn settle(&mut self, present: &BTreeSet<&str>) {
        let passed = std::mem::take(&mut self.passed);
        for (name, first) in &passed {
            let mut tensor = first;
            // As many steps as there are names, so that a cycle would end.
            for _ in 0..passed.len() {
                match passed.get(tensor) {
                    Some(next) if !present.contains(tensor.as_str()) => tensor = next,
                    _ => break,
                }
            }
            if present.contains(tensor.as_str()) {
                self.passed.insert(name.clone(), tensor.clone());
            } else {
                let what = self.gone.get(tensor).cloned();
                self.gone.insert(
                    name.clone(),
                    what.unwrap_or_else(|| format!("was one with `{tensor}`")),
                );
            }
        }
        self.passed.retain(|name, _| !present.contains(name.as_str()));
        self.gone.retain(|name, _| !present.contains(name.as_str()));
    }

    /// Writes them into the model that a patch makes.
    pub fn store(&self, patch: &mut Patch) {
        if let Ok(text) = serde_json::to_string(self) {
            patch.set_metadata(ORIGINS, &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_followed_to_where_they_are_now() {
        let mut origins = Origins::default();
        origins.pass(["a"], "b");
        origins.pass(["b"], "c");
        origins.pass(["d"], "e");
        origins.lose(["e", "kept"], "is part of `y`");
        origins.settle(&BTreeSet::from(["c", "kept"]));
        let passed: Vec<_> = origins.passed.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(passed, [("a", "c"), ("b", "c")]);
        let gone: Vec<_> = origins.gone.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(gone, [("d", "is part of `y`"), ("e", "is part of `y`")]);
        assert_eq!(origins.of_tensor("c").collect::<Vec<_>>(), ["a", "b"]);
    }
}
