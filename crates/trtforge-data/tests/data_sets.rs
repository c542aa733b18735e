//! Data files as people really have them, good and bad, one by one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use miette::Diagnostic;
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use proptest::prelude::*;
use trtforge_data::{DataError, Dataset, Fields};

/// The folder of a shared case, where the checkout has it.
fn case(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases").join(name);
    let found = folder.is_dir();
    if !found {
        eprintln!("skipped: no shared case {name}");
    }
    found.then_some(folder)
}

fn sentiment() -> Vec<String> {
    vec!["negative".to_owned(), "positive".to_owned()]
}

/// Writes `content` to a file called `name` and loads it with labels.
fn load(name: &str, content: &[u8]) -> Result<Dataset, DataError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    labelled(&path)
}

fn labelled(path: &Path) -> Result<Dataset, DataError> {
    Dataset::load(path, &Fields::labelled("text", "label"), Some(&sentiment()), true)
}

/// The error's message behind the folder, and its help.
fn refusal(name: &str, content: &[u8]) -> (String, String) {
    let error = load(name, content).expect_err(name);
    let message = error.to_string();
    let start = message.find(name).unwrap_or(0);
    (message[start..].to_owned(), error.help().map(|help| help.to_string()).unwrap_or_default())
}

fn texts(dataset: &Dataset) -> Vec<(&str, Option<usize>, usize)> {
    dataset.rows.iter().map(|row| (row.text.as_str(), row.label, row.line)).collect()
}

#[test]
fn one_content_in_every_format_and_line_end() {
    let expected = [("good, \"really\"", Some(1), 1), ("bad\tday", Some(0), 2)];
    let jsonl = "{\"text\": \"good, \\\"really\\\"\", \"label\": \"positive\"}\n{\"label\": 0, \"x\": [1, {\"text\": 2}], \"text\": \"bad\\tday\"}\n";
    let csv = "label,text\npositive,\"good, \"\"really\"\"\"\n0,bad\tday\n";
    let tsv = "label\ttext\npositive\t\"good, \"\"really\"\"\"\n0\t\"bad\tday\"\n";
    let mut fingerprints = Vec::new();
    for (name, content, first_line) in [("a.jsonl", jsonl, 1), ("b.csv", csv, 2), ("c.tsv", tsv, 2)]
    {
        let crlf = content.replace('\n', "\r\n");
        let variants = [
            content.to_owned(),
            format!("\u{FEFF}{content}"),
            crlf.clone(),
            format!("\u{FEFF}{crlf}"),
            content.trim_end().to_owned(),
            format!("{content}\n\n"),
            format!("{crlf}\r\n\r\n"),
        ];
        for variant in variants {
            let dataset = load(name, variant.as_bytes()).unwrap();
            let lines = expected.map(|(text, label, line)| (text, label, line + first_line - 1));
            assert_eq!(texts(&dataset), lines, "{name}: {variant:?}");
            fingerprints.push(dataset.fingerprint);
        }
    }
    fingerprints.dedup();
    assert_eq!(fingerprints.len(), 1, "the same rows have the same fingerprint in any format");
}

#[test]
fn fingerprints_tell_rows_apart() {
    let of = |content: &str| load("a.jsonl", content.as_bytes()).unwrap().fingerprint;
    let base = of("{\"text\": \"a\", \"label\": 0}\n{\"text\": \"b\", \"label\": 0}");
    assert_ne!(
        base,
        of("{\"text\": \"b\", \"label\": 0}\n{\"text\": \"a\", \"label\": 0}"),
        "order"
    );
    assert_ne!(
        base,
        of("{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\": 0}"),
        "label"
    );
    assert_ne!(base, of("{\"text\": \"a\", \"label\": 0}"), "a row less");
    assert_eq!(
        base,
        of("{\"text\": \"a\", \"label\": 0, \"id\": 7}\n{\"text\": \"b\", \"label\": 0}")
    );
}

