//! Tokenizer files as people really have them.

use std::fs;
use std::path::{Path, PathBuf};

use trtforge_data::{
    DataError, Dataset, Encoded, Fields, Padding, TextEncoder, padded_batches, padding_share,
};

const VOCABULARY: &str = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nfilm\n##s\ngood\n!\n";

fn case(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases").join(name);
    let found = folder.is_dir();
    if !found {
        eprintln!("skipped: no shared case {name}");
    }
    found.then_some(folder)
}

fn folder_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

fn ids(encoder: &TextEncoder, text: &str) -> Vec<u32> {
    encoder.encode(text, None).unwrap().ids
}

fn encode_file(encoder: &TextEncoder, path: &Path) -> Vec<Encoded> {
    let dataset = Dataset::load(path, &Fields::text("text"), None, false).unwrap();
    let rows: Vec<(&str, Option<&str>)> =
        dataset.rows.iter().map(|row| (row.text.as_str(), None)).collect();
    encoder.encode_all(&rows).unwrap()
}

#[test]
fn word_pieces_by_hand() {
    let folder = folder_with(&[("vocab.txt", VOCABULARY)]);
    let encoder = TextEncoder::open(&folder.path().join("vocab.txt"), 8).unwrap();
    assert_eq!(ids(&encoder, "Good films!"), [2, 8, 6, 7, 9, 3]);
    assert_eq!(ids(&encoder, "a zebra"), [2, 5, 1, 3]);
    assert_eq!(ids(&encoder, ""), [2, 3]);
    assert_eq!(
        ids(&encoder, "a\0\u{FFFD}film"),
        [2, 6, 3].map(|id| if id == 6 { 1 } else { id }),
        "NUL vanishes, leaving the unknown word `afilm`"
    );
    assert_eq!((encoder.vocab_size(), encoder.max_id(), encoder.pad_id()), (10, 9, 0));
    assert_eq!(encoder.max_length(), 8);
}

#[test]
fn long_rows_are_cut_and_say_so() {
    let folder = folder_with(&[("vocab.txt", VOCABULARY)]);
    let encoder = TextEncoder::open(&folder.path().join("vocab.txt"), 4).unwrap();
    let exact = encoder.encode("a film", None).unwrap();
    assert_eq!((exact.ids, exact.truncated), (vec![2, 5, 6, 3], false));
    let cut = encoder.encode("a film good", None).unwrap();
    assert_eq!((cut.ids, cut.truncated), (vec![2, 5, 6, 3], true));
    let pair = encoder.encode("a", Some("film good")).unwrap();
    assert_eq!((pair.ids.len(), pair.type_ids.len(), pair.truncated), (4, 4, true));
}

#[test]
fn a_long_document_is_cut_like_a_short_one() {
    let folder = folder_with(&[("vocab.txt", VOCABULARY)]);
    let encoder = TextEncoder::open(&folder.path().join("vocab.txt"), 16).unwrap();
    // Words that vanish, words without a letter, words of several tokens: 16 tokens are 14 of the text.
    let text = "\u{200b} films ! \u{301} 好 a ".repeat(100_000);
    let row = encoder.encode(&text, None).unwrap();
    assert_eq!(row.ids, [2, 6, 7, 9, 1, 5, 6, 7, 9, 1, 5, 6, 7, 9, 1, 3]);
    assert!(row.truncated);
    let pair = encoder.encode("a", Some(&text)).unwrap();
    assert_eq!((pair.ids.len(), &pair.ids[..5]), (16, &[2, 5, 3, 6, 7][..]));
    let pair = encoder.encode(&text, Some(&text)).unwrap();
    assert_eq!(pair.type_ids.iter().filter(|&&id| id == 0).count(), 8, "both are cut");
    let one_word = encoder.encode(&"x".repeat(1_000_000), None).unwrap();
    assert_eq!((one_word.ids, one_word.truncated), (vec![2, 1, 3], false));
}

#[test]
fn pairs_are_separated() {
    let folder = folder_with(&[("vocab.txt", VOCABULARY)]);
    let encoder = TextEncoder::open(&folder.path().join("vocab.txt"), 16).unwrap();
    let pair = encoder.encode("a film", Some("good")).unwrap();
    assert_eq!(pair.ids, [2, 5, 6, 3, 8, 3]);
    assert_eq!(pair.type_ids, [0, 0, 0, 0, 1, 1]);
    let all = encoder.encode_all(&[("a film", Some("good")), ("a", None)]).unwrap();
    assert_eq!(all[0], pair);
    assert_eq!(all[1].ids, [2, 5, 3]);
}

#[test]
fn a_maximum_without_room_is_refused() {
    let folder = folder_with(&[("vocab.txt", VOCABULARY)]);
    let path = folder.path().join("vocab.txt");
    for max_length in [0, 1, 2] {
        let error = TextEncoder::open(&path, max_length).unwrap_err();
        assert!(matches!(error, DataError::MaxLength { special: 2, .. }), "{error}");
    }
    let three = TextEncoder::open(&path, 3).unwrap();
    assert_eq!(ids(&three, "a film"), [2, 5, 3]);
    assert!(matches!(three.encode("a", Some("a")), Err(DataError::MaxLength { special: 3, .. })));
}

