//! Reads typed fields out of the tree, and collects every mistake instead of stopping at the first.

use std::cell::RefCell;

use super::error::{ProfileError, locate};
use super::tree::{Node, Place, Value};

/// Collects the mistakes of one profile.
pub struct Mistakes<'s> {
    source: &'s str,
    found: RefCell<Vec<ProfileError>>,
}

impl<'s> Mistakes<'s> {
    /// For the profile of this file name.
    pub fn new(source: &'s str) -> Self {
        Mistakes { source, found: RefCell::default() }
    }

    /// Adds one.
    pub fn add(&self, error: ProfileError) {
        self.found.borrow_mut().push(error);
    }

    /// Adds a value that is not what it should be.
    pub fn value(&self, place: &Place, key: &str, found: &str, expected: &str, help: &str) {
        self.add(ProfileError::Value {
            at: locate(self.source, place),
            key: key.to_owned(),
            found: found.to_owned(),
            expected: expected.to_owned(),
            help: help.to_owned(),
        });
    }

    /// The value, or all mistakes; one mistake stands for itself.
    pub fn finish<T>(self, value: Option<T>) -> Result<T, ProfileError> {
        let mut found = self.found.into_inner();
        match (value, found.len()) {
            (Some(value), 0) => Ok(value),
            (_, 1) => Err(found.remove(0)),
            _ => Err(ProfileError::Several { source_name: self.source.to_owned(), errors: found }),
        }
    }
}

/// One mapping of the profile being read: each key is asked for by name; the rest is unknown.
pub struct Section<'t> {
    entries: &'t [(String, Node)],
    place: &'t Place,
    path: String,
    mistakes: &'t Mistakes<'t>,
}

impl<'t> Section<'t> {
    /// The mapping at `node`, whose keys must all be in `known`.
    pub fn open(
        node: &'t Node,
        path: &str,
        known: &[&str],
        mistakes: &'t Mistakes<'t>,
    ) -> Option<Self> {
        let Value::Map(entries) = &node.value else {
            let name = if path.is_empty() { "the profile" } else { path };
            let help = format!("its keys are: {}", known.join(", "));
            mistakes.value(&node.place, name, &node.value.describe(), "a mapping of keys", &help);
            return None;
        };
        let section = Section { entries, place: &node.place, path: path.to_owned(), mistakes };
        for (key, node) in entries.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
            section.unknown(key, node, known);
        }
        Some(section)
    }

    fn unknown(&self, key: &str, node: &Node, known: &[&str]) {
        let section =
            if self.path.is_empty() { "the profile".into() } else { format!("`{}`", self.path) };
        let all = known.join(", ");
        let help = match nearest(key, known) {
            Some(near) => format!("did you mean `{near}`? Known keys: {all}"),
            None => format!("known keys: {all}"),
        };
        self.mistakes.add(ProfileError::UnknownKey {
            at: locate(self.mistakes.source, &node.place),
            key: key.to_owned(),
            section,
            help,
        });
    }

    /// The dotted name of a key of this section.
    pub fn name(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The node at `key`, unless it is absent or null.
    pub fn get(&self, key: &str) -> Option<&'t Node> {
        let node = &self.entries.iter().find(|(name, _)| name == key)?.1;
        (!matches!(node.value, Value::Null)).then_some(node)
    }

    /// The place of `key`, or of the section when the key is absent.
    pub fn place(&self, key: &str) -> &'t Place {
        self.get(key).map_or(self.place, |node| &node.place)
    }

    /// Reports that `key` has to be there.
    pub fn missing(&self, key: &str, help: &str) {
        self.mistakes.add(ProfileError::Missing {
            at: locate(self.mistakes.source, self.place),
            key: self.name(key),
            help: help.to_owned(),
        });
    }

    /// Reports a value that is not right.
    pub fn refuse(&self, key: &str, expected: &str, help: &str) {
        let found = self.get(key).map_or_else(|| "absent".into(), |node| node.value.describe());
        self.mistakes.value(self.place(key), &self.name(key), &found, expected, help);
    }

    /// A required key; its absence is reported with `help`.
    pub fn require(&self, key: &str, help: &str) -> Option<&'t Node> {
        let node = self.get(key);
        if node.is_none() {
            self.missing(key, help);
        }
        node
    }

    /// A string. Numbers and booleans written without quotes are taken as they read.
    pub fn text(&self, key: &str) -> Option<String> {
        match scalar_text(&self.get(key)?.value) {
            Some(text) if !text.is_empty() => Some(text),
            _ => {
                self.refuse(key, "a text", "write it as a quoted string");
                None
            }
        }
    }

    /// A required string.
    pub fn require_text(&self, key: &str, help: &str) -> Option<String> {
        self.require(key, help)?;
        self.text(key)
    }

    /// A whole number within `range`.
    pub fn integer(&self, key: &str, range: std::ops::RangeInclusive<i64>) -> Option<i64> {
        match self.get(key)?.value {
            Value::Integer(value) if range.contains(&value) => Some(value),
            _ => {
                let expected = format!("a whole number from {} to {}", range.start(), range.end());
                self.refuse(key, &expected, "write a whole number without quotes");
                None
            }
        }
    }

    /// A number within `range`.
    pub fn number(&self, key: &str, range: std::ops::RangeInclusive<f64>) -> Option<f64> {
        let value = match self.get(key)?.value {
            Value::Integer(value) => value as f64,
            Value::Float(value) => value,
            _ => f64::NAN,
        };
        if range.contains(&value) {
            return Some(value);
        }
        let expected = format!("a number from {} to {}", range.start(), range.end());
        self.refuse(key, &expected, "write a plain number without quotes");
        None
    }

    /// `true` or `false`.
    pub fn boolean(&self, key: &str) -> Option<bool> {
        if let Value::Bool(value) = self.get(key)?.value {
            return Some(value);
        }
        self.refuse(key, "`true` or `false`", "write true or false without quotes");
        None
    }

    /// A word out of `choices`; a near miss is suggested, a later one is named.
    pub fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Option<T> {
        let text = scalar_text(&self.get(key)?.value).unwrap_or_default();
        if let Some((_, value)) = choices.iter().find(|(name, _)| *name == text) {
            return Some(*value);
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let help = nearest(&text, &names)
            .map_or_else(|| "choose one of these".into(), |near| format!("did you mean `{near}`?"));
        self.refuse(key, &one_of(&names), &help);
        None
    }

    /// A list of strings.
    pub fn texts(&self, key: &str) -> Option<Vec<String>> {
        let texts = match &self.get(key)?.value {
            // `no` and `yes` without quotes are YAML's truth values, not the words.
            Value::List(items)
                if items.iter().all(|item| !matches!(item.value, Value::Bool(_))) =>
            {
                items.iter().map(|item| scalar_text(&item.value)).collect()
            }
            _ => None,
        };
        if texts.is_none() {
            self.refuse(
                key,
                "a list of texts",
                "write it as [one, two], and words like \"yes\" and \"no\" in quotes",
            );
        }
        texts
    }
}

/// A scalar as text.
pub fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.clone()),
        Value::Integer(value) => Some(value.to_string()),
        Value::Float(value) => Some(value.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}

/// The known name most like `word`, if any is alike at all.
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    known
        .iter()
        .map(|name| (strsim::jaro_winkler(&word.to_lowercase(), name), *name))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// "`a`, `b` or `c`".
fn one_of(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.join(""),
    }
}
