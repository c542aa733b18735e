//! What may lie behind a difference: inputs, profile, decisions, thresholds.

use std::collections::BTreeMap;

use serde_json::Value;

use super::content::stop;
use super::document::{Block, Cell, Table, Tone};
use super::{Comparison, Difference, inputs, tell};
use crate::{InputFile, words};

pub fn inputs_of(comparison: &Comparison) -> Vec<Block> {
    let mut rows = Vec::new();
    for role in ["model", "tokenizer", "calibration", "evaluation"] {
        let file = |side: &super::Side| -> Option<InputFile> {
            side.record
                .inputs
                .files()
                .find(|(found, _)| *found == role)
                .map(|(_, file)| file.clone())
        };
        let baseline = comparison.sides.first().and_then(file);
        for side in &comparison.sides {
            let Some(found) = file(side) else { continue };
            let first = side.name == comparison.baseline;
            let same = baseline.as_ref().is_some_and(|one| one.fingerprint == found.fingerprint);
            rows.push(vec![
                Cell::Text(role.to_owned()),
                Cell::Text(words::name(&side.name)),
                Cell::Code(words::name(&found.name)),
                Cell::number(found.rows.map(words::count)),
                Cell::Code(words::name(&found.fingerprint.chars().take(12).collect::<String>())),
                match (first, same) {
                    (true, _) => Cell::Word("baseline", Tone::Plain),
                    (false, true) => Cell::Word("same", Tone::Plain),
                    (false, false) => Cell::Word("other", Tone::Unsure),
                },
            ]);
        }
    }
    // What is the same everywhere is said in one line.
    let mut blocks = Vec::new();
    let differs =
        |role: &str| rows.iter().any(|row| row[0].text() == role && row[5].text() == "other");
    let same: Vec<String> = ["model", "tokenizer", "calibration", "evaluation"]
        .into_iter()
        .filter(|role| rows.iter().any(|row| row[0].text() == *role) && !differs(role))
        .map(|role| {
            if ["calibration", "evaluation"].contains(&role) {
                format!("{role} data")
            } else {
                role.to_owned()
            }
        })
        .collect();
    if !same.is_empty() {
        blocks.push(Block::Paragraph(stop(&format!(
            "The same in all runs, by content: {}",
            words::list(&same)
        ))));
    }
    let kept: Vec<Vec<Cell>> = rows.iter().filter(|row| differs(row[0].text())).cloned().collect();
    if !kept.is_empty() {
        let columns = ["input", "run", "file", "rows", "fingerprint", "against the baseline"];
        blocks.push(Block::Table(Table::new(
            "Inputs that are not the same everywhere, by the start of their BLAKE3 fingerprint",
            &columns,
            kept,
        )));
    }
    blocks.extend(key_table(
        comparison,
        "Tool, library and machine, where they differ",
        |one| &one.environment,
        None,
    ));
    blocks
}

pub fn profile(comparison: &Comparison) -> Vec<Block> {
    let values: Vec<BTreeMap<String, Value>> =
        comparison.sides.iter().map(|side| inputs::profile_keys(&side.record)).collect();
    key_table(
        comparison,
        "Keys of the profiles that differ; a dash is the default",
        |one| &one.profile,
        Some(&values),
    )
    .into_iter()
    .collect()
}

