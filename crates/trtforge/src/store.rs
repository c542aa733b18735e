//! The artifact store of one output folder: every stage's result under the fingerprint of all that made it.
//!
//! An artifact is complete exactly when its seal (`<name>.seal.json`, written last) lists its files with their hashes
//! and the files still have them. So an interrupted run resumes at the first stage without a seal, a damaged file is
//! made again, and nothing half-written is ever taken for a result.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use miette::Diagnostic;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use trtforge_files::Target;

use crate::progress::detail;

/// Why the output folder cannot be used.
#[derive(Debug, Diagnostic, Error)]
pub enum StoreError {
    /// Writing failed.
    #[error("cannot {action} `{path}`: {source}")]
    #[diagnostic(
        code(output::io),
        help(
            "check that the folder exists, is writable, and that the disk has room; what was finished before is kept and the next run resumes from it"
        )
    )]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: String,
        /// Of the operating system.
        source: io::Error,
    },
    /// Reading failed.
    #[error("cannot {action} `{path}`: {source}")]
    #[diagnostic(
        code(output::read),
        help("check that the path is right, that the file is there, and that you may read it")
    )]
    Read {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: String,
        /// Of the operating system.
        source: io::Error,
    },
    /// What would be written is being read.
    #[error("`{path}` is one of the files that this run reads; it will not be written over")]
    #[diagnostic(code(output::input), help("choose another file or folder for the result"))]
    Input {
        /// The file.
        path: String,
    },
    /// Something else stands where a file or folder must go.
    #[error("`{path}` is {found}, and a {wanted} must go there")]
    #[diagnostic(
        code(output::occupied),
        help("move it away, or choose another folder with --output")
    )]
    Occupied {
        /// The path.
        path: String,
        /// What is there.
        found: &'static str,
        /// What must go there.
        wanted: &'static str,
    },
    /// A table that no run here made.
    #[error(
        "`{path}` is there and no run.json beside it: it is not of a build in this folder, which would write over it"
    )]
    #[diagnostic(
        code(output::foreign),
        help(
            "to use it, name it in the profile (`calibrate: {{ table: … }}`) and choose another folder with --output; or move it away"
        )
    )]
    Foreign {
        /// The table.
        path: String,
    },
    /// Another run holds the folder.
    #[error("another run of trtforge is working in `{path}`")]
    #[diagnostic(
        code(output::busy),
        help("wait for it, or give this run another folder with --output")
    )]
    Busy {
        /// The folder.
        path: String,
    },
}

impl StoreError {
    /// Wraps an I/O error with what was being done to which path.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
        let path = path.display().to_string();
        move |source| {
            if action.starts_with("read") {
                StoreError::Read { action, path, source }
            } else {
                StoreError::Io { action, path, source }
            }
        }
    }
}

/// The fingerprint of one stage's inputs.
///
/// Parts are length-prefixed, so that no two lists of parts hash alike.
#[derive(Debug, Clone)]
pub struct Fingerprint {
    stage: &'static str,
    hasher: blake3::Hasher,
}

impl Fingerprint {
    /// Of a stage of this program; another build of the program gives another fingerprint.
    pub fn of(stage: &'static str) -> Self {
        let fingerprint = Fingerprint { stage, hasher: blake3::Hasher::new() };
        fingerprint.with("stage", stage).with("program", program_hash())
    }

    /// With one more input.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        for part in [name.as_bytes(), value.as_ref()] {
            self.hasher.update(&(part.len() as u64).to_le_bytes());
            self.hasher.update(part);
        }
        self
    }

    /// File stem of the artifact: stage and the first 128 bits of the hash.
    pub fn stem(&self) -> String {
        format!("{}-{}", self.stage, &self.hasher.finalize().to_hex()[..32])
    }
}

/// Hash of the running executable: the code version that made an artifact.
fn program_hash() -> &'static str {
    static HASH: OnceLock<String> = OnceLock::new();
    HASH.get_or_init(|| {
        std::env::current_exe()
            .and_then(|path| hash_file(&path))
            .map_or_else(|_| env!("CARGO_PKG_VERSION").to_owned(), |(hash, _)| hash)
    })
}

/// BLAKE3 of a file, in hexadecimal, and its size in bytes.
pub fn hash_file(path: &Path) -> io::Result<(String, u64)> {
    let mut file = File::open(path)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((hasher.finalize().to_hex().to_string(), bytes));
        }
        bytes += read as u64;
        hasher.update(&buffer[..read]);
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Seal {
    files: Vec<SealedFile>,
}

/// One file of an artifact.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SealedFile {
    /// Name within the store.
    pub name: String,
    /// Size.
    pub bytes: u64,
    /// BLAKE3, hexadecimal.
    pub blake3: String,
}

