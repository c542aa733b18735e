//! A YAML document as a tree in which every value knows the line it was written on.
//!
//! The profile is decoded from this tree rather than straight into structs, so that a value of `--set` and a value
//! of the file go through the same checks, and every complaint can point at its origin.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_yaml::Spanned;

use super::error::ProfileError;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Line and column in the profile, both from 1.
    File {
        /// Line, from 1.
        line: u64,
        /// Column, from 1.
        column: u64,
    },
    /// A `--set KEY=VALUE` of the command line.
    CommandLine(String),
}

/// One YAML value and where it stands.
#[derive(Debug, Clone)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// Its origin.
    pub place: Place,
}

/// The YAML data model, with keys in the order of the file.
#[derive(Debug, Clone)]
pub enum Value {
    /// `null`, `~` or nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// A string.
    Text(String),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping.
    Map(Vec<(String, Node)>),
}

impl Value {
    /// What kind of value this is, in words for an error message.
    pub fn describe(&self) -> String {
        match self {
            Value::Null => "nothing".into(),
            Value::Bool(value) => format!("`{value}`"),
            Value::Integer(value) => format!("`{value}`"),
            Value::Float(value) => format!("`{value}`"),
            Value::Text(value) => format!("`{value}`"),
            Value::List(items) => format!("a list of {}", items.len()),
            Value::Map(_) => "a mapping".into(),
        }
    }

    /// The same value as JSON, for the run record.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match self {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::from(*value),
            Value::Integer(value) => Json::from(*value),
            Value::Float(value) => Json::from(*value),
            Value::Text(value) => Json::from(value.as_str()),
            Value::List(items) => items.iter().map(|item| item.value.to_json()).collect(),
            Value::Map(entries) => Json::Object(
                entries.iter().map(|(key, node)| (key.clone(), node.value.to_json())).collect(),
            ),
        }
    }
}

/// Reads one YAML document.
pub fn parse(text: &str, source: &str) -> Result<Node, ProfileError> {
    // The first document only matters; anchors and merges resolve in the library, duplicates are its errors.
    serde_yaml::from_str::<Node>(text).map_err(|error| ProfileError::yaml(source, text, &error))
}

/// Applies one `--set a.b=value`: makes missing mappings on the way, replaces what stands at the end.
pub fn set(root: &mut Node, assignment: &str) -> Result<(), ProfileError> {
    let malformed = |reason: &str| ProfileError::Assignment {
        assignment: assignment.to_owned(),
        reason: reason.to_owned(),
    };
    let (path, text) = assignment.split_once('=').ok_or_else(|| malformed("there is no `=`"))?;
    if text.trim().is_empty() {
        return Err(malformed(
            "the value is empty; an unset variable, perhaps (write `null` for the default)",
        ));
    }
    let place = Place::CommandLine(assignment.to_owned());
    let parsed: Node =
        serde_yaml::from_str(text).map_err(|_| malformed("the value is not YAML"))?;
    let mut node = root;
    for key in path.split('.') {
        if key.is_empty() {
            return Err(malformed("a key is empty"));
        }
        if matches!(node.value, Value::Null) {
            node.value = Value::Map(Vec::new());
        }
        let Value::Map(entries) = &mut node.value else {
            return Err(malformed(&format!("what stands before `{key}` is not a mapping")));
        };
        let index = entries.iter().position(|(name, _)| name == key).unwrap_or_else(|| {
            entries.push((key.to_owned(), Node { value: Value::Null, place: place.clone() }));
            entries.len() - 1
        });
        node = &mut entries[index].1;
    }
    *node = at(parsed, &place);
    Ok(())
}

/// The node with every place in it replaced.
fn at(node: Node, place: &Place) -> Node {
    let value = match node.value {
        Value::List(items) => Value::List(items.into_iter().map(|item| at(item, place)).collect()),
        Value::Map(entries) => {
            Value::Map(entries.into_iter().map(|(key, item)| (key, at(item, place))).collect())
        }
        scalar => scalar,
    };
    Node { value, place: place.clone() }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        let (line, column) = (spanned.referenced.line(), spanned.referenced.column());
        Ok(Node { value: spanned.value, place: Place::File { line, column } })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(i64::try_from(value).map_or(Value::Float(value as f64), Value::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Value::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child<'a>(node: &'a Node, key: &str) -> &'a Node {
        let Value::Map(entries) = &node.value else { panic!("{:?} is not a mapping", node.value) };
        &entries.iter().find(|(name, _)| name == key).expect("the key is there").1
    }

    #[test]
    fn values_know_their_line() {
        let root = parse("a: 1\nb:\n  c: [x, 2.5]\n  d: {e: ~}\n", "p.yaml").unwrap();
        let c = child(child(&root, "b"), "c");
        assert_eq!(c.place, Place::File { line: 3, column: 6 });
        let Value::List(items) = &c.value else { panic!("{c:?}") };
        assert_eq!(items[1].place, Place::File { line: 3, column: 10 });
        assert!(matches!(items[1].value, Value::Float(x) if x == 2.5));
        assert!(matches!(child(child(child(&root, "b"), "d"), "e").value, Value::Null));
    }

    #[test]
    fn set_replaces_and_makes_mappings() {
        let mut root = parse("gate: {max_drop: 0.1}\n", "p.yaml").unwrap();
        set(&mut root, "gate.max_drop=0.25").unwrap();
        set(&mut root, "quantize.skip=[a, b]").unwrap();
        let drop = child(child(&root, "gate"), "max_drop");
        assert!(matches!(drop.value, Value::Float(x) if x == 0.25));
        assert_eq!(drop.place, Place::CommandLine("gate.max_drop=0.25".into()));
        assert!(
            matches!(&child(child(&root, "quantize"), "skip").value, Value::List(l) if l.len() == 2)
        );
    }

    #[test]
    fn malformed_assignments_are_refused() {
        let mut root = parse("a: 1\n", "p.yaml").unwrap();
        for (assignment, reason) in [
            ("a", "no `=`"),
            ("a=", "empty"),
            ("a= ", "empty"),
            ("=1", "empty"),
            ("a.b=1", "not a mapping"),
            ("b=[", "not YAML"),
        ] {
            let error = set(&mut root, assignment).unwrap_err().to_string();
            assert!(error.contains(reason), "{assignment}: {error}");
        }
    }

    #[test]
    fn duplicate_keys_are_errors_with_a_line() {
        let error = parse("a: 1\nb: 2\na: 3\n", "p.yaml").unwrap_err().to_string();
        assert!(error.contains("p.yaml:3"), "{error}");
    }
}