/// A line a key that any run has otherwise, a column a run; with many runs a line each.
fn key_table(
    comparison: &Comparison,
    caption: &str,
    changes: impl Fn(&Difference) -> &Vec<super::KeyChange>,
    values: Option<&[BTreeMap<String, Value>]>,
) -> Option<Block> {
    let mut keys: Vec<&str> =
        comparison.differences.iter().flat_map(&changes).map(|one| one.key.as_str()).collect();
    keys.sort_unstable();
    keys.dedup();
    if keys.is_empty() {
        return None;
    }
    let value = |run: usize, key: &str| -> Cell {
        let found = match values {
            Some(values) => values[run].get(key).cloned().unwrap_or(Value::Null),
            None if run == 0 => comparison
                .differences
                .iter()
                .flat_map(&changes)
                .find(|one| one.key == key)
                .map(|one| one.before.clone())
                .unwrap_or_default(),
            None => {
                let own =
                    changes(&comparison.differences[run - 1]).iter().find(|one| one.key == key);
                let same = || {
                    comparison
                        .differences
                        .iter()
                        .flat_map(&changes)
                        .find(|one| one.key == key)
                        .map(|one| one.before.clone())
                };
                own.map(|one| one.after.clone()).or_else(same).unwrap_or_default()
            }
        };
        match found {
            Value::Null => Cell::None,
            Value::String(text) => Cell::Code(words::name(&text)),
            other => Cell::Code(words::name(&other.to_string())),
        }
    };
    let names: Vec<String> = comparison.sides.iter().map(|side| words::name(&side.name)).collect();
    let table = if names.len() <= 4 {
        let mut columns = vec!["key"];
        columns.extend(names.iter().map(String::as_str));
        let rows = keys.iter().map(|key| {
            let mut row = vec![Cell::Code(words::name(key))];
            row.extend((0..names.len()).map(|run| value(run, key)));
            row
        });
        Table::new(caption, &columns, rows.collect()).named()
    } else {
        let lines = keys
            .iter()
            .flat_map(|key| names.iter().enumerate().map(move |(run, name)| (key, run, name)));
        let rows = lines.map(|(key, run, name)| {
            vec![Cell::Code(words::name(key)), Cell::Text(name.clone()), value(run, key)]
        });
        Table::new(caption, &["key", "run", "value"], rows.collect())
    };
    Some(Block::Table(table))
}

pub fn decisions(comparison: &Comparison) -> Vec<Block> {
    let mut blocks = Vec::new();
    for run in &comparison.differences {
        if run.decisions.is_empty() && run.decisions_alike == 0 {
            continue;
        }
        let name = words::name(&run.run);
        let text = match run.decisions.len() as u64 {
            0 => format!(
                "{name}: all {} as in the baseline",
                words::counted(run.decisions_alike, "decision")
            ),
            changed => format!(
                "{name}: {} otherwise, {} as in the baseline",
                words::counted(changed, "decision"),
                words::count(run.decisions_alike)
            ),
        };
        blocks.push(Block::Paragraph(stop(&text)));
        if run.decisions.is_empty() {
            continue;
        }
        let rows = run.decisions.iter().map(|one| {
            let action = |actions: &[crate::Action]| {
                let words: Vec<String> =
                    actions.iter().map(|action| words::name(action.words())).collect();
                Cell::Text(if words.is_empty() { "absent".to_owned() } else { words::list(&words) })
            };
            vec![
                Cell::Code(words::name(&one.tensor)),
                Cell::Text(one.precision.name().to_owned()),
                action(&one.before),
                action(&one.after),
                Cell::Text(words::shorten(&words::one_line(&one.reason), 300)),
            ]
        });
        let columns = ["tensor", "graph", "baseline", "this run", "why"];
        let caption = format!("What {name} decided otherwise");
        blocks.push(Block::Table(
            Table::new(caption, &columns, rows.collect()).most(10).detail("why"),
        ));
    }
    blocks
}

pub fn scales(comparison: &Comparison) -> Vec<Block> {
    let mut blocks = Vec::new();
    for run in &comparison.differences {
        let name = words::name(&run.run);
        let Some(text) = tell::scales(run) else { continue };
        blocks.push(Block::Paragraph(stop(&format!("{name}: {text}"))));
        if run.scales.moved.is_empty() {
            continue;
        }
        let rows = run.scales.moved.iter().map(|one| {
            vec![
                Cell::Code(words::name(&one.tensor)),
                Cell::Number(words::magnitude(one.before)),
                Cell::Number(words::magnitude(one.after)),
                Cell::Number(format!("×{}", words::magnitude(one.ratio as f32))),
                Cell::Text(if one.method_before == one.method_after {
                    words::name(&one.method_after)
                } else {
                    format!(
                        "{}, was {}",
                        words::name(&one.method_after),
                        words::name(&one.method_before)
                    )
                }),
            ]
        });
        let columns = ["tensor", "baseline", "this run", "factor", "method"];
        let caption = format!(
            "Thresholds of {name} in model units, those that moved most first; below ×1 more values are clipped and the rest is finer"
        );
        blocks.push(Block::Table(Table::new(caption, &columns, rows.collect()).most(10)));
    }
    blocks
}