/// A complete artifact.
#[derive(Debug, Clone)]
pub struct Artifact {
    /// Its main file.
    pub path: PathBuf,
    /// The main file first.
    pub files: Vec<SealedFile>,
    /// Whether it was there already.
    pub cached: bool,
}

impl Artifact {
    /// Content hash of the main file.
    pub fn hash(&self) -> &str {
        &self.files[0].blake3
    }

    /// Bytes of all its files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// The store of one output folder, locked for this process.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    output: PathBuf,
    _lock: File,
}

impl Store {
    /// Opens (makes) the store in `output`, proving that it can be written.
    pub fn open(output: &Path) -> Result<Store, StoreError> {
        vacant(output)?;
        let folder = output.join("artifacts");
        fs::create_dir_all(&folder).map_err(StoreError::io("create", &folder))?;
        let lock_path = folder.join(".lock");
        let lock = File::create(&lock_path).map_err(StoreError::io("write in", &folder))?;
        // A file system without locks answers with another error: one run at a time is then up to the user.
        if let Err(fs::TryLockError::WouldBlock) = lock.try_lock() {
            return Err(StoreError::Busy { path: output.display().to_string() });
        }
        sweep(output);
        Ok(Store { folder, output: output.to_owned(), _lock: lock })
    }

    /// The output folder.
    pub fn output(&self) -> &Path {
        &self.output
    }

    /// The artifact of this fingerprint, if it is complete and undamaged.
    pub fn find(&self, fingerprint: &Fingerprint) -> Option<Artifact> {
        let seal = fs::read(self.seal_path(&fingerprint.stem())).ok()?;
        let seal: Seal = serde_json::from_slice(&seal).ok()?;
        let intact = |file: &SealedFile| {
            hash_file(&self.folder.join(&file.name))
                .is_ok_and(|(hash, bytes)| hash == file.blake3 && bytes == file.bytes)
        };
        let first = seal.files.first()?;
        let path = self.folder.join(&first.name);
        seal.files.iter().all(intact).then_some(Artifact { path, files: seal.files, cached: true })
    }

    /// The artifact of this fingerprint, made by `make` unless it is there.
    ///
    /// `make` writes the main file to the path it is given, and may write `<path>.data` beside it.
    pub fn obtain<E: From<StoreError>>(
        &self,
        fingerprint: &Fingerprint,
        extension: &str,
        make: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<Artifact, E> {
        let stem = fingerprint.stem();
        if let Some(artifact) = self.find(fingerprint) {
            detail(&format!("reusing artifact {stem}.{extension}: nothing it is made of changed"));
            return Ok(artifact);
        }
        detail(&format!("making artifact {stem}.{extension}: there is none of these inputs"));
        let path = self.folder.join(format!("{stem}.{extension}"));
        make(&path)?;
        Ok(self.seal(&stem, &path)?)
    }

    fn seal(&self, stem: &str, path: &Path) -> Result<Artifact, StoreError> {
        let data = with_suffix(path, ".data");
        let mut files = Vec::new();
        for file in [path, &data] {
            if file == data && !file.exists() {
                continue;
            }
            let (blake3, bytes) = hash_file(file).map_err(StoreError::io("read back", file))?;
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.push(SealedFile { name, bytes, blake3 });
        }
        let seal = Seal { files };
        write_atomic(&self.seal_path(stem), to_json(&seal).as_bytes())?;
        Ok(Artifact { path: path.to_owned(), files: seal.files, cached: false })
    }

    fn seal_path(&self, stem: &str) -> PathBuf {
        self.folder.join(format!("{stem}.seal.json"))
    }

    /// Removes artifacts that the finished run did not use; `used` holds main-file paths.
    pub fn prune(&self, used: &[PathBuf]) -> Result<(), StoreError> {
        let keep: Vec<String> = used
            .iter()
            .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
            .collect();
        let entries = fs::read_dir(&self.folder).map_err(StoreError::io("list", &self.folder))?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let kept = keep.iter().any(|stem| name.starts_with(stem.as_str()));
            if !kept && !name.starts_with('.') {
                fs::remove_file(entry.path()).map_err(StoreError::io("remove", &entry.path()))?;
            }
        }
        Ok(())
    }

    /// Puts an artifact under its published name, all at once: a hard link where the file system allows, else a copy.
    pub fn publish(&self, artifact: &Artifact, name: &str) -> Result<PathBuf, StoreError> {
        let target = self.output.join(name);
        let folder = target.parent().unwrap_or(&self.output).to_owned();
        fs::create_dir_all(&folder).map_err(StoreError::io("create", &folder))?;
        for file in &artifact.files[1..] {
            // The model names its data file, so that one keeps its name.
            place(&self.folder.join(&file.name), &folder.join(&file.name))?;
        }
        place(&artifact.path, &target)?;
        Ok(target)
    }