#[test]
fn refused_lines_are_named() {
    let good = "{\"text\": \"a\", \"label\": 0}\n";
    let row = |line: &str| format!("{good}\n{line}\n");
    let cases = [
        ("{\"text\": \"a\", \"label\": }", "a.jsonl:3:24: not a JSON object: expected value"),
        ("{\"text\": \"a\"", "a.jsonl:3:12: not a JSON object: EOF while parsing an object"),
        (
            "{\"text\": \"a\", \"label\": 0} {}",
            "a.jsonl:3:27: not a JSON object: trailing characters",
        ),
        (
            "\"text\"",
            "a.jsonl:3:6: not a JSON object: invalid type: string \"text\", expected an object",
        ),
        (
            "{\"text\": \"a\0b\", \"label\": 0}",
            "a.jsonl:3:12: not a JSON object: control character",
        ),
        ("{\"text\": \"\\ud800\", \"label\": 0}", "a.jsonl:3:17: not a JSON object: "),
        ("{\"text\": null, \"label\": 0}", "a.jsonl:3: field `text` is null, not text"),
        ("{\"text\": 42, \"label\": 0}", "a.jsonl:3: field `text` is 42, not text"),
        ("{\"text\": [\"a\"], \"label\": 0}", "a.jsonl:3: field `text` is a list, not text"),
        ("{\"text\": {\"a\": 1}, \"label\": 0}", "a.jsonl:3: field `text` is an object, not text"),
        (
            "{\"txet\": \"a\", \"label\": 0}",
            "a.jsonl:3: no field `text`; the fields there are `txet`, `label`",
        ),
        ("{}", "a.jsonl:3: no field `text`; no fields are there"),
        (
            "{\"text\": \"a\"}",
            "a.jsonl:3: field `label` has no label (the field is absent); known labels: negative (0), positive (1)",
        ),
        ("{\"text\": \"a\", \"label\": null}", "a.jsonl:3: field `label` has no label (null)"),
        (
            "{\"text\": \"a\", \"label\": -1}",
            "a.jsonl:3: label -1 in field `label` is not a known label; known labels: negative (0), positive (1)",
        ),
        ("{\"text\": \"a\", \"label\": 2}", "a.jsonl:3: label 2 in field"),
        ("{\"text\": \"a\", \"label\": 0.5}", "a.jsonl:3: label 0.5 in field"),
        (
            "{\"text\": \"a\", \"label\": 18446744073709551615}",
            "a.jsonl:3: label 1.8446744073709552e19 in field",
        ),
        ("{\"text\": \"a\", \"label\": \"postive\"}", "a.jsonl:3: label \"postive\" in field"),
        ("{\"text\": \"a\", \"label\": true}", "a.jsonl:3: label true in field"),
        ("{\"text\": \"a\", \"label\": [1]}", "a.jsonl:3: label a list in field"),
    ];
    for (line, expected) in cases {
        let (message, _) = refusal("a.jsonl", row(line).as_bytes());
        assert!(message.starts_with(expected), "{line}\n  {message}\n  {expected}");
    }
}

#[test]
fn help_names_the_nearest_name() {
    let help = |content: &str| refusal("a.jsonl", content.as_bytes()).1;
    assert!(help("{\"txet\": \"a\", \"label\": 0}").contains("did you mean `txet`?"));
    assert_eq!(help("{\"text\": \"a\", \"label\": \"Positive\"}"), "did you mean `positive`?");
    assert!(help("{\"text\": \"a\", \"label\": 2}").contains("its position"));
}

