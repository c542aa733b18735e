//! From the parts of all shards to what one machine would have found.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::part::{Content, Part};
use crate::part_error::PartError;
use crate::row_set::RowSet;
use crate::shard::Shard;

/// Merges the parts of all shards of one calibration, in whatever order they are given.
///
/// - returns: the part of shard 1/1, the same to the byte as one machine's (where all processors have the same instruction
///   sets).
///
/// One part after the other is read, so memory holds two at most.
pub fn merge_parts(paths: &[PathBuf]) -> Result<Part, PartError> {
    let (first, rest) = paths.split_first().ok_or(PartError::None)?;
    let mut whole = Part::load(first)?;
    let of = whole.shard.of();
    let mut seen = BTreeMap::from([(whole.shard.index(), first.clone())]);
    let mut processors = vec![whole.processor.clone()];
    for path in rest {
        let part = Part::load(path)?;
        fits(&whole, first, &part, path)?;
        if let Some(before) = seen.insert(part.shard.index(), path.clone()) {
            let shard = part.shard.to_string();
            return Err(PartError::Twice { shard, first: before, second: path.clone() });
        }
        let twice = whole
            .absorb(&part)
            .map_err(|source| PartError::Tensors { path: path.clone(), source })?;
        if twice > 0 {
            let what = format!("{twice} rows of {} were in another part too", path.display());
            return Err(PartError::Rows { what });
        }
        processors.push(part.processor);
    }
    if seen.len() < of as usize {
        let there: RowSet = seen.keys().map(|&index| u64::from(index)).collect();
        let missing = RowSet::up_to(u64::from(of)).without(&there).to_string();
        return Err(PartError::Missing { missing, found: seen.len(), of: of as usize });
    }
    let missing = RowSet::up_to(whole.recipe.options.samples as u64).without(&whole.rows);
    if !missing.is_empty() {
        let what = format!("{} rows are in no part", missing.len());
        return Err(PartError::Rows { what });
    }
    processors.sort();
    processors.dedup();
    whole.processor = processors.join("; ");
    whole.shard = Shard::WHOLE;
    Ok(whole)
}

/// Refuses a part of another calibration than the first one's.
fn fits(whole: &Part, first: &Path, part: &Part, path: &Path) -> Result<(), PartError> {
    let mut differences = Vec::new();
    if part.shard.of() != whole.shard.of() {
        let (there, here) = (part.shard, whole.shard);
        differences.push(format!("it is shard {there} there and {here} here"));
    }
    if part.content.name() != whole.content.name() {
        let (there, here) = (part.content.name(), whole.content.name());
        differences.push(format!("it holds {there} there and {here} here"));
    }
    differences.extend(whole.recipe.differences(&part.recipe));
    if let (
        Content::Activations { channels: mine, .. },
        Content::Activations { channels: theirs, .. },
    ) = (&whole.content, &part.content)
        && mine != theirs
    {
        differences.push(match mine.iter().find(|(name, mine)| theirs.get(*name) != Some(mine)) {
            Some((name, _)) => {
                format!("the model was smoothed by other channel ranges of tensor `{name}`")
            }
            None => "the model was smoothed by channel ranges of more tensors there".to_owned(),
        });
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(PartError::Differ { path: path.to_owned(), first: first.to_owned(), differences })
}
