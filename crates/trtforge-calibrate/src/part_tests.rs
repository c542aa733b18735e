use std::path::PathBuf;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::merge::merge_parts;
use crate::method::Method;
use crate::threshold::Guards;

fn recipe(samples: usize) -> Recipe {
    Recipe {
        tool: "trtforge 0.1.0".into(),
        model: "aa".into(),
        data: "bb".into(),
        tokenizer: "cc".into(),
        options: TableOptions {
            method: Method::Entropy,
            samples,
            seed: 17,
            strategy: "random".into(),
            max_length: 128,
            smooth: 0.0,
        },
        lines: (1..=samples as u64).map(|row| 2 * row).collect(),
        settings: BTreeMap::from([("quantize.level".to_owned(), "gemm".to_owned())]),
    }
}

/// The part of one shard over rows of values, as a machine would make it.
fn part_of(rows: &[Vec<f32>], shard: Shard) -> Part {
    let lengths: Vec<usize> = rows.iter().map(Vec::len).collect();
    let own = shard.pick(&lengths);
    let mut observer = Observer::new(["x", "y"], ["w"]);
    for &row in &own {
        observer.observe("x", &rows[row]);
        observer.observe("y", &rows[row][..rows[row].len() / 2]);
        observer.observe("w", &rows[row]);
    }
    let places: RowSet = own.iter().map(|&row| row as u64 + 1).collect();
    let content = Content::Activations { observer, channels: BTreeMap::new() };
    Part::new(shard, "p".into(), recipe(rows.len()), places, content)
}

fn save_all(rows: &[Vec<f32>], of: u32, folder: &TempDir) -> Vec<PathBuf> {
    let save = |index| {
        let path = folder.path().join(format!("{index}-{of}.part"));
        part_of(rows, Shard::new(index, of).unwrap()).save(&path).unwrap();
        path
    };
    (1..=of).map(save).collect()
}

fn some_rows() -> Vec<Vec<f32>> {
    (0..7_i16).map(|row| (0..=row).map(|i| f32::from(i * row) - 3.5).collect()).collect()
}

#[test]
fn a_file_holds_the_part_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.part");
    let part = part_of(&some_rows(), Shard::new(2, 3).unwrap());
    part.save(&path).unwrap();
    assert_eq!(Part::load(&path).unwrap(), part);
    assert!(!part.is_whole());
    let mut channels = ChannelRanges::new(["c", "d"]);
    channels.observe("c", &[0.1, -3.0, 0.2, 1e-40], 2).unwrap();
    let content = Content::Channels(channels);
    let whole = Part::new(Shard::WHOLE, "p".into(), recipe(2), RowSet::up_to(2), content);
    whole.save(&path).unwrap();
    assert_eq!(Part::load(&path).unwrap(), whole);
    assert!(whole.is_whole());
}

#[test]
fn a_part_cut_anywhere_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.part");
    let bytes = part_of(&some_rows(), Shard::WHOLE).to_bytes();
    for length in (0..bytes.len() - 1).step_by(97).chain([bytes.len() - 2, bytes.len() - 90]) {
        fs::write(&path, &bytes[..length]).unwrap();
        let error = Part::load(&path).unwrap_err();
        let told = matches!(
            error,
            PartError::Damaged { .. } | PartError::NotAPart { .. } | PartError::Schema { .. }
        );
        assert!(told && error.to_string().contains("a.part"), "{length}: {error}");
    }
}

#[test]
fn one_changed_byte_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.part");
    let bytes = part_of(&some_rows(), Shard::WHOLE).to_bytes();
    for place in (0..bytes.len() - 1).step_by(41) {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1;
        fs::write(&path, &damaged).unwrap();
        assert!(Part::load(&path).is_err(), "byte {place}");
    }
}

/// Edits the content and seals it again, as somebody with bad intent would.
fn forged(edit: impl FnOnce(&mut serde_json::Value)) -> Result<Part, PartError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.part");
    let part = part_of(&some_rows(), Shard::WHOLE);
    let mut json: serde_json::Value =
        serde_json::from_slice(part.to_bytes().split(|b| *b == b'\n').next().unwrap()).unwrap();
    edit(&mut json);
    let mut bytes = json.to_string().into_bytes();
    let hash = blake3::hash(&bytes).to_hex().to_string();
    bytes.extend(format!("\n{{\"blake3\":\"{hash}\"}}\n").bytes());
    fs::write(&path, bytes).unwrap();
    Part::load(&path)
}

#[test]
fn numbers_that_cannot_be_are_refused_and_never_overflow() {
    assert!(forged(|_| ()).is_ok());
    let bins = ["content", "activations", "observer", "histograms", "x", "bins"];
    let set = |keys: &[&str], value: serde_json::Value| {
        forged(|json| {
            let mut node = json;
            for key in keys {
                node = &mut node[*key];
            }
            *node = value;
        })
    };
    let immense = |json: &mut serde_json::Value| {
        let counts = &mut json["content"]["activations"]["observer"]["histograms"]["x"]["bins"];
        counts[0] = u64::MAX.into();
        counts[1] = u64::MAX.into();
    };
    assert!(matches!(forged(immense), Err(PartError::Damaged { .. })));
    for (keys, value) in [
        (&bins[..], serde_json::json!([])),
        (&["content", "activations", "observer", "histograms", "x", "nonfinite"], 1.into()),
        (&["content", "activations", "observer", "ranges", "w", "absmax"], (-1.0).into()),
        (&["content", "activations", "observer", "ranges", "w", "absmax"], 1e39.into()),
        (&["content", "activations", "observer", "ranges", "w", "count"], u64::MAX.into()),
        (&["content", "activations", "channels"], serde_json::json!({"c": [-1.0]})),
        (&["rows"], "1-8".into()),
        (&["rows"], "3,1".into()),
        (&["shard"], "2/1".into()),
        (&["shard"], 1.into()),
        (&["recipe", "more"], 1.into()),
        (&["trtforge_part"], 2.into()),
    ] {
        let error = set(keys, value.clone()).unwrap_err();
        assert!(error.to_string().contains("a.part"), "{keys:?} {value}: {error}");
    }
}