#[test]
fn whole_files_that_are_something_else() {
    let cases: [(&str, &[u8], &str); 12] = [
        ("a.jsonl", b"", "a.jsonl: the file has no rows"),
        ("a.jsonl", b"\xEF\xBB\xBF\r\n \r\n", "a.jsonl: the file has no rows"),
        ("a.csv", b"", "a.csv: the file has no rows"),
        ("a.csv", b"text,label\n", "a.csv: the file has no rows"),
        ("a.tsv", b"text\tlabel\n", "a.tsv: the file has no rows"),
        ("a.jsonl", b"[{\"text\": \"a\"}]", "a.jsonl: the file is a JSON array"),
        ("a.jsonl", b"{\n  \"text\": \"a\"\n}", "a.jsonl:1:1: not a JSON object: EOF"),
        ("a.jsonl", b"\xFF\xFE{\0", "a.jsonl: the byte-order mark says UTF-16"),
        ("a.jsonl", b"{\"text\": \"caf\xE9\"}", "a.jsonl:1: not UTF-8 text (byte 14"),
        ("a.csv", b"text,label\ncaf\xE9,0\n", "a.csv:2: not UTF-8 text (byte 4"),
        ("a.parquet", b"PAR1 but not really", "a.parquet: cannot be read as Parquet"),
        ("a.txt", b"text", "a.txt: not a kind of data file"),
    ];
    for (name, content, expected) in cases {
        let (message, help) = refusal(name, content);
        assert!(message.starts_with(expected), "{message}\n  {expected}");
        assert!(!help.is_empty(), "{name}");
    }
    let error = labelled(Path::new("nowhere.jsonl")).unwrap_err().to_string();
    assert!(error.starts_with("cannot read nowhere.jsonl: "), "{error}");
}

#[test]
fn tables_with_bad_shapes() {
    let cases = [
        ("a.csv", "text,label\na,0,1\n", "a.csv:2: 3 columns where the header has 2"),
        ("a.csv", "text,label\na,0\n\nb\n", "a.csv:4: 1 columns where the header has 2"),
        ("a.tsv", "text\tlabel\na\t0\nb\n", "a.tsv:3: 1 columns where the header has 2"),
        (
            "a.csv",
            "sentence,label\na,0\n",
            "a.csv:1: no field `text`; the fields there are `sentence`, `label`",
        ),
        (
            "a.csv",
            "text,text,label\na,b,0\n",
            "a.csv:1: the header has the column `text` more than once",
        ),
        ("a.csv", "text,label\na,\n", "a.csv:2: field `label` has no label (the text is empty)"),
        ("a.csv", "text,label\n\"two\nlines\",0\nb,7\n", "a.csv:4: label \"7\" in field"),
    ];
    for (name, content, expected) in cases {
        let (message, _) = refusal(name, content.as_bytes());
        assert!(message.starts_with(expected), "{message}\n  {expected}");
    }
}

#[test]
fn a_stray_quote_in_tsv_swallows_nothing() {
    // GLUE writes TSV without quoting: read as CSV, the first quote would hide both lines behind it.
    let dataset =
        load("a.tsv", b"text\tlabel\n\"open quote\t0\nsay \"hi\"\t1\n\"whole\"\t1\n").unwrap();
    let expected =
        [("\"open quote", Some(0), 2), ("say \"hi\"", Some(1), 3), ("whole", Some(1), 4)];
    assert_eq!(texts(&dataset), expected);
}

#[test]
fn quoted_tsv_may_hold_line_ends() {
    let dataset = load("a.tsv", b"text\tlabel\n\"two\nlines\"\t0\nb\t1\n").unwrap();
    assert_eq!(texts(&dataset), [("two\nlines", Some(0), 2), ("b", Some(1), 4)]);
}

#[test]
fn an_open_quote_is_an_error_not_a_loss_of_rows() {
    let cases = [
        ("a.csv", "label,text\n1,a\n0,\"b\n1,c\n1,d\n", 3),
        ("a.csv", "label,text\r\n1,a\r\n\r\n0,\"b\r\n1,c", 4),
        ("a.csv", "label,\"text\n1,a\n", 1),
        ("a.tsv", "label\ttext\n1\ta\n0\t\"b\n1\n", 3),
    ];
    for (name, content, line) in cases {
        let (message, _) = refusal(name, content.as_bytes());
        let expected =
            format!("{name}:{line}: a quoted field that starts on this line is never closed");
        assert_eq!(message, expected, "{content:?}");
    }
}

