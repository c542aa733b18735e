//! A database of Nsight Systems' layout, written by SQLite itself (see `data/make_nsight.py`, whose formulas are repeated here).

use std::path::{Path, PathBuf};

use miette::Diagnostic;
use trtforge_diagnose::{
    CauseKind, DiagnoseError, DiagnoseOptions, Diagnosis, ReadOptions, diagnose, read_trace,
    union_length,
};

fn database() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/nsight.sqlite")
}

fn of(path: &Path) -> Result<Diagnosis, DiagnoseError> {
    diagnose(read_trace(path, ReadOptions::default())?, DiagnoseOptions::default())
}

fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Result<Diagnosis, DiagnoseError> {
    let mut bytes = std::fs::read(database()).unwrap();
    change(&mut bytes);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    of(file.path())
}

/// Spans of kernels, copies and memsets, by the generator's formulas.
fn spans() -> [Vec<(i64, i64)>; 3] {
    let (mut kernels, mut copies, mut memsets) = (Vec::new(), Vec::new(), Vec::new());
    for batch in 0..30 {
        let base = 1_000_000 + batch * 2_000_000;
        copies.push((base + 1_205_000, base + 1_215_000));
        for kernel in 0..5 {
            let start = base + 1_226_000 + kernel * 100_000;
            kernels.push((start, start + 100_000 + (batch * 37 + kernel * 11) % 13 * 1_000));
        }
        if batch % 10 == 0 {
            memsets.push((base + 1_760_000, base + 1_762_000));
        }
    }
    [kernels, copies, memsets]
}

#[test]
fn busy_time_is_the_union_of_the_rows() {
    let found = of(&database()).unwrap();
    let us = |spans: Vec<(i64, i64)>| union_length(spans) as f64 / 1e3;
    let [kernels, copies, memsets] = spans();
    let device = &found.devices[0];
    assert_eq!(found.devices.len(), 1);
    assert_eq!(device.kernel_us, us(kernels.clone()));
    assert_eq!((device.copy_us, device.memset_us), (us(copies.clone()), us(memsets.clone())));
    assert_eq!(device.busy_us, us([kernels, copies, memsets].concat()));
    assert_eq!((device.kernels, device.copies), (150, 30));
    assert_eq!(device.name.as_deref(), Some("A GPU"));
    assert_eq!(device.streams.iter().map(|stream| stream.events).collect::<Vec<_>>(), [123, 60]);
    // 30 ranges, 30 copies, 150 kernels, 3 memsets and their 183 calls, 30 waits twice, and a mark.
    assert_eq!(found.events, 30 + 183 + 183 + 60 + 1);
    assert_eq!(found.copies[0].name, "Memcpy HtoD (Pageable -> Device)");
    assert!(found.copies[0].pageable && found.copies[0].bytes == 30 * 4096);
    assert_eq!(found.launch.unmatched, 0, "every work has its call");
}

#[test]
fn idle_time_is_split_as_that_of_other_traces() {
    let found = of(&database()).unwrap();
    // The host tokenizes 1.2 of each 2 ms, and nothing else keeps the device idle as long.
    assert_eq!(found.causes[0].cause, CauseKind::HostInputPipeline, "{:#?}", found.causes);
    assert_eq!(found.causes[0].functions[0].name, "tokenize");
    let idle: f64 = found.causes.iter().map(|cause| cause.idle_us).sum();
    assert!((idle - found.devices[0].idle_us).abs() < 1e-6);
}

#[test]
fn a_cut_off_database_is_refused_at_every_length() {
    let whole = std::fs::metadata(database()).unwrap().len() as usize;
    for length in (0..whole).step_by(509) {
        let error = changed(|bytes| bytes.truncate(length)).unwrap_err();
        if length >= 512 {
            assert!(matches!(error, DiagnoseError::Database { .. }), "{length}: {error}");
            assert!(error.help().unwrap().to_string().contains("nsys export"), "{error}");
        }
    }
}

#[test]
fn a_damaged_database_gives_an_error_or_an_answer_and_never_a_panic() {
    let whole = std::fs::metadata(database()).unwrap().len() as usize;
    let mut refused = 0;
    for at in (16..whole).step_by(97) {
        refused += usize::from(changed(|bytes| bytes[at] ^= 0xff).is_err());
    }
    assert!(refused > 20, "{refused}");
    // Every page within a tree points to itself: a walk that does not end by itself.
    let circle = changed(|bytes| {
        for (index, page) in bytes.chunks_mut(512).enumerate().skip(1) {
            if page[0] == 5 {
                page[8..12].copy_from_slice(&(index as u32 + 1).to_be_bytes());
            }
        }
    });
    assert!(circle.unwrap_err().to_string().contains("malformed"));
}

#[test]
fn other_databases_are_named_for_what_they_lack() {
    let renamed = |from: &[u8], to: &[u8]| {
        changed(|bytes| {
            while let Some(at) = bytes.windows(from.len()).position(|window| window == from) {
                bytes[at..at + from.len()].copy_from_slice(to);
            }
        })
    };
    let error = renamed(b"streamId", b"streamNo").unwrap_err();
    assert!(error.to_string().contains("has no column `streamId`"), "{error}");
}
