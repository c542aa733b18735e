//! The inspector's JSON, read liberally: field names changed between versions, and so did what stands in them.
//!
//! | | 8.x | 10.x | 11.x |
//! |---|---|---|---|
//! | type of a tensor | `Format/Datatype`: "Row major linear FP16 format" | `Format/Datatype`: "Half" | `DataType`, apart from `Format` |
//! | inputs and outputs of the engine | `Bindings` | `Bindings` | `I/O Tensors` |
//! | origin of a layer | in its name | `Metadata` | `Metadata` |
//!
//! Sources: "Engine Inspector" of NVIDIA's guide, "Migrating IEngineInspector Usage from TensorRT 10.x to 11.x", dumps that users published.

use miette::Diagnostic;
use serde_json::{Map, Value};
use thiserror::Error;

/// Why the inspector's text says nothing.
#[derive(Debug, Clone, PartialEq, Eq, Diagnostic, Error)]
pub enum InspectError {
    /// It is not JSON.
    #[error("what the engine inspector said is not JSON: {reason}")]
    #[diagnostic(
        code(inspect::not_json),
        help(
            "this version of TensorRT writes it in a way that trtforge does not know; please report it"
        )
    )]
    NotJson {
        /// With line and column.
        reason: String,
    },
    /// It is JSON without layers.
    #[error("what the engine inspector said has no layers: it begins with {start}")]
    #[diagnostic(
        code(inspect::no_layers),
        help(
            "this version of TensorRT writes them in a way that trtforge does not know; please report it"
        )
    )]
    NoLayers {
        /// The first characters.
        start: String,
    },
}

/// The layers in the inspector's text: a string each where only names were kept, else an object.
pub(crate) fn layers(text: &str) -> Result<Vec<Value>, InspectError> {
    let value: Value = serde_json::from_str(text)
        .or_else(|_| serde_json::from_str(&repaired(text)))
        .map_err(|error| InspectError::NotJson { reason: error.to_string() })?;
    match value {
        Value::Array(layers) => Ok(layers),
        Value::Object(mut fields) => match take(&mut fields, "layers") {
            Some(Value::Array(layers)) => Ok(layers),
            // Of an engine without any kept layer information.
            Some(Value::Null) => Ok(Vec::new()),
            _ if field(&fields, "name").is_some() => Ok(vec![Value::Object(fields)]),
            _ => Err(no_layers(text)),
        },
        _ => Err(no_layers(text)),
    }
}

fn no_layers(text: &str) -> InspectError {
    let start: String = text.chars().take(40).collect();
    InspectError::NoLayers { start: format!("`{}`", start.escape_default()) }
}

/// Control characters within strings, which JSON forbids and TensorRT puts there (it separates metadata with 0x1f), as
/// escapes.
fn repaired(text: &str) -> String {
    let (mut inside, mut escaped) = (false, false);
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if inside && (c as u32) < 0x20 {
            out.push_str(&format!("\\u{:04x}", c as u32));
        } else {
            out.push(c);
        }
        match c {
            '"' if !escaped => inside = !inside,
            _ => {}
        }
        escaped = inside && c == '\\' && !escaped;
    }
    out
}

/// A field by its letters alone: `Format/Datatype`, `Format/DataType` and `format_datatype` are one.
pub(crate) fn field<'v>(fields: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    fields.iter().find(|(key, _)| letters(key) == name).map(|(_, value)| value)
}

fn take(fields: &mut Map<String, Value>, name: &str) -> Option<Value> {
    let key = fields.keys().find(|key| letters(key) == name)?.clone();
    fields.remove(&key)
}

/// A field that holds text.
pub(crate) fn text<'v>(fields: &'v Map<String, Value>, name: &str) -> Option<&'v str> {
    field(fields, name)?.as_str().map(str::trim).filter(|text| !text.is_empty())
}

fn letters(key: &str) -> String {
    key.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_found_where_any_version_puts_them() {
        let cases = [
            (r#"{"Layers": ["a", "b"], "Bindings": ["x"]}"#, 2),
            (r#"{"layers": [{"Name": "a"}]}"#, 1),
            (r#"[{"Name": "a"}, {"Name": "b"}]"#, 2),
            (r#"{"Name": "alone", "LayerType": "gemm"}"#, 1),
            (r#"{"Layers": [], "I/O Tensors": []}"#, 0),
            (r#"{"Layers": null}"#, 0),
        ];
        for (text, count) in cases {
            assert_eq!(layers(text).unwrap().len(), count, "{text}");
        }
    }

    #[test]
    fn raw_control_characters_in_strings_are_taken() {
        let text = "{\"Layers\": [\n\t{\"Name\": \"a \\\" \\\\\", \"Metadata\": \"x\u{1f}y\"}]}";
        assert!(serde_json::from_str::<Value>(text).is_err());
        let layers = layers(text).unwrap();
        assert_eq!(layers[0]["Metadata"], "x\u{1f}y");
        assert_eq!(layers[0]["Name"], "a \" \\");
    }

    #[test]
    fn what_is_no_inspection_is_told() {
        let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
        let cases = [
            ("", "not JSON: EOF"),
            ("Layers:\n gemm", "not JSON: expected value"),
            (&deep, "recursion limit"),
            ("3", "no layers: it begins with `3`"),
            (r#"{"Nodes": []}"#, "no layers"),
            (r#"{"Layers": 7}"#, "no layers"),
        ];
        for (text, expected) in cases {
            let error = layers(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