#[test]
fn merging_refuses_what_does_not_make_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let parts = save_all(&some_rows(), 3, &folder);
    let error = |paths: &[&PathBuf]| {
        let paths: Vec<PathBuf> = paths.iter().map(|path| (*path).clone()).collect();
        merge_parts(&paths).unwrap_err()
    };
    assert!(matches!(error(&[]), PartError::None));
    let missing = error(&[&parts[2]]);
    assert!(
        matches!(&missing, PartError::Missing { missing, .. } if missing == "1-2"),
        "{missing}"
    );
    assert_eq!(missing.to_string(), "2 of 3 shards are missing: 1-2");
    let twice = error(&[&parts[0], &parts[1], &parts[0]]);
    assert!(matches!(&twice, PartError::Twice { shard, .. } if shard == "1/3"), "{twice}");
    let other = save_all(&some_rows(), 4, &folder);
    let differ = error(&[&parts[0], &other[1]]).to_string();
    assert!(differ.contains("it is shard 2/4 there and 1/3 here"), "{differ}");
}

#[test]
fn parts_of_other_calibrations_are_told_apart_by_what_differs() {
    let folder = tempfile::tempdir().unwrap();
    let first = save_all(&some_rows(), 2, &folder).remove(0);
    let expect = |edit: &dyn Fn(&mut Part), message: &str| {
        let mut part = part_of(&some_rows(), Shard::new(2, 2).unwrap());
        edit(&mut part);
        let path = folder.path().join("other.part");
        part.save(&path).unwrap();
        let error = merge_parts(&[first.clone(), path]).unwrap_err().to_string();
        assert!(error.contains(message) && error.contains("other.part"), "{message}: {error}");
    };
    expect(
        &|part| part.recipe.model = "zz".into(),
        "the model's fingerprint is zz there and aa here",
    );
    expect(
        &|part| part.recipe.data = "zz".into(),
        "the data's fingerprint is zz there and bb here",
    );
    expect(&|part| part.recipe.tokenizer = "zz".into(), "the tokenizer's fingerprint is zz");
    expect(&|part| part.recipe.tool = "trtforge 9".into(), "the tool is trtforge 9 there");
    expect(
        &|part| part.recipe.options.method = Method::Mse,
        "method is mse there and entropy here",
    );
    expect(&|part| part.recipe.options.seed = 3, "seed is 3 there and 17 here");
    expect(&|part| part.recipe.options.smooth = 0.5, "smooth is 0.5 there and 0 here");
    expect(&|part| part.recipe.lines = RowSet::up_to(7), "the set of sampled lines is 1-7 there");
    expect(
        &|part| part.recipe.settings = BTreeMap::new(),
        "quantize.level is not stated there and gemm here",
    );
    expect(
        &|part| part.content = Content::Channels(ChannelRanges::new(["c"])),
        "it holds channel ranges there and activations here",
    );
    expect(
        &|part| {
            if let Content::Activations { channels, .. } = &mut part.content {
                channels.insert("c".into(), vec![1.0]);
            }
        },
        "smoothed by channel ranges of more tensors there",
    );
    expect(
        &|part| {
            if let Content::Activations { observer, .. } = &mut part.content {
                *observer = Observer::new(["x"], ["w"]);
            }
        },
        "tensor `y` was observed in only one of them",
    );
    expect(&|part| part.rows = RowSet::up_to(1), "rows of");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_cut_in_any_order_merges_to_the_bytes_of_one_machine(
        rows in prop::collection::vec(prop::collection::vec(-1e6f32..1e6, 1..20), 1..12),
        of in 1u32..16,
        turn in 0usize..16,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let alone = part_of(&rows, Shard::WHOLE);
        let mut parts = save_all(&rows, of, &folder);
        parts.rotate_left(turn % of as usize);
        let merged = merge_parts(&parts).unwrap();
        prop_assert_eq!(merged.to_bytes(), alone.to_bytes());
        // And so the table, whatever the method; `y` has no values where every row has one.
        let tables = [merged, alone].map(|part| {
            let Content::Activations { observer, .. } = part.content else { unreachable!() };
            [Method::Entropy, Method::MinMax, Method::Percentile(99.0), Method::Mse].map(|method| {
                let tensors = observer.calibrate(method, &Guards::default()).ok()?;
                Some(part.recipe.clone().table(tensors, observer.absmax(), BTreeMap::new()).to_json())
            })
        });
        prop_assert_eq!(&tables[0], &tables[1]);
    }

    #[test]
    fn observers_merge_commutatively_and_associatively(
        a in prop::collection::vec(-1e9f32..1e9, 0..40),
        b in prop::collection::vec(-1.0f32..1.0, 0..40),
        c in prop::collection::vec(-1e-20f32..1e-20, 0..40),
    ) {
        let of = |values: &[f32]| {
            let mut observer = Observer::new(["x"], ["w"]);
            observer.observe("x", values);
            observer.observe("w", values);
            observer
        };
        let merge = |x: &Observer, y: &Observer| {
            let mut sum = x.clone();
            sum.merge(y).unwrap();
            sum
        };
        let (a, b, c) = (of(&a), of(&b), of(&c));
        prop_assert_eq!(merge(&a, &b), merge(&b, &a));
        prop_assert_eq!(merge(&merge(&a, &b), &c), merge(&a, &merge(&b, &c)));
    }
}
