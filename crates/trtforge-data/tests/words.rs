//! Sentences of words and tags as people really have them, good and bad, one by one; and their tokens.

use std::fs;
use std::sync::Arc;

use miette::Diagnostic;
use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use trtforge_data::{DataError, RowError, TextEncoder, WordFields, WordRows};

fn labels() -> Vec<String> {
    ["O", "B-ORG", "I-ORG", "B-PER"].map(str::to_owned).to_vec()
}

fn fields() -> WordFields {
    WordFields { words: "tokens".into(), tags: Some("ner_tags".into()) }
}

fn load(name: &str, content: &[u8]) -> Result<WordRows, DataError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    WordRows::load(&path, &fields(), &labels())
}

/// The error's message behind the folder.
fn refusal(name: &str, content: &str) -> String {
    let error = load(name, content.as_bytes()).expect_err(content);
    assert!(error.help().is_some(), "{error}");
    let message = error.to_string();
    let start = message.find(name).unwrap_or(0);
    message[start..].to_owned()
}

/// Writes a Parquet file of two list columns, as Arrow lays lists out.
fn parquet(words: &[&str], tags: &[i64]) -> Vec<u8> {
    let list = |name: &str, element: Type| {
        let repeated = Type::group_type_builder("list")
            .with_repetition(Repetition::REPEATED)
            .with_fields(vec![Arc::new(element)])
            .build()
            .unwrap();
        let list = Type::group_type_builder(name)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(Some(LogicalType::List))
            .with_converted_type(ConvertedType::LIST)
            .with_fields(vec![Arc::new(repeated)])
            .build();
        Arc::new(list.unwrap())
    };
    let word = Type::primitive_type_builder("element", Physical::BYTE_ARRAY)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(Some(LogicalType::String))
        .build()
        .unwrap();
    let tag = Type::primitive_type_builder("element", Physical::INT64)
        .with_repetition(Repetition::OPTIONAL)
        .build()
        .unwrap();
    let schema = Type::group_type_builder("rows")
        .with_fields(vec![list("tokens", word), list("ner_tags", tag)])
        .build()
        .unwrap();
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let levels = |count: usize| -> (Vec<i16>, Vec<i16>) {
        (vec![3; count], (0..count).map(|at| i16::from(at > 0)).collect())
    };
    let mut column = group.next_column().unwrap().unwrap();
    let values: Vec<ByteArray> = words.iter().map(|&word| ByteArray::from(word)).collect();
    let (definition, repetition) = levels(words.len());
    let written = column.typed::<ByteArrayType>();
    written.write_batch(&values, Some(&definition), Some(&repetition)).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let (definition, repetition) = levels(tags.len());
    let written = column.typed::<Int64Type>();
    written.write_batch(tags, Some(&definition), Some(&repetition)).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn one_content_in_every_format() {
    let jsonl = "{\"tokens\": [\"EU\", \"rejects\", \"東京\"], \"ner_tags\": [\"B-ORG\", \"O\", \"B-PER\"]}\n";
    let numbers = "\u{feff}{\"ner_tags\": [1, 0, 3], \"id\": \"7\", \"tokens\": [\"EU\", \"rejects\", \"東京\"]}\r\n\r\n";
    let conll =
        "-DOCSTART- -X- O O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n東京 NNP B-NP B-PER\n";
    let tabs = "# id 5 domain=en\r\nEU\t_\tB-ORG\r\nrejects\t_\tO\r\n東京\t_\tB-PER\r\n\r\n\r\n";
    let files = [
        ("a.jsonl", jsonl.as_bytes().to_vec()),
        ("b.json", numbers.as_bytes().to_vec()),
        ("c.conll", conll.as_bytes().to_vec()),
        ("d.txt", conll.as_bytes().to_vec()),
        ("e.tsv", tabs.as_bytes().to_vec()),
        ("f.parquet", parquet(&["EU", "rejects", "東京"], &[1, 0, 3])),
    ];
    let mut fingerprints = Vec::new();
    for (name, content) in files {
        let rows = load(name, &content).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(rows.rows.len(), 1, "{name}");
        assert_eq!(rows.rows[0].words, ["EU", "rejects", "東京"], "{name}");
        assert_eq!(rows.rows[0].tags, [Some(1), Some(0), Some(3)], "{name}");
        fingerprints.push(rows.fingerprint);
    }
    fingerprints.dedup();
    assert_eq!(fingerprints.len(), 1, "the content alone decides the fingerprint");
    let line = load("c.conll", conll.as_bytes()).unwrap().rows[0].line;
    assert_eq!(line, 3, "the first line of the sentence");
}

#[test]
fn a_word_may_look_like_anything() {
    // `#` is a word where its line has a tag; a space inside a word needs tabs.
    let rows = load("a.conll", "# O\nNew York\tB-ORG\n\n\u{a0} O\n".as_bytes()).unwrap().rows;
    assert_eq!(rows[0].words, ["#", "New York"]);
    assert_eq!(rows[1].words, ["\u{a0}"]);
    let rows = load("a.jsonl", b"{\"tokens\": [\"\", \"x\"], \"ner_tags\": [0, -100]}\n").unwrap();
    assert_eq!(rows.rows[0].tags, [Some(0), None]);
    assert!(rows.notes[0].contains("-100"), "{:?}", rows.notes);
    let rows = load("a.jsonl", b"{\"tokens\": [], \"ner_tags\": []}\n").unwrap();
    assert_eq!(rows.notes, ["1 of 1 rows have no words"]);
}

#[test]
fn each_fault_is_named_with_its_place() {
    let good = "{\"tokens\": [\"a\"], \"ner_tags\": [\"O\"]}\n";
    let cases: &[(&str, &str, &str)] = &[
        (
            "a.jsonl",
            "{\"tokens\": [\"a\", \"b\"], \"ner_tags\": [\"O\"]}",
            "a.jsonl:2: `tokens` has 2 words and `ner_tags` has 1 tags",
        ),
        (
            "a.jsonl",
            "{\"tokens\": [\"a\"], \"ner_tags\": [\"B-LOC\"]}",
            "a.jsonl:2: tag \"B-LOC\" of word 0",
        ),
        ("a.jsonl", "{\"tokens\": [\"a\"], \"ner_tags\": [4]}", "a.jsonl:2: tag 4 of word 0"),
        ("a.jsonl", "{\"tokens\": [\"a\"], \"ner_tags\": [-1]}", "a.jsonl:2: tag -1 of word 0"),
        ("a.jsonl", "{\"tokens\": [\"a\"], \"ner_tags\": [null]}", "a.jsonl:2: tag null of word 0"),
        (
            "a.jsonl",
            "{\"tokens\": [\"a\", \"b\"], \"ner_tags\": [\"O\", 1]}",
            "a.jsonl:2: the tags in `ner_tags` mix names and positions: \"O\" and 1",
        ),
        (
            "a.jsonl",
            "{\"tokens\": \"a b\", \"ner_tags\": [\"O\"]}",
            "a.jsonl:2: field `tokens` is \"a b\", not a list of words",
        ),
        (
            "a.jsonl",
            "{\"tokens\": [\"a\"], \"ner_tags\": \"O\"}",
            "a.jsonl:2: field `ner_tags` is \"O\", not a list of tags",
        ),
        (
            "a.jsonl",
            "{\"tokens\": [\"a\", 5], \"ner_tags\": [0, 0]}",
            "a.jsonl:2: word 1 (counted from 0) of field `tokens` is 5, not text",
        ),
        (
            "a.jsonl",
            "{\"tokens\": [[\"a\"]], \"ner_tags\": [0]}",
            "a.jsonl:2: word 0 (counted from 0) of field `tokens` is a list",
        ),
        ("a.jsonl", "{\"tokens\": [\"a\"]}", "a.jsonl:2: no field `ner_tags`"),
        ("a.jsonl", "{\"words\": [\"a\"], \"ner_tags\": [0]}", "a.jsonl:2: no field `tokens`"),
    ];
    for (name, line, expected) in cases {
        let message = refusal(name, &format!("{good}{line}\n"));
        assert!(message.starts_with(expected), "{message}");
    }
    let lines = refusal("a.conll", "EU B-ORG\nrejects O\nGerman B-MISC\n");
    assert!(lines.starts_with("a.conll:3: tag \"B-MISC\" of word 2"), "{lines}");
    assert!(
        refusal("a.conll", "EU B-ORG\nrejects\n").starts_with("a.conll:2: the line has one column")
    );
    assert!(refusal("a.conll", "\n \n-DOCSTART- O\n").contains("no rows"));
    assert!(refusal("a.csv", "tokens,ner_tags\na,O\n").contains("a csv file cannot hold lists"));
    assert!(refusal("a.xml", "").contains("not a kind of data file"));
    let error = load("a.conll", b"EU B-ORG\n\xff O\n").unwrap_err();
    assert!(matches!(&error, DataError::NotUtf8 { place, .. } if place.line == 2), "{error}");
}

#[test]
fn without_tags_words_are_enough() {
    let folder = tempfile::tempdir().unwrap();
    let fields = WordFields { words: "tokens".into(), tags: None };
    for (name, content) in [("a.jsonl", "{\"tokens\": [\"EU\", \"x\"]}\n"), ("a.txt", "EU\nx\n")] {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        let rows = WordRows::load(&path, &fields, &labels()).unwrap().rows;
        assert_eq!((rows[0].words.len(), rows[0].tags.len()), (2, 0), "{name}");
    }
}

#[test]
fn errors_are_values() {
    let error = load("a.jsonl", b"{\"tokens\": [\"a\"], \"ner_tags\": [\"b-org\"]}\n").unwrap_err();
    assert!(error.help().unwrap().to_string().contains("did you mean `B-ORG`?"));
    let DataError::Row(error) = error else { panic!("{error:?}") };
    assert!(matches!(*error, RowError::BadTag { index: 0, .. }));
}

fn encoder(max_length: usize) -> TextEncoder {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vocab.txt");
    let vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nun\n##believ\n##able\neu\n東\n京\n.\nx";
    fs::write(&path, vocabulary).unwrap();
    TextEncoder::open(&path, max_length).unwrap()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[test]
fn the_first_token_of_a_word_stands_for_it() {
    // [CLS] eu un ##believ ##able 東 京 . [SEP]; a zero-width space gives no token at all.
    let row = words(&["EU", "unbelievable", "\u{200b}", "東京", ".", "日本"]);
    let found = encoder(32).encode_words(&[row.as_slice()]).unwrap().remove(0);
    assert_eq!(found.encoded.ids, [2, 7, 4, 5, 6, 8, 9, 10, 1, 1, 3]);
    assert_eq!(found.first, [Some(1), Some(2), None, Some(5), Some(7), Some(8)]);
    assert_eq!((found.beyond, found.encoded.truncated), (0, false));
}

#[test]
fn words_beyond_the_maximum_have_no_token() {
    // Room for five tokens: eu un ##believ ##able 東, so 京 is lost, and its word keeps its first token.
    let row = words(&["EU", "unbelievable", "東京", ".", "x", "x"]);
    let found = encoder(7).encode_words(&[row.as_slice()]).unwrap().remove(0);
    assert_eq!(found.encoded.ids, [2, 7, 4, 5, 6, 8, 3]);
    assert_eq!(found.first, [Some(1), Some(2), Some(5), None, None, None]);
    assert_eq!((found.beyond, found.encoded.truncated), (3, true));
    let none: &[String] = &[];
    let found = encoder(7).encode_words(&[none]).unwrap().remove(0);
    assert_eq!((found.encoded.ids, found.first), (vec![2, 3], vec![]));
}
