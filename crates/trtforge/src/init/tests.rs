//! What fields and tasks are taken for.

use trtforge_data::{FieldKind, FieldSummary};
use trtforge_onnx::Dim;

use super::*;

fn field(name: &str, kind: FieldKind, values: &[&str]) -> FieldSummary {
    let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
    FieldSummary { name: name.to_owned(), kind, count: 100, mean_length: 9.0, values }
}

fn model(outputs: &[(&str, &[i64])]) -> ModelFacts {
    let dims = |shape: &[i64]| {
        let dim = |size: &i64| if *size < 0 { Dim::Named("n".into()) } else { Dim::Fixed(*size) };
        shape.iter().map(dim).collect()
    };
    let outputs = outputs.iter().map(|(name, shape)| ((*name).to_owned(), dims(shape))).collect();
    ModelFacts::of_outputs(outputs)
}

/// Outputs, fields, and what they are taken for.
type Case<'a> = (&'a [(&'a str, &'a [i64])], Vec<FieldSummary>, Kind);

#[test]
fn tasks_are_told_by_output_and_fields() {
    use FieldKind::{Integer, List, Number, Text};
    let text = || field("text", Text, &[]);
    let label = || field("label", Integer, &["0", "1"]);
    let pair = || vec![field("sentence1", Text, &[]), field("sentence2", Text, &[])];
    let scored = || [pair(), vec![field("score", Number, &[])]].concat();
    let words = || vec![field("tokens", List, &[]), field("ner_tags", List, &["O", "B-X"])];
    let asked = vec![field("question", Text, &[]), field("context", Text, &[])];
    let cases: Vec<Case<'_>> = vec![
        (&[("logits", &[-1, 2])], vec![text(), label()], Kind::Classes(Some(2))),
        (&[("logits", &[-1, 3])], [pair(), vec![label()]].concat(), Kind::Classes(Some(3))),
        (&[("logits", &[-1, -1, 9])], words(), Kind::Tags(Some(9))),
        (&[("start_logits", &[-1, -1]), ("end_logits", &[-1, -1])], asked.clone(), Kind::Answers),
        (&[("logits", &[-1, -1, 2])], asked, Kind::Answers),
        (&[("logits", &[-1, 1])], scored(), Kind::Cross),
        (&[("last_hidden_state", &[-1, -1, 384])], scored(), Kind::Bi { by_token: true }),
        (
            &[("last_hidden_state", &[-1, -1, 384])],
            vec![text()],
            Kind::Embedding { by_token: true },
        ),
        (&[("embedding", &[-1, 384])], vec![text()], Kind::Embedding { by_token: false }),
        (&[("logits", &[])], vec![text(), label()], Kind::Classes(None)),
    ];
    for (outputs, fields, expected) in cases {
        assert_eq!(model(outputs).kind(&fields, &mut Vec::new()), expected, "{outputs:?}");
    }
}

#[test]
fn fields_are_told_by_name_and_content() {
    use FieldKind::{Integer, Text};
    let choose = |fields: &[FieldSummary]| {
        let mut todo = Vec::new();
        let chosen = Chosen::of(fields, Kind::Classes(Some(2)), &mut todo);
        (chosen, todo)
    };
    let (chosen, todo) = choose(&[
        field("id", Integer, &[]),
        field("body", Text, &[]),
        field("verdict", Text, &["ham", "spam"]),
    ]);
    assert_eq!((chosen.text.as_deref(), chosen.gold.as_deref()), (Some("body"), Some("verdict")));
    assert_eq!(chosen.others, ["id (whole numbers)"]);
    assert!(todo.is_empty(), "{todo:?}");
    let (chosen, todo) = choose(&[field("id", Integer, &[]), field("body", Text, &[])]);
    assert_eq!(chosen.gold, None);
    assert!(todo[0].contains("id, body") && todo[0].contains("right answer"), "{todo:?}");
}

#[test]
fn labels_come_from_the_config_then_from_the_data() {
    use FieldKind::{Integer, Text};
    let text = field("label", Text, &["neg", "pos"]);
    let number = field("label", Integer, &["0", "1", "2"]);
    let plain = model(&[("logits", &[-1, 2])]);
    let mut todo = Vec::new();
    assert_eq!(plain.labels(Kind::Classes(Some(2)), Some(&text), &mut todo).0, ["neg", "pos"]);
    assert!(todo[0].contains("alphabetical"), "{todo:?}");
    let made_up = plain.labels(Kind::Classes(Some(3)), Some(&number), &mut todo).0;
    assert_eq!(made_up, ["class_0", "class_1", "class_2"]);
    // Two names for three logits prove nothing.
    let made_up = plain.labels(Kind::Classes(Some(3)), Some(&text), &mut todo).0;
    assert_eq!(made_up.len(), 3);
}

#[test]
fn lengths_are_rounded_and_bounded() {
    let mut todo = Vec::new();
    let of = |longest: usize| LengthStats::of(&[5, longest]);
    assert_eq!(max_length(Some(&of(57)), 512, Kind::Cross, &mut todo), 64);
    assert_eq!(max_length(Some(&of(30)), 31, Kind::Cross, &mut todo), 31);
    assert_eq!(max_length(Some(&of(5)), 512, Kind::Cross, &mut todo), 8);
    assert!(todo.is_empty());
    assert_eq!(max_length(None, 512, Kind::Answers, &mut todo), 384);
    assert_eq!(max_length(None, 64, Kind::Cross, &mut todo), 64);
    assert_eq!(todo.len(), 2);
}

/// A file of this name, with a label for each row or without.
fn file(path: &str, labelled: bool) -> DataFile {
    let mut fields = vec![field("text", FieldKind::Text, &[])];
    fields.extend(labelled.then(|| field("label", FieldKind::Integer, &["0", "1"])));
    DataFile { path: path.into(), fields, rows: 3 }
}

#[test]
fn two_files_have_two_roles() {
    // Files with whether they are labelled, which of them judges, and whether a person should look.
    let cases = [
        (("a", true), ("b", true), "b", false),
        (("a", false), ("b", false), "b", false),
        (("a", true), ("b", false), "a", true),
        (("a", false), ("b", true), "b", false),
        (("test", true), ("train", true), "test", false),
        (("train", true), ("test", true), "test", false),
        (("a", true), ("train", true), "a", false),
        (("dev", true), ("b", true), "dev", false),
        (("train", true), ("calib", true), "train", false),
        (("test", true), ("dev", true), "dev", false),
        (("train", true), ("test", false), "train", true),
    ];
    for (first, second, judge, asks) in cases {
        let mut todo = Vec::new();
        let files = vec![file(first.0, first.1), file(second.0, second.1)];
        let (calibration, evaluation) = data::roles(files, &mut todo);
        let name = |file: Option<DataFile>| file.unwrap().path.display().to_string();
        let (calibration, evaluation) = (name(calibration), name(evaluation));
        let other = if judge == first.0 { second.0 } else { first.0 };
        assert_eq!(
            (calibration.as_str(), evaluation.as_str()),
            (other, judge),
            "{first:?} {second:?}"
        );
        assert_eq!(!todo.is_empty(), asks, "{first:?} {second:?} {todo:?}");
    }
}
