//! Entities in sequences of tags.

use std::collections::BTreeMap;

use crate::scored::{TagRow, TagScheme, TaggedRows};

/// One entity: its type and its first and last position.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entity {
    /// Such as `PER`; `_` for a bare `B` or `I`.
    pub kind: String,
    /// First position.
    pub first: usize,
    /// Last position.
    pub last: usize,
}

/// A tag taken apart. `L` and `U` of BILOU are `E` and `S` of IOBES.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tag<'l> {
    prefix: char,
    kind: &'l str,
}

const OUTSIDE: Tag<'static> = Tag { prefix: 'O', kind: "_" };

fn take_apart(label: &str) -> Tag<'_> {
    let mut characters = label.chars();
    let prefix = match characters.next() {
        None | Some('O') => return OUTSIDE,
        Some('L') => 'E',
        Some('U') => 'S',
        Some(prefix) => prefix,
    };
    let rest = characters.as_str();
    let kind = rest.split_once('-').map_or(rest, |(_, kind)| kind);
    Tag { prefix, kind: if kind.is_empty() { "_" } else { kind } }
}

/// The entities of one sequence of tag names.
///
/// Lenient as `conlleval.pl` and `seqeval.metrics.sequence_labeling.get_entities`; strict as `seqeval.scheme.IOB2`.
pub fn entities<'l>(labels: impl IntoIterator<Item = &'l str>, scheme: TagScheme) -> Vec<Entity> {
    let tags = labels.into_iter().map(take_apart).chain([OUTSIDE]);
    let mut found = Vec::new();
    let mut open: Option<(usize, &str)> = None;
    let mut before = OUTSIDE;
    for (position, tag) in tags.enumerate() {
        if let Some((first, kind)) = open.filter(|_| ends(before, tag)) {
            found.push(Entity { kind: kind.to_owned(), first, last: position - 1 });
            open = None;
        }
        let begins = match scheme {
            TagScheme::Lenient => begins(before, tag),
            TagScheme::StrictIob2 => tag.prefix == 'B',
        };
        if begins {
            open = Some((position, tag.kind));
        }
        before = tag;
    }
    found
}

/// Whether the entity of `before` is over at `tag`.
fn ends(before: Tag<'_>, tag: Tag<'_>) -> bool {
    match before.prefix {
        'O' => false,
        'E' | 'S' => true,
        _ => matches!(tag.prefix, 'B' | 'S' | 'O') || before.kind != tag.kind,
    }
}

/// Whether `tag` begins an entity after `before`, read leniently.
fn begins(before: Tag<'_>, tag: Tag<'_>) -> bool {
    match tag.prefix {
        'O' => false,
        'B' | 'S' => true,
        _ => matches!(before.prefix, 'E' | 'S' | 'O') || before.kind != tag.kind,
    }
}

/// Entities of one type in one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntityCounts {
    /// In the gold tags.
    pub gold: u32,
    /// In the predicted tags.
    pub predicted: u32,
    /// In both, at the same place.
    pub right: u32,
}

/// Entities of one row by type; a row without a prediction has none predicted.
pub(crate) fn row_counts(tags: &TaggedRows, row: &TagRow) -> BTreeMap<String, EntityCounts> {
    let name = |&tag: &usize| tags.labels.get(tag).map_or("O", String::as_str);
    let gold = entities(row.gold.iter().map(name), tags.scheme);
    let predicted = row.predicted.as_deref().unwrap_or_default();
    let predicted = entities(predicted.iter().map(name), tags.scheme);
    let mut counts: BTreeMap<String, EntityCounts> = BTreeMap::new();
    for entity in &gold {
        let counts = counts.entry(entity.kind.clone()).or_default();
        counts.gold += 1;
        counts.right += u32::from(predicted.binary_search_by(|one| order(one, entity)).is_ok());
    }
    for entity in &predicted {
        counts.entry(entity.kind.clone()).or_default().predicted += 1;
    }
    counts
}

/// Entities are found in order of position, and never overlap.
fn order(one: &Entity, other: &Entity) -> std::cmp::Ordering {
    (one.first, one.last, &one.kind).cmp(&(other.first, other.last, &other.kind))
}

/// Predicted transitions that the scheme of the gold tags does not have, such as `I-PER` after `O` in IOB2.
///
/// The scheme is told from the gold tags: IOBES (or BILOU) when `E`/`S` (`L`/`U`) occur among the labels, IOB1 when the gold tags
/// themselves begin entities with `I`, else IOB2.
pub fn malformed_transitions(tags: &TaggedRows) -> usize {
    let labels: Vec<Tag<'_>> = tags.labels.iter().map(|label| take_apart(label)).collect();
    let sequence = |indices: &[usize]| -> Vec<Tag<'_>> {
        let tag = |&index: &usize| labels.get(index).copied().unwrap_or(OUTSIDE);
        [OUTSIDE].into_iter().chain(indices.iter().map(tag)).chain([OUTSIDE]).collect()
    };
    let count = |sequence: &[Tag<'_>], legal: fn(Tag<'_>, Tag<'_>) -> bool| {
        sequence.windows(2).filter(|pair| !legal(pair[0], pair[1])).count()
    };
    let legal = if labels.iter().any(|tag| matches!(tag.prefix, 'E' | 'S')) {
        legal_iobes
    } else if tags.rows.iter().any(|row| count(&sequence(&row.gold), legal_iob2) > 0) {
        legal_iob1
    } else {
        legal_iob2
    };
    let predicted = tags.rows.iter().filter_map(|row| row.predicted.as_deref());
    predicted.map(|row| count(&sequence(row), legal)).sum()
}

