//! The canonical form in the pipeline: made when a model is opened, told in `check`, `inspect` and the record.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use trtforge_onnx::Model;
use trtforge_quantize::{
    CANONICAL_VERSION, Canonical, CanonicalOptions, QuantizeError, RewriteKind, canonicalize,
};
use trtforge_report::{CanonicalForm, GraphRewrite, NearMiss};

/// Brings a model to canonical form, with the account of it.
pub fn canonical_form(model: &Model) -> Result<(Model, CanonicalForm), QuantizeError> {
    let canonical = canonicalize(model, &CanonicalOptions::default())?;
    let account = account(model, &canonical);
    Ok((canonical.model, account))
}

/// What an artifact's fingerprint says of the form it was made from.
pub fn version(on: bool) -> String {
    if on { CANONICAL_VERSION.to_string() } else { "off".to_owned() }
}

fn account(model: &Model, canonical: &Canonical) -> CanonicalForm {
    let nodes = |model: &Model| model.graph_proto().node.len() as u64;
    let counts = canonical.counts().into_iter();
    CanonicalForm {
        nodes_before: nodes(model),
        nodes_after: nodes(&canonical.model),
        opset_before: model.opset(),
        opset_after: canonical.model.opset(),
        counts: counts.map(|(kind, count)| (kind.name().to_owned(), count as u64)).collect(),
        rewrites: canonical
            .rewrites
            .iter()
            .map(|rewrite| GraphRewrite {
                kind: rewrite.kind.name().to_owned(),
                nodes: rewrite.nodes.clone(),
                tensor: rewrite.tensor.clone(),
                reason: rewrite.reason.clone(),
            })
            .collect(),
        near_misses: canonical
            .near_misses
            .iter()
            .map(|miss| NearMiss { nodes: miss.nodes.clone(), reason: miss.reason.clone() })
            .collect(),
    }
}

/// For a person: one line, and one for each kind of near miss.
pub fn describe_form(form: &CanonicalForm) -> String {
    let mut text = format!("canonical form: {}\n", form.summary());
    for (reason, places) in by_reason(form) {
        let first = places[0].last().map_or("", String::as_str);
        let more = match places.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        text.push_str(&format!("  left as it is: `{first}`{more}: {reason}\n"));
    }
    text
}

/// One warning for all near misses of fusion, since what is not fused costs accuracy or time in FP16.
pub fn warning(form: &CanonicalForm) -> Option<String> {
    let reasons = by_reason(form);
    let (reason, places) = reasons.first_key_value()?;
    let node = places[0].last().map_or("", String::as_str);
    let count = form.near_misses.len();
    let places = if count == 1 { "one place".to_owned() } else { format!("{count} places") };
    Some(format!(
        "{places} of the graph nearly match what the canonical form rewrites and stay as they are, such as `{node}`: {reason} (`run.json` lists all under `canonical`)"
    ))
}

fn by_reason(form: &CanonicalForm) -> BTreeMap<&str, Vec<&[String]>> {
    let mut reasons: BTreeMap<&str, Vec<&[String]>> = BTreeMap::new();
    for miss in &form.near_misses {
        reasons.entry(&miss.reason).or_default().push(&miss.nodes);
    }
    reasons
}

/// For programs: counts, near misses, and the rewrites that change operators; `run.json` has every one.
pub fn as_json(form: Option<&CanonicalForm>) -> Value {
    let Some(form) = form else { return Value::Null };
    let small = [RewriteKind::ConstantStored.name(), RewriteKind::PassThroughRemoved.name()];
    let told = form.rewrites.iter().filter(|rewrite| !small.contains(&rewrite.kind.as_str()));
    json!({
        "nodes_before": form.nodes_before,
        "nodes_after": form.nodes_after,
        "opset_before": form.opset_before,
        "opset_after": form.opset_after,
        "counts": form.counts,
        "rewrites": told.collect::<Vec<_>>(),
        "near_misses": form.near_misses,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_are_told_once_per_reason() {
        let miss = |node: &str, reason: &str| NearMiss {
            nodes: vec!["first".to_owned(), node.to_owned()],
            reason: reason.to_owned(),
        };
        let form = CanonicalForm {
            near_misses: vec![miss("a", "exponent"), miss("b", "exponent"), miss("c", "axes")],
            ..CanonicalForm::default()
        };
        let text = describe_form(&form);
        assert!(text.contains("left as it is: `a` and 1 more: exponent\n"), "{text}");
        assert!(text.contains("left as it is: `c`: axes\n"), "{text}");
        assert!(
            warning(&form)
                .is_some_and(|text| text.starts_with("3 places") && text.contains("`c`: axes"))
        );
        assert_eq!(warning(&CanonicalForm::default()), None);
        assert_eq!(as_json(None), Value::Null);
    }
}
