//! The JSON Schema of `run.json`, made from the types that read it.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use serde_json::{Value, json};

use super::{RunRecord, SCHEMA};

/// The JSON Schema (draft 2020-12) of a `run.json` of layout [`SCHEMA`].
///
/// It asks for what a reader cannot do without and leaves the rest optional; fields that it does not know are allowed, as they are on
/// reading.
pub fn run_schema() -> Value {
    let generator = SchemaSettings::draft2020_12().with_transform(Figures).into_generator();
    let mut schema = generator.into_root_schema_for::<RunRecord>().to_value();
    schema["title"] = json!("run.json of trtforge");
    // The keys of a map are plain text to the generator.
    schema["properties"]["precisions"]["propertyNames"] = json!({ "$ref": "#/$defs/Precision" });
    schema["properties"]["schema"] = json!({
        "description": "Layout version. Earlier ones still open in trtforge; this schema describes the one it writes.",
        "const": SCHEMA,
    });
    schema
}

/// Any floating-point field may hold what JSON has no number for, by name.
#[derive(Clone)]
struct Figures;

impl Transform for Figures {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(fields) = schema.as_object_mut() else { return };
        let floating = fields.get("format").is_some_and(|f| f == "double" || f == "float");
        let Some(kind) = fields.get("type").filter(|_| floating) else { return };
        let null = kind.as_array().is_some_and(|kinds| kinds.contains(&json!("null")));
        let mut forms =
            vec![json!({ "type": "number" }), json!({ "enum": ["NaN", "Infinity", "-Infinity"] })];
        if null {
            forms.push(json!({ "type": "null" }));
        }
        fields.remove("type");
        fields.remove("format");
        fields.insert("anyOf".into(), Value::Array(forms));
    }
}