fn legal_iob2(before: Tag<'_>, tag: Tag<'_>) -> bool {
    tag.prefix != 'I' || before.prefix != 'O' && before.kind == tag.kind
}

/// `B` only separates an entity from one of the same type right before it.
fn legal_iob1(before: Tag<'_>, tag: Tag<'_>) -> bool {
    tag.prefix != 'B' || before.prefix != 'O' && before.kind == tag.kind
}

fn legal_iobes(before: Tag<'_>, tag: Tag<'_>) -> bool {
    let open = matches!(before.prefix, 'B' | 'I');
    let continues = matches!(tag.prefix, 'I' | 'E');
    open == continues && (!open || before.kind == tag.kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(tags: &str, scheme: TagScheme) -> String {
        let entities = entities(tags.split_whitespace(), scheme);
        let text = |entity: &Entity| format!("{}:{}-{}", entity.kind, entity.first, entity.last);
        entities.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn entities_by_hand() {
        let cases = [
            ("B-PER I-PER O B-LOC", "PER:0-1 LOC:3-3", "PER:0-1 LOC:3-3"),
            ("I-PER I-PER O I-LOC", "PER:0-1 LOC:3-3", ""),
            ("B-PER I-LOC", "PER:0-0 LOC:1-1", "PER:0-0"),
            ("B-PER B-PER I-PER", "PER:0-0 PER:1-2", "PER:0-0 PER:1-2"),
            ("O O", "", ""),
            ("", "", ""),
            ("B I O B", "_:0-1 _:3-3", "_:0-1 _:3-3"),
            ("B-a-b I-a-b", "a-b:0-1", "a-b:0-1"),
        ];
        for (tags, lenient, strict) in cases {
            assert_eq!(found(tags, TagScheme::Lenient), lenient, "{tags}");
            assert_eq!(found(tags, TagScheme::StrictIob2), strict, "{tags}");
        }
    }

    #[test]
    fn iobes_and_bilou_by_hand() {
        for (tags, expected) in [
            ("B-PER I-PER E-PER S-LOC O", "PER:0-2 LOC:3-3"),
            ("B-PER I-PER L-PER U-LOC O", "PER:0-2 LOC:3-3"),
            ("S-LOC S-LOC", "LOC:0-0 LOC:1-1"),
            ("E-PER E-PER", "PER:0-0 PER:1-1"),
            ("O I-PER E-PER I-PER", "PER:1-2 PER:3-3"),
        ] {
            assert_eq!(found(tags, TagScheme::Lenient), expected, "{tags}");
        }
    }

    fn tagged(labels: &str, gold: &[usize], predicted: &[usize]) -> TaggedRows {
        TaggedRows {
            labels: labels.split_whitespace().map(str::to_owned).collect(),
            scheme: TagScheme::Lenient,
            rows: vec![TagRow { gold: gold.to_vec(), predicted: Some(predicted.to_vec()) }],
        }
    }

    #[test]
    fn counts_by_hand() {
        // Gold PER 0–1 and LOC 3; predicted PER 0 alone and LOC 3.
        let tags = tagged("O B-PER I-PER B-LOC", &[1, 2, 0, 3], &[1, 0, 0, 3]);
        let counts = row_counts(&tags, &tags.rows[0]);
        assert_eq!(counts["PER"], EntityCounts { gold: 1, predicted: 1, right: 0 });
        assert_eq!(counts["LOC"], EntityCounts { gold: 1, predicted: 1, right: 1 });
    }

    #[test]
    fn malformed_transitions_by_hand() {
        let iob2 = "O B-PER I-PER B-LOC I-LOC";
        assert_eq!(malformed_transitions(&tagged(iob2, &[1, 2, 0], &[1, 2, 2])), 0);
        assert_eq!(malformed_transitions(&tagged(iob2, &[1, 2, 0], &[2, 0, 2])), 2);
        assert_eq!(malformed_transitions(&tagged(iob2, &[1, 2, 0], &[1, 4, 4])), 1);
        // Gold in IOB1: `I` begins, and `B` after `O` is what does not exist.
        assert_eq!(malformed_transitions(&tagged(iob2, &[2, 2, 0], &[2, 1, 0])), 0);
        assert_eq!(malformed_transitions(&tagged(iob2, &[2, 2, 0], &[0, 1, 0])), 1);
        let iobes = "O B-X I-X E-X S-X";
        assert_eq!(malformed_transitions(&tagged(iobes, &[1, 2, 3], &[1, 2, 3])), 0);
        // B→O, O→I and I→end.
        assert_eq!(malformed_transitions(&tagged(iobes, &[1, 2, 3], &[1, 0, 2])), 3);
    }
}