#[test]
fn notes_say_what_is_odd() {
    let content = "{\"text\": \"a\", \"label\": 0.0}\n{\"text\": \"a\", \"label\": 1}\n{\"text\": \"a\", \"label\": 0}\n{\"text\": \" \\u200b\", \"label\": \"0\"}\n";
    let dataset = load("a.jsonl", content.as_bytes()).unwrap();
    let expected = [
        "1 of 4 rows have no visible text; they are kept as empty texts",
        "2 of 4 rows repeat the text of an earlier row",
        "1 of 4 rows repeat an earlier text with another label",
        "2 of 4 rows give the label as 1.0 or \"1\"; read as the position 1",
    ];
    assert_eq!(dataset.notes, expected);
    assert!(load("a.jsonl", b"{\"text\": \"a\", \"label\": 0}").unwrap().notes.is_empty());
}

#[test]
fn labels_are_needed_only_where_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    fs::write(&path, "{\"text\": \"a\"}\n{\"text\": \"b\", \"label\": 1}\n").unwrap();
    let load =
        |fields: &Fields, required| Dataset::load(&path, fields, Some(&sentiment()), required);
    let labels = |dataset: Dataset| dataset.rows.iter().map(|row| row.label).collect::<Vec<_>>();
    assert_eq!(labels(load(&Fields::text("text"), false).unwrap()), [None, None]);
    assert_eq!(labels(load(&Fields::labelled("text", "label"), false).unwrap()), [None, Some(1)]);
    assert!(matches!(
        load(&Fields::labelled("text", "label"), true),
        Err(DataError::MissingLabel { .. })
    ));
    assert!(matches!(load(&Fields::text("text"), true), Err(DataError::MissingLabel { .. })));
}

#[test]
fn pairs_have_two_texts() {
    let fields = Fields { text_pair: Some("b".into()), ..Fields::text("a") };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.jsonl");
    fs::write(&path, "{\"a\": \"x\", \"b\": \"y\"}\n{\"a\": \"x\", \"b\": \"\"}\n{\"a\": \"x\"}\n")
        .unwrap();
    let error = Dataset::load(&path, &fields, None, false).unwrap_err().to_string();
    assert!(error.ends_with("p.jsonl:3: no field `b`; the fields there are `a`"), "{error}");
    fs::write(&path, "{\"a\": \"x\", \"b\": \"y\"}\n{\"a\": \"x\", \"b\": \"\"}\n").unwrap();
    let dataset = Dataset::load(&path, &fields, None, false).unwrap();
    assert_eq!(dataset.rows[1].text_pair.as_deref(), Some(""));
    assert!(dataset.notes.is_empty(), "another second text is no repeat: {:?}", dataset.notes);
}

#[test]
fn one_line_may_be_ten_megabytes() {
    let text = "word ".repeat(2_000_000);
    let dataset =
        load("a.jsonl", format!("{{\"text\": \"{text}\", \"label\": 0}}").as_bytes()).unwrap();
    assert_eq!(dataset.rows[0].text.len(), 10_000_000);
}

