//! Questions and their windows: data files good and bad, one by one, and offsets by hand.

use std::fs;

use miette::Diagnostic;
use trtforge_data::{DataError, QuestionFields, QuestionRows, TextEncoder, Window};

fn fields() -> QuestionFields {
    QuestionFields {
        question: "question".into(),
        context: "context".into(),
        answers: Some("answers".into()),
    }
}

fn load(name: &str, content: &str, no_answer: bool) -> Result<QuestionRows, DataError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    QuestionRows::load(&path, &fields(), no_answer)
}

/// The error's message behind the folder, with its help.
fn refusal(name: &str, content: &str) -> String {
    let error = load(name, content, false).expect_err(content);
    let message = format!("{error} [{}]", error.help().expect("an error has help"));
    let start = message.find(name).unwrap_or(0);
    message[start..].to_owned()
}

const FLAT: &str = r#"{"question": "Who?", "context": "It was Ada, not Bob.", "answers": {"text": ["Ada", "Ada, not Bob"], "answer_start": [7, 7]}}"#;
const SQUAD: &str = r#"{"version": "1.1", "data": [
 {"title": "x [ { \" qas", "paragraphs": [
  {"context": "It was Ada, not Bob.", "qas": [
   {"id": "1", "question": "Who?", "answers": [{"text": "Ada", "answer_start": 7}, {"text": "Ada, not Bob", "answer_start": 7}]}
  ], "notes": [{"a": {}}]}
 ]}
]}"#;

#[test]
fn one_content_in_every_form() {
    let list = r#"{"question": "Who?", "context": "It was Ada, not Bob.", "answers": [{"text": "Ada", "answer_start": 7}, {"text": "Ada, not Bob"}]}"#;
    // A start for one of two answers cannot be told from a mistake.
    assert!(refusal("a.jsonl", list).contains("2 answers and 1 values"));
    let texts = r#"{"question": "Who?", "context": "It was Ada, not Bob.", "answers": ["Ada", "Ada, not Bob"]}"#;
    let mut fingerprints = Vec::new();
    for (name, content) in
        [("a.jsonl", FLAT), ("b.json", FLAT), ("c.jsonl", texts), ("d.json", SQUAD)]
    {
        let rows = load(name, content, false).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(rows.rows[0].answers, ["Ada", "Ada, not Bob"], "{name}");
        assert_eq!(rows.rows[0].line, if name == "d.json" { 4 } else { 1 }, "{name}");
        fingerprints.push(rows.fingerprint);
    }
    fingerprints.dedup();
    assert_eq!(fingerprints.len(), 1);
    let minified = SQUAD.replace('\n', "");
    assert_eq!(load("e.json", &minified, false).unwrap().rows[0].line, 1);
}

#[test]
fn questions_without_an_answer_must_be_expected() {
    let empty = [
        r#"{"question": "Who?", "context": "c", "answers": {"text": [], "answer_start": []}}"#,
        r#"{"question": "Who?", "context": "c", "answers": []}"#,
        r#"{"question": "Who?", "context": "c", "answers": null}"#,
        r#"{"question": "Who?", "context": "c", "answers": [""]}"#,
    ];
    for row in empty {
        assert!(refusal("a.jsonl", row).contains("`task.no_answer: true`"), "{row}");
        let rows = load("a.jsonl", row, true).unwrap();
        assert!(rows.rows[0].answers.is_empty(), "{row}");
        assert_eq!(rows.notes, ["1 of 1 questions have no answer"]);
    }
    let impossible = SQUAD.replace("\"id\": \"1\",", "\"is_impossible\": true,");
    assert!(load("a.json", &impossible, true).unwrap().rows[0].answers.is_empty());
}