#[test]
fn the_neighbours_say_whether_case_counts() {
    let vocabulary = "[UNK]\n[CLS]\n[SEP]\nfilm\nFilm\n";
    let opened = |files: &[(&str, &str)]| {
        let folder = folder_with(files);
        let encoder = TextEncoder::open(folder.path(), 8).unwrap();
        (ids(&encoder, "Film")[1], encoder.notes().len())
    };
    let vocab = ("vocab.txt", vocabulary);
    assert_eq!(opened(&[vocab]), (4, 1), "capital letters in the vocabulary, and a note");
    assert_eq!(opened(&[vocab, ("config.json", "{\"do_lower_case\": true}")]), (3, 0));
    assert_eq!(opened(&[vocab, ("config.json", "\u{FEFF}{\"do_lower_case\": true}")]), (3, 0));
    let both = [
        vocab,
        ("config.json", "{\"do_lower_case\": true}"),
        ("tokenizer_config.json", "{\"do_lower_case\": false}"),
    ];
    assert_eq!(opened(&both), (4, 0), "tokenizer_config.json comes first");
}

#[test]
fn unusable_tokenizers_are_refused() {
    let refused = |name: &str, content: &str| {
        let folder = folder_with(&[(name, content)]);
        TextEncoder::open(&folder.path().join(name), 8).unwrap_err().to_string()
    };
    assert!(refused("vocab.txt", "a\nb\n").ends_with("the vocabulary lacks [UNK], [CLS], [SEP]"));
    assert!(refused("vocab.txt", "[CLS]\n[SEP]\na\n").ends_with("the vocabulary lacks [UNK]"));
    assert!(refused("vocab.txt", "").ends_with("the vocabulary lacks [UNK], [CLS], [SEP]"));
    assert!(refused("tokenizer.json", "{}").contains("tokenizer.json: not a usable tokenizer"));
    assert!(refused("tokenizer.json", "[UNK]").contains("tokenizer.json: not a usable tokenizer"));
    let no_unknown = r###"{"version":"1.0","pre_tokenizer":{"type":"BertPreTokenizer"},"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,"vocab":{"a":0}}}"###;
    assert!(
        refused("tokenizer.json", no_unknown).contains("[UNK]"),
        "{}",
        refused("tokenizer.json", no_unknown)
    );
    let undefined = TOKENIZER.replace("\"[SEP]\":{\"id\"", "\"[SPE]\":{\"id\"");
    assert!(
        refused("tokenizer.json", &undefined).ends_with("uses the undefined special token `[SEP]`")
    );
    let nested = undefined
        .replace(
            "\"post_processor\":{",
            "\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{",
        )
        .replace("},\"decoder\"", "}]},\"decoder\"");
    assert!(
        refused("tokenizer.json", &nested).ends_with("uses the undefined special token `[SEP]`")
    );
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("vocab.txt"), b"[UNK]\n\xFF\n").unwrap();
    let error = TextEncoder::open(folder.path(), 8).unwrap_err().to_string();
    assert!(error.contains("vocab.txt:2: not UTF-8"), "{error}");
    assert!(matches!(
        TextEncoder::open(Path::new("nowhere/vocab.txt"), 8),
        Err(DataError::Read { .. })
    ));
}

#[test]
fn fingerprints_follow_what_decides_the_ids() {
    let folder =
        folder_with(&[("vocab.txt", VOCABULARY), ("config.json", "{\"do_lower_case\": true}")]);
    let of =
        |max_length| TextEncoder::open(folder.path(), max_length).unwrap().fingerprint().to_owned();
    let base = of(8);
    assert_eq!(base, of(8));
    assert_ne!(base, of(9));
    fs::write(folder.path().join("config.json"), "{\"do_lower_case\": false}").unwrap();
    assert_ne!(base, of(8));
}

#[test]
fn b45_every_vocabulary_gives_the_expected_ids() {
    let Some(folder) = case("B45") else { return };
    let expected: Vec<Vec<u32>> =
        serde_json::from_slice(&fs::read(folder.join("expected_ids.json")).unwrap()).unwrap();
    for tokenizer in ["tokenizer.json", "vocab.txt", "vocab_crlf.txt", "vocab_bom.txt"] {
        let encoder = TextEncoder::open(&folder.join(tokenizer), 64).unwrap();
        assert_eq!(encoder.max_id(), 199, "{tokenizer}");
        for data in ["eval.jsonl", "eval_bom.jsonl", "eval_crlf.jsonl"] {
            let rows = encode_file(&encoder, &folder.join(data));
            let ids: Vec<Vec<u32>> = rows.into_iter().map(|row| row.ids).collect();
            assert_eq!(ids, expected, "{tokenizer} {data}");
        }
    }
}

