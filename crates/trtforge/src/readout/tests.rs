//! Outputs right and wrong, by hand.

use miette::Diagnostic;
use ndarray::ArrayD;
use trtforge_evaluate::TagScheme;

use super::*;
use crate::profile::AnswerRules;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn classes() -> Task {
    Task::TextClassification { labels: names(&["a", "b"]) }
}

fn tagged() -> Task {
    Task::TokenClassification { labels: names(&["O", "B-X"]), scheme: TagScheme::Lenient }
}

fn questions() -> Task {
    Task::QuestionAnswering(AnswerRules {
        stride: 1,
        max_answer_tokens: 30,
        n_best: 20,
        no_answer: false,
        no_answer_threshold: 0.0,
    })
}

fn embedding(pooling: Pooling, normalize: bool) -> Task {
    Task::Embedding(Vectors { pooling, normalize })
}

fn run(tokens: usize) -> Encoded {
    Encoded { ids: vec![1; tokens], type_ids: vec![0; tokens], truncated: false }
}

/// Reads counted values 0, 1, 2 … of this shape for two runs of two and three tokens, padded to three.
fn read(task: &Task, outputs: &[(&str, &[usize])]) -> Result<Vec<Vec<f32>>, PipelineError> {
    let value = |(name, shape): &(&str, &[usize])| {
        let count = shape.iter().product::<usize>();
        let values = (0..count).map(|value| value as f32).collect();
        ((*name).to_owned(), Value::F32(ArrayD::from_shape_vec(shape.to_vec(), values).unwrap()))
    };
    let values: Vec<NamedValue> = outputs.iter().map(value).collect();
    let found = names(&outputs.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    let readout = Readout::of(task, &[], &found)?;
    readout.read(&values, &[&run(2), &run(3)], 3)
}

#[test]
fn padding_is_left_out() {
    assert_eq!(read(&classes(), &[("y", &[2, 2])]).unwrap(), [[0.0, 1.0], [2.0, 3.0]]);
    let tags = read(&tagged(), &[("logits", &[2, 3, 2])]).unwrap();
    assert_eq!(tags, [vec![0.0, 1.0, 2.0, 3.0], vec![6.0, 7.0, 8.0, 9.0, 10.0, 11.0]]);
    let joined = read(&questions(), &[("logits", &[2, 3, 2])]).unwrap();
    assert_eq!(joined, [vec![0.0, 2.0, 1.0, 3.0], vec![6.0, 8.0, 10.0, 7.0, 9.0, 11.0]]);
    let spans = [("end_logits", [2, 3].as_slice()), ("start_logits", &[2, 3, 1])];
    let apart = read(&questions(), &spans).unwrap();
    assert_eq!(apart, [vec![0.0, 1.0, 0.0, 1.0], vec![3.0, 4.0, 5.0, 3.0, 4.0, 5.0]]);
    let cross = Task::SentenceSimilarity(TextEncoders::Cross);
    assert_eq!(read(&cross, &[("y", &[2, 1])]).unwrap(), [[0.0], [1.0]]);
    assert_eq!(read(&cross, &[("y", &[2])]).unwrap(), [[0.0], [1.0]]);
}

#[test]
fn tokens_are_pooled_without_padding() {
    let hidden = [("last_hidden_state", [2, 3, 2].as_slice()), ("pooler_output", &[2, 2])];
    // Of the first run (0, 1) and (2, 3); of the second (6, 7), (8, 9) and (10, 11).
    let mean = read(&embedding(Pooling::Mean, false), &hidden).unwrap();
    assert_eq!(mean, [[1.0, 2.0], [8.0, 9.0]]);
    let cls = read(&embedding(Pooling::Cls, false), &hidden).unwrap();
    assert_eq!(cls, [[0.0, 1.0], [6.0, 7.0]]);
    for pooling in [Pooling::PoolerOutput, Pooling::None] {
        let pooled = read(&embedding(pooling, false), &hidden).unwrap();
        assert_eq!(pooled, [[0.0, 1.0], [2.0, 3.0]]);
    }
    // 1 / √5, 2 / √5.
    let unit = read(&embedding(Pooling::Mean, true), &hidden).unwrap();
    assert!((unit[0][0] - 0.447_213_6).abs() < 1e-6 && (unit[0][1] - 0.894_427_2).abs() < 1e-6);
}

/// A task, the outputs of a model with their shapes, and what the refusal says.
type Unfit<'a> = (&'a Task, &'a [(&'a str, &'a [usize])], &'a [&'a str]);

#[test]
fn unfit_outputs_are_named_with_the_remedy() {
    let cross = Task::SentenceSimilarity(TextEncoders::Cross);
    let cases: &[Unfit<'_>] = &[
        (&classes(), &[("y", &[2, 3])], &["`y`", "[2, 3]", "2 labels"]),
        (&classes(), &[("y", &[2, 3, 2])], &["[2, 3, 2]", "question-answering"]),
        (&classes(), &[("y", &[2, 3, 9])], &["token-classification"]),
        (&classes(), &[("y", &[2, 1])], &["sentence-similarity"]),
        (
            &tagged(),
            &[("y", &[2, 2])],
            &["token-classification needs [batch, tokens, labels]", "text-classification model"],
        ),
        (&tagged(), &[("y", &[2, 3, 5])], &["[2, 3, 5]", "task.labels"]),
        (&questions(), &[("y", &[2, 3, 3])], &["question-answering needs [batch, tokens, 2]"]),
        (
            &questions(),
            &[("start_logits", &[2, 3]), ("end_logits", &[2, 2])],
            &["`end_logits`", "[2, 2]"],
        ),
        (&questions(), &[("a", &[2, 3]), ("b", &[2, 3])], &["outputs a, b", "[START, END]"]),
        (&cross, &[("y", &[2, 8])], &["[batch, 1]", "encoder: bi"]),
        (&embedding(Pooling::Mean, false), &[("y", &[2, 8])], &["pooling: none"]),
        (&embedding(Pooling::None, false), &[("y", &[2, 3, 8])], &["pooling: mean"]),
        (
            &embedding(Pooling::Mean, false),
            &[("a", &[2, 8]), ("b", &[2, 8])],
            &["outputs a, b", "embedding"],
        ),
    ];
    for (task, outputs, words) in cases {
        let error = read(task, outputs).expect_err("it does not fit");
        let text = format!("{error} [{}]", error.help().expect("there is help"));
        for word in *words {
            assert!(text.contains(word), "`{word}` is not in: {text}");
        }
    }
}

#[test]
fn the_profile_chooses_outputs() {
    let outputs = names(&["a", "b", "c"]);
    let choose = |task: &Task, wanted: &[&str]| Readout::of(task, &names(wanted), &outputs);
    let what = |task: &Task, wanted: &[&str]| choose(task, wanted).unwrap().what;
    assert_eq!(what(&classes(), &["b"]), What::Logits { output: "b".into(), width: 2 });
    let spans = What::Spans { start: "c".into(), end: "a".into() };
    assert_eq!(what(&questions(), &["c", "a"]), spans);
    assert_eq!(what(&questions(), &["c"]), What::JoinedSpans { output: "c".into() });
    assert!(matches!(choose(&classes(), &["d"]), Err(ReadoutError::UnknownOutput { .. })));
    assert!(matches!(
        choose(&classes(), &["a", "b"]),
        Err(ReadoutError::OutputCount { count: 2, .. })
    ));
    assert!(matches!(choose(&classes(), &[]), Err(ReadoutError::Output { .. })));
}