/// Writes a Parquet file of a text column and an integer column, in two row groups.
fn write_parquet(path: &Path, texts: [&[Option<&str>]; 2], labels: [&[i64]; 2], annotated: bool) {
    let kind = annotated.then_some(LogicalType::String);
    let text = Type::primitive_type_builder("text", Physical::BYTE_ARRAY)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(kind)
        .build();
    let other = Type::primitive_type_builder("label", Physical::INT64)
        .with_repetition(Repetition::REQUIRED)
        .build();
    let columns = vec![Arc::new(text.unwrap()), Arc::new(other.unwrap())];
    let schema = Type::group_type_builder("rows").with_fields(columns).build().unwrap();
    let file = fs::File::create(path).unwrap();
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), properties).unwrap();
    for (texts, labels) in texts.into_iter().zip(labels) {
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let values: Vec<ByteArray> =
            texts.iter().flatten().map(|&text| ByteArray::from(text)).collect();
        let levels: Vec<i16> = texts.iter().map(|text| i16::from(text.is_some())).collect();
        column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(labels, None, None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
}

#[test]
fn parquet_rows_are_read_and_refused_alike() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    for annotated in [true, false] {
        write_parquet(
            &path,
            [&[Some("good"), Some("")], &[Some("bad")]],
            [&[1, 1], &[0]],
            annotated,
        );
        let dataset = labelled(&path).unwrap();
        assert_eq!(texts(&dataset), [("good", Some(1), 1), ("", Some(1), 2), ("bad", Some(0), 3)]);
    }
    write_parquet(&path, [&[Some("good")], &[None]], [&[1], &[0]], true);
    let error = labelled(&path).unwrap_err().to_string();
    assert!(error.ends_with("rows.parquet, row 2: field `text` is null, not text"), "{error}");
    write_parquet(&path, [&[Some("good")], &[Some("x")]], [&[1], &[-1]], true);
    let error = labelled(&path).unwrap_err().to_string();
    assert!(error.contains("rows.parquet, row 2: label -1 in field"), "{error}");
    let error = Dataset::load(&path, &Fields::text("txt"), None, false).unwrap_err();
    assert!(
        error.to_string().contains("no field `txt`; the fields there are `text`, `label`"),
        "{error}"
    );

    let bytes = fs::read(&path).unwrap();
    for cut in [0, 3, 4, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&path, &bytes[..cut]).unwrap();
        assert!(matches!(labelled(&path), Err(DataError::Parquet { .. })), "cut at {cut}");
    }
}

#[test]
fn damaged_parquet_is_refused_or_read_but_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    write_parquet(&path, [&[Some("good"), None], &[Some("bad")]], [&[1, 1], &[0]], true);
    let whole = fs::read(&path).unwrap();
    let mut refused = 0;
    for position in (0..whole.len()).step_by(2) {
        let mut damaged = whole.clone();
        damaged[position] ^= 0xFF;
        fs::write(&path, &damaged).unwrap();
        refused += usize::from(labelled(&path).is_err());
    }
    assert!(refused > whole.len() / 4, "{refused} of {}", whole.len() / 2);
}

#[test]
fn b40_bad_labels_are_never_an_accuracy_of_zero() {
    let Some(folder) = case("B40") else { return };
    let refused = [
        ("eval_minus1.jsonl", 1, "-1"),
        ("eval_out_of_range.jsonl", 7, "2"),
        ("eval_missing.jsonl", 5, "absent"),
        ("eval_fraction.jsonl", 1, "0.5"),
        ("eval_unknown_name.jsonl", 1, "\"mixed\""),
    ];
    for (name, line, value) in refused {
        let error = labelled(&folder.join(name)).unwrap_err().to_string();
        assert!(error.contains(&format!("{name}:{line}: ")), "{error}");
        assert!(error.contains(value), "{error}");
        assert!(error.ends_with("known labels: negative (0), positive (1)"), "{error}");
    }
    let integers = labelled(&folder.join("eval_missing.jsonl"));
    assert!(integers.is_err());
    let float = labelled(&folder.join("eval_float.jsonl")).unwrap();
    let string = labelled(&folder.join("eval_string.jsonl")).unwrap();
    assert_eq!(float.rows, string.rows);
    assert_eq!((float.rows[0].label, float.rows[4].label), (Some(0), Some(1)));
    assert!(float.notes[0].contains("label as 1.0"), "{:?}", float.notes);
}

