//! `trtforge inspect`: what is in an ONNX model, or what a plan was made from.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use trtforge_onnx::{Model, ValueInfo};

use super::plan::{inspect_plan, is_plan};
use super::print;
use crate::canonical::{as_json, canonical_form, describe_form};
use crate::cli::InspectArgs;
use crate::error::PipelineError;

/// Describes a model or a plan.
pub fn inspect(args: &InspectArgs) -> Result<(), PipelineError> {
    if is_plan(&args.path) {
        return inspect_plan(args);
    }
    let model = Model::open(&args.path)?;
    model.check()?;
    let graph = model.graph();
    let mut operators = BTreeMap::<&str, usize>::new();
    for node in graph.nodes() {
        *operators.entry(node.op_type()).or_default() += 1;
    }
    let (inputs, outputs) = (graph.inputs(), graph.outputs());
    // What trtforge would make of it; a model that is no FP32 encoder can be looked at too.
    let form = canonical_form(&model).ok().map(|(_, form)| form);
    let parameters: usize = graph.initializers().map(|tensor| tensor.len()).sum();
    let value = json!({
        "opset": model.opset(),
        "ir_version": model.proto().ir_version,
        "fingerprint": model.fingerprint().to_hex().to_string(),
        "inputs": inputs.iter().map(describe).collect::<Vec<_>>(),
        "outputs": outputs.iter().map(describe).collect::<Vec<_>>(),
        "nodes": graph.nodes().len(),
        "parameters": parameters,
        "operators": operators,
        "canonical": as_json(form.as_ref()),
    });
    let mut text = format!(
        "opset {}, {} nodes, {parameters} parameters\n",
        model.opset(),
        graph.nodes().len()
    );
    for (what, values) in [("input", &inputs), ("output", &outputs)] {
        for info in values {
            let shape = shape(info).join(", ");
            text.push_str(&format!("{what:<7} {} {} [{shape}]\n", info.name, info.element_type));
        }
    }
    for (operator, count) in &operators {
        text.push_str(&format!("{count:>6} {operator}\n"));
    }
    text.extend(form.as_ref().map(describe_form));
    Ok(print(args.json, &value, &text)?)
}

fn describe(info: &ValueInfo) -> Value {
    json!({ "name": info.name, "type": info.element_type.to_string(), "shape": shape(info) })
}

/// Each dimension as a number or a name, `?` where the model says neither.
fn shape(info: &ValueInfo) -> Vec<String> {
    info.shape.iter().flatten().map(ToString::to_string).collect()
}
