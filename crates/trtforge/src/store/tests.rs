//! Artifacts are made once, sealed, published whole, and swept away.

use super::*;

fn make(text: &'static str) -> impl FnOnce(&Path) -> Result<(), StoreError> {
    move |path| write_atomic(path, text.as_bytes())
}

#[test]
fn an_artifact_is_made_once_and_again_when_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let fingerprint = Fingerprint::of("table").with("model", "abc");
    let first = store.obtain(&fingerprint, "json", make("one")).unwrap();
    let second = store.obtain(&fingerprint, "json", make("two")).unwrap();
    assert_eq!((first.cached, second.cached), (false, true));
    assert_eq!(fs::read_to_string(&second.path).unwrap(), "one");
    fs::write(&second.path, "damaged").unwrap();
    let third = store.obtain(&fingerprint, "json", make("three")).unwrap();
    assert_eq!((third.cached, third.bytes()), (false, 5));
}

#[test]
fn a_failed_stage_leaves_no_seal() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let fingerprint = Fingerprint::of("engine");
    let failed = store.obtain(&fingerprint, "plan", |path| {
        fs::write(path, "half").unwrap();
        Err(StoreError::Busy { path: "x".into() })
    });
    assert!(failed.is_err());
    assert!(store.find(&fingerprint).is_none());
}

#[test]
fn fingerprints_tell_parts_apart() {
    let a = Fingerprint::of("s").with("a", "bc").stem();
    let b = Fingerprint::of("s").with("ab", "c").stem();
    let c = Fingerprint::of("t").with("a", "bc").stem();
    assert!(a != b && a != c && b != c);
}

#[test]
fn what_a_killed_run_left_is_swept_away() {
    let folder = tempfile::tempdir().unwrap();
    drop(Store::open(folder.path()).unwrap());
    let stale = folder.path().join("artifacts/.trtforge-abc");
    let mine = folder.path().join("notes.txt");
    fs::write(&stale, "half").unwrap();
    fs::write(&mine, "mine").unwrap();
    Store::open(folder.path()).unwrap();
    assert!(!stale.exists() && mine.exists());
}

#[cfg(unix)]
#[test]
fn publishing_follows_links() {
    let folder = tempfile::tempdir().unwrap();
    let shelf = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let one = store.obtain(&Fingerprint::of("one"), "plan", make("one")).unwrap();
    let (link, real) = (folder.path().join("m.plan"), shelf.path().join("m.plan"));
    std::os::unix::fs::symlink(&real, &link).unwrap();
    for _ in 0..2 {
        store.publish(&one, "m.plan").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "one");
    }
}

#[test]
fn one_run_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let _held = Store::open(folder.path()).unwrap();
    assert!(matches!(Store::open(folder.path()), Err(StoreError::Busy { .. })));
}

#[test]
fn publishing_twice_replaces_and_pruning_keeps_what_was_used() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let one = store.obtain(&Fingerprint::of("one"), "onnx", make("one")).unwrap();
    let two = store.obtain(&Fingerprint::of("two"), "onnx", make("two")).unwrap();
    for artifact in [&one, &one, &two] {
        let target = store.publish(artifact, "onnx/m.onnx").unwrap();
        assert_eq!(fs::read(target).unwrap(), fs::read(&artifact.path).unwrap());
    }
    assert_eq!(fs::read_dir(folder.path().join("onnx")).unwrap().count(), 1);
    store.prune(std::slice::from_ref(&two.path)).unwrap();
    assert!(store.find(&Fingerprint::of("one")).is_none());
    assert!(store.find(&Fingerprint::of("two")).is_some());
    store.unpublish("onnx/m.onnx").unwrap();
    store.unpublish("onnx/m.onnx").unwrap();
}