    /// Removes a published file of an earlier run, if there is one.
    pub fn unpublish(&self, name: &str) -> Result<(), StoreError> {
        let path = self.output.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::io("remove", &path)(error))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses an output that is one of the files being read, under whatever name.
pub fn refuse_overwriting<'p>(
    inputs: impl Iterator<Item = &'p Path>,
    output: &Path,
) -> Result<(), StoreError> {
    let Ok(target) = output.canonicalize() else { return Ok(()) };
    for input in inputs {
        if input.canonicalize().is_ok_and(|input| input == target) {
            return Err(StoreError::Input { path: output.display().to_string() });
        }
    }
    Ok(())
}

/// Folders of an output folder that files are written into.
const FOLDERS: [&str; 7] = ["", "artifacts", "engines", "rejected", "onnx", "logs", "predictions"];

/// Files that every run writes.
pub const FILES: [&str; 5] =
    ["calibration.json", "run.json", "report.html", "report.md", "junit.xml"];

/// Finds out before the work whether results have a place to go.
fn vacant(output: &Path) -> Result<(), StoreError> {
    let occupied = |path: PathBuf, found, wanted| {
        Err(StoreError::Occupied { path: path.display().to_string(), found, wanted })
    };
    for folder in FOLDERS.map(|folder| output.join(folder)) {
        if folder.exists() && !folder.is_dir() {
            return occupied(folder, "a file", "folder");
        }
    }
    for file in FILES.map(|file| output.join(file)) {
        if file.is_dir() {
            return occupied(file, "a folder", "file");
        }
    }
    // A run that was killed leaves its artifacts; without them, and without a record, the table is somebody's own.
    let [table, record] = ["calibration.json", "run.json"].map(|file| output.join(file));
    if table.exists() && !record.exists() && !output.join("artifacts").exists() {
        return Err(StoreError::Foreign { path: table.display().to_string() });
    }
    Ok(())
}

/// How the temporary files of all writers begin.
const TEMPORARY: [&str; 2] = [trtforge_files::TEMPORARY, ".publish-"];

/// Removes what a killed run was writing. The lock is held, so that nobody is writing it now.
fn sweep(output: &Path) {
    for folder in FOLDERS {
        for entry in fs::read_dir(output.join(folder)).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if TEMPORARY.iter().any(|prefix| name.starts_with(prefix)) {
                // What cannot be removed does no harm: nothing reads a temporary file.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Links or copies `source` to `target` so that `target` is never half there.
fn place(source: &Path, target: &Path) -> Result<(), StoreError> {
    match Target::of(target).map_err(StoreError::io("write", target))? {
        Target::File(file) => link(source, &file),
        Target::Stream => {
            let mut from = File::open(source).map_err(StoreError::io("read", source))?;
            trtforge_files::write_with(target, &mut |out| io::copy(&mut from, out).map(drop))
                .map(drop)
                .map_err(StoreError::io("write", target))
        }
    }
}

fn link(source: &Path, target: &Path) -> Result<(), StoreError> {
    let folder = trtforge_files::folder_of(target);
    let temporary = tempfile::Builder::new()
        .prefix(".publish-")
        .make_in(folder, |path| {
            fs::hard_link(source, path).or_else(|_| fs::copy(source, path).map(drop))
        })
        .map_err(StoreError::io("write in", folder))?;
    // Renaming one hard link over another of the same file does nothing and leaves both: take the old one away.
    if target.exists() {
        fs::remove_file(target).map_err(StoreError::io("replace", target))?;
    }
    let path = temporary.into_temp_path();
    path.persist(target).map_err(|error| StoreError::io("write", target)(error.error))
}

/// Writes a file so that readers see the old content or the new, never a part; its folder is made where there is none.
///
/// What else stands there is treated as [`trtforge_files`] says: links are followed, devices written into.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let folder = trtforge_files::folder_of(path);
    fs::create_dir_all(folder).map_err(StoreError::io("create", folder))?;
    trtforge_files::write(path, bytes).map_err(StoreError::io("write", path))
}

/// `path` with `suffix` appended to its file name.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Pretty JSON with a final newline.
pub fn to_json<T: Serialize>(value: &T) -> String {
    let mut text =
        serde_json::to_string_pretty(value).expect("plain data with string keys serializes");
    text.push('\n');
    text
}

/// What [`to_json`] wrote to a file; none where it cannot be read, so that it is made again.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests;