#[test]
fn answer_starts_count_code_points() {
    // "Ada" is the third character from 0; in UTF-8 bytes it is at 7 ("😀" 4, "é" 2, " " 1), in UTF-16 units at 4.
    let row = |start: i64| {
        format!(
            r#"{{"question": "?", "context": "😀é Ada", "answers": {{"text": ["Ada"], "answer_start": [{start}]}}}}"#
        )
    };
    assert_eq!(load("a.jsonl", &row(3), false).unwrap().rows[0].answers, ["Ada"]);
    let wrong = |start| refusal("a.jsonl", &row(start));
    assert!(wrong(7).contains("offset in UTF-8 bytes") && wrong(7).contains("has no text at"));
    assert!(wrong(4).contains("UTF-16 units") && wrong(4).contains("\"da\""), "{}", wrong(4));
    assert!(wrong(0).contains("the answer stands at 3"), "{}", wrong(0));
    assert!(wrong(-1).contains("the answer stands at 3"));
    assert!(wrong(i64::MAX).contains("the answer stands at 3"));
    let absent = row(0).replace("[\"Ada\"]", "[\"Eve\"]");
    assert!(refusal("a.jsonl", &absent).contains("no part of the context"));
}

#[test]
fn each_fault_is_named_with_its_place() {
    let second = |row: &str| refusal("a.jsonl", &format!("{FLAT}\n{row}\n"));
    let cases = [
        (
            r#"{"question": "?", "context": " \u200b", "answers": ["x"]}"#,
            "a.jsonl:2: field `context` has no visible text",
        ),
        (
            r#"{"question": null, "context": "c", "answers": ["x"]}"#,
            "a.jsonl:2: field `question` is null, not text",
        ),
        (
            r#"{"question": "?", "context": ["c"], "answers": ["x"]}"#,
            "a.jsonl:2: field `context` is a list, not text",
        ),
        (r#"{"question": "?", "context": "c"}"#, "a.jsonl:2: no field `answers`"),
        (r#"{"context": "c", "answers": ["x"]}"#, "a.jsonl:2: no field `question`"),
        (r#"{"question": "?", "answers": ["x"]}"#, "a.jsonl:2: no field `context`"),
        (
            r#"{"question": "?", "context": "c", "answers": [5]}"#,
            "a.jsonl:2: field `answers` is 5, not answers",
        ),
        (
            r#"{"question": "?", "context": "c", "answers": {"text": ["c"], "answer_start": ["0"]}}"#,
            "a.jsonl:2: field `answers` is \"0\", not answers",
        ),
        (
            r#"{"question": "?", "context": "c", "answers": {"text": ["c"], "answer_start": [0, 1]}}"#,
            "a.jsonl:2: field `answers` has 1 answers and 2 values",
        ),
        (
            r#"{"question": "?", "context": "c", "answers": [["c"]]}"#,
            "a.jsonl:2: field `answers` is a list, not answers",
        ),
    ];
    for (row, expected) in cases {
        let message = second(row);
        assert!(message.starts_with(expected), "{message}");
    }
    let squad = |from: &str, to: &str| refusal("s.json", &SQUAD.replace(from, to));
    assert!(
        squad("\"question\"", "\"q\"")
            .starts_with("s.json:4: a question in `qas` has no field `question`")
    );
    assert!(
        squad("\"answers\"", "\"a\"")
            .starts_with("s.json:4: a question in `qas` has no field `answers`")
    );
    assert!(
        squad("\"answer_start\": 7}, ", "\"answer_start\": 8}, ")
            .starts_with("s.json:4: the context has \"da,\" at character 8")
    );
    let context = squad("\"context\"", "\"text\"");
    assert!(context.starts_with("s.json:5: column 26: missing field `context`"), "{context}");
    assert!(
        squad(" ]}\n]}", "").starts_with("s.json:6: column 0: EOF"),
        "{}",
        squad(" ]}\n]}", "")
    );
    assert!(refusal("s.json", "{\"data\": []}").contains("no rows"));
    assert!(refusal("s.json", "{\"data\": {}}").starts_with("s.json:1"));
    assert!(refusal("s.csv", "question,context\n").contains("csv file cannot hold lists"));
}

fn encoder(max_length: usize) -> TextEncoder {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vocab.txt");
    let vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nwho\na\nb\nc\nd\ne\nf\n東\n京\ncafe\n##s";
    fs::write(&path, vocabulary).unwrap();
    TextEncoder::open(&path, max_length).unwrap()
}

fn windows(max_length: usize, stride: usize, question: &str, context: &str) -> Vec<Window> {
    let rows = encoder(max_length).encode_windows(&[(question, context)], stride).unwrap();
    rows.unwrap_or_else(|unfit| panic!("{unfit:?}")).remove(0)
}

#[test]
fn windows_by_hand() {
    // 8 tokens: [CLS] who [SEP] + 4 of the context + [SEP]; consecutive windows share two.
    let found = windows(8, 2, "who", "a b c d e f");
    let ids: Vec<&[u32]> = found.iter().map(|window| window.encoded.ids.as_slice()).collect();
    assert_eq!(ids, [[2, 4, 3, 5, 6, 7, 8, 3], [2, 4, 3, 7, 8, 9, 10, 3]]);
    for window in &found {
        assert_eq!(window.encoded.type_ids, [0, 0, 0, 1, 1, 1, 1, 1]);
        assert_eq!(window.context_start, 3);
    }
    assert_eq!(found[0].offsets, [(0, 1), (2, 3), (4, 5), (6, 7)]);
    assert_eq!(found[1].offsets, [(4, 5), (6, 7), (8, 9), (10, 11)]);
    // Nothing shared: four and two.
    let lengths = |stride, context| -> Vec<usize> {
        windows(8, stride, "who", context).iter().map(|window| window.offsets.len()).collect()
    };
    assert_eq!(lengths(0, "a b c d e f"), [4, 2]);
    // Three shared, so each window goes one further; a context that just fits, or is shorter than what would be shared, is one window.
    assert_eq!(lengths(3, "a b c d e f"), [4, 4, 4]);
    assert_eq!(lengths(3, "a b c d"), [4]);
    assert_eq!(lengths(3, "a"), [1]);
    assert_eq!(lengths(3, "\u{200b}x").len(), 1);
}

#[test]
fn every_token_of_a_long_context_is_in_a_window() {
    // More tokens than a row by far: the library alone loses them.
    let context = ["a"; 500].join(" ");
    let found = windows(16, 4, "who", &context);
    let mut seen = vec![0; 500];
    for window in &found {
        for &(from, _) in &window.offsets {
            seen[from as usize / 2] += 1;
        }
    }
    assert!(seen.iter().all(|&times| times == 1 || times == 2), "{seen:?}");
    // 12 a window, 8 further each: ceil((500 - 12) / 8) + 1.
    assert_eq!(found.len(), 62);
}

#[test]
fn offsets_are_characters_of_the_context_as_written() {
    // é as e and a combining accent is two characters, the emoji one; 東京 are two words.
    let context = "😀 Cafe\u{301}s 東京";
    let window = &windows(32, 4, "who", context)[0];
    assert_eq!(window.encoded.ids[3..], [1, 13, 14, 11, 12, 3]);
    assert_eq!(window.offsets, [(0, 1), (2, 6), (7, 8), (9, 10), (10, 11)]);
}

#[test]
fn a_window_must_be_longer_than_what_it_shares() {
    let rows = [("who", "a b"), ("who who who", "a b")];
    let encoder = encoder(8);
    assert!(encoder.encode_windows(&rows, 1).unwrap().is_ok());
    let unfit = encoder.encode_windows(&rows, 2).unwrap().unwrap_err();
    assert_eq!((unfit.row, unfit.question, unfit.window), (1, 3, 2));
    let unfit =
        encoder.encode_windows(&[("who who who who who who", "a")], 0).unwrap().unwrap_err();
    assert_eq!((unfit.question, unfit.window), (6, 0));
}