#[test]
fn b47_texts_without_visible_characters_are_two_tokens() {
    let Some(folder) = case("B47") else { return };
    for tokenizer in ["tokenizer.json", "vocab.txt"] {
        let encoder = TextEncoder::open(&folder.join(tokenizer), 64).unwrap();
        let rows = encode_file(&encoder, &folder.join("eval_empty.jsonl"));
        assert!(rows[..3].iter().all(|row| row.ids == [2, 3]), "{tokenizer}: {rows:?}");
        assert_eq!(rows[3].ids.len(), 5);
    }
}

#[test]
fn b50_the_files_own_padding_and_truncation_are_ignored() {
    let Some(folder) = case("B50") else { return };
    let rows = |tokenizer: &str| {
        let encoder = TextEncoder::open(&folder.join(tokenizer), 64).unwrap();
        let noted = !encoder.notes().is_empty();
        (encode_file(&encoder, &folder.join("eval.jsonl")), noted)
    };
    let (plain, noted) = rows("tokenizer.json");
    assert!(!noted);
    assert!(plain.iter().all(|row| (14..=24).contains(&row.ids.len()) && !row.truncated));
    assert_eq!(rows("vocab.txt").0, plain);
    for tokenizer in ["tokenizer_pad64.json", "tokenizer_pad128.json", "tokenizer_trunc8.json"] {
        assert_eq!(rows(tokenizer), (plain.clone(), true), "{tokenizer}");
    }
    let short = TextEncoder::open(&folder.join("tokenizer.json"), 8).unwrap();
    let cut = encode_file(&short, &folder.join("eval.jsonl"));
    assert!(
        cut.iter().all(|row| row.truncated && row.ids.len() == 8),
        "the run's own maximum cuts"
    );
}

#[test]
fn b57_padding_shares() {
    let Some(folder) = case("B57") else { return };
    let encoder = TextEncoder::open(&folder.join("tokenizer.json"), 64).unwrap();
    let rows = encode_file(&encoder, &folder.join("eval.jsonl"));
    let lengths: Vec<usize> = rows.iter().map(|row| row.ids.len()).collect();
    assert_eq!(lengths.iter().sum::<usize>(), 408);
    let share =
        |padding, sorted| padding_share(&lengths, &padded_batches(&lengths, 8, padding, sorted));
    assert_eq!(share(Padding::Fixed(64), false), 0.800_781_25);
    assert_eq!(share(Padding::LongestInBatch, false), 0.613_636_363_636_363_6);
    assert_eq!(share(Padding::LongestInBatch, true), 0.346_153_846_153_846_15);
}

/// A small, whole `tokenizer.json`.
const TOKENIZER: &str = r###"{"version":"1.0","truncation":{"direction":"Left","max_length":5,"strategy":"OnlySecond","stride":2},"padding":{"strategy":{"Fixed":9},"direction":"Left","pad_to_multiple_of":4,"pad_id":7,"pad_type_id":1,"pad_token":"[PAD]"},"added_tokens":[{"id":2,"content":"[CLS]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},"pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[SEP]","type_id":0}}],"pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":1}}],"special_tokens":{"[CLS]":{"id":"[CLS]","ids":[2],"tokens":["[CLS]"]},"[SEP]":{"id":"[SEP]","ids":[3],"tokens":["[SEP]"]}}},"decoder":null,"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,"vocab":{"[PAD]":0,"[UNK]":1,"[CLS]":2,"[SEP]":3,"a":4,"film":5}}}"###;

#[test]
fn the_files_own_settings_never_count() {
    let folder = folder_with(&[("tokenizer.json", TOKENIZER)]);
    let encoder = TextEncoder::open(folder.path(), 6).unwrap();
    let row = encoder.encode("a film a film a film", None).unwrap();
    assert_eq!(
        (row.ids, row.truncated),
        (vec![2, 4, 5, 4, 5, 3], true),
        "cut at the end, not padded"
    );
    assert_eq!(encoder.pad_id(), 7, "but its padding token is the one to pad with");
    assert_eq!(encoder.notes().len(), 2, "{:?}", encoder.notes());
}

#[test]
fn a_byte_order_mark_before_json_is_no_fault() {
    let folder = folder_with(&[("tokenizer.json", &format!("\u{FEFF}{TOKENIZER}"))]);
    assert!(TextEncoder::open(folder.path(), 6).is_ok());
}

#[test]
fn damaged_tokenizers_are_refused_or_work_but_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    let mut refused = 0;
    for position in (0..TOKENIZER.len()).step_by(7) {
        for damage in ["", "0", "}", "\"", "-1", "9999999"] {
            let damaged =
                format!("{}{damage}{}", &TOKENIZER[..position], &TOKENIZER[position + 1..]);
            fs::write(&path, damaged).unwrap();
            match TextEncoder::open(&path, 6) {
                Ok(encoder) => {
                    // A template that names unknown tokens may still fail on a row; it must say so.
                    let _ = encoder.encode("a film a film a film", Some("film"));
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 500, "{refused}");
}