#[test]
fn b45_marks_and_line_ends_change_nothing() {
    let Some(folder) = case("B45") else { return };
    let plain = labelled(&folder.join("eval.jsonl")).unwrap();
    assert_eq!(plain.rows.len(), 16);
    for name in ["eval_bom", "eval_crlf", "eval_no_final_newline", "eval_blank_tail"] {
        let dataset = labelled(&folder.join(name).with_extension("jsonl")).unwrap();
        assert_eq!(dataset.rows, plain.rows, "{name}");
    }
    let fields = Fields::labelled("sentence", "label");
    let tsv = Dataset::load(&folder.join("eval_bom_crlf.tsv"), &fields, Some(&sentiment()), true)
        .unwrap();
    assert_eq!(tsv.fingerprint, plain.fingerprint);
}

#[test]
fn b47_empty_text_is_text_and_anything_else_is_not() {
    let Some(folder) = case("B47") else { return };
    let dataset = labelled(&folder.join("eval_empty.jsonl")).unwrap();
    assert_eq!(dataset.rows.len(), 4);
    assert_eq!(dataset.notes[0], "3 of 4 rows have no visible text; they are kept as empty texts");
    for name in ["eval_null.jsonl", "eval_no_text.jsonl", "eval_number.jsonl"] {
        let error = labelled(&folder.join(name)).unwrap_err().to_string();
        assert!(error.contains(&format!("{name}:2: ")) && error.contains("`text`"), "{error}");
    }
}

#[test]
fn a_quoted_empty_text_is_a_row_and_a_blank_line_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    for (content, lines) in [("text\na\n\n\"\"\nb\n", [2, 4, 5]), ("text\n\na\n\"\"\nb", [3, 4, 5])]
    {
        fs::write(&path, content).unwrap();
        let dataset = Dataset::load(&path, &Fields::text("text"), None, false).unwrap();
        let rows: Vec<_> = dataset.rows.iter().map(|row| (row.text.as_str(), row.line)).collect();
        assert_eq!(rows, [("a", lines[0]), ("", lines[1]), ("b", lines[2])], "{content:?}");
    }
}

/// Writes rows with the `csv` crate, which quotes what needs it.
fn delimited(rows: &[(String, usize)], delimiter: u8) -> Vec<u8> {
    let mut writer = csv::WriterBuilder::new().delimiter(delimiter).from_writer(Vec::new());
    writer.write_record(["text", "label"]).unwrap();
    for (text, label) in rows {
        writer.write_record([text, &label.to_string()]).unwrap();
    }
    writer.into_inner().unwrap()
}

proptest! {
    #[test]
    fn any_text_survives_any_format(rows in prop::collection::vec(("[ -~\\n\\r\u{e9}\u{597d}]{0,12}", 0usize..2), 1..8)) {
        let json = |(text, label): &(String, usize)| serde_json::json!({ "text": text, "label": label }).to_string();
        let jsonl = rows.iter().map(json).collect::<Vec<_>>().join("\n").into_bytes();
        let files = [("a.jsonl", jsonl), ("a.csv", delimited(&rows, b',')), ("a.tsv", delimited(&rows, b'\t'))];
        for (name, content) in files {
            let dataset = load(name, &content).unwrap();
            let read: Vec<_> = dataset.rows.iter().map(|row| (row.text.clone(), row.label.unwrap())).collect();
            prop_assert_eq!(&read, &rows, "{}: {:?}", name, String::from_utf8_lossy(&content));
        }
    }

    #[test]
    fn no_bytes_are_a_panic(content in prop::collection::vec(prop::sample::select(b"{}[]\"text,:0\t\n\r\\\xEF\xBB\xBF\xFF\0 ".to_vec()), 0..60)) {
        for name in ["a.jsonl", "a.csv", "a.tsv", "a.parquet"] {
            let _ = load(name, &content);
            let _ = load(name, &[b"text,label\ntext\tlabel\n", content.as_slice()].concat());
        }
    }
}
