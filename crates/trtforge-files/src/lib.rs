//! Writing a file so that it is there whole or not at all: temporary file, fsync, rename.
//!
//! A rename puts a regular file over whatever stands at the path. So what stands there is looked at first: the file
//! behind a symbolic link is replaced and the link stays, a device or a FIFO is written into as any program would, and a folder is
//! an error.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Links to links that are followed before they count as a loop, as Linux does.
const MOST_LINKS: usize = 40;
/// How the temporary files begin, for whoever sweeps up after a killed process.
pub const TEMPORARY: &str = ".trtforge-";

/// What a result goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A regular file, there already or not; no link any more.
    File(PathBuf),
    /// A device, FIFO or the like, which only takes bytes.
    Stream,
}

impl Target {
    /// Looks at what stands at `path`.
    ///
    /// Errors: a folder stands there, links go in a circle, or the path cannot be looked at.
    pub fn of(path: &Path) -> io::Result<Self> {
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                Err(io::Error::new(ErrorKind::IsADirectory, "a folder is there"))
            }
            Ok(found) if !found.is_file() => Ok(Self::Stream),
            Ok(_) => fs::canonicalize(path).map(Self::File),
            Err(error) if error.kind() == ErrorKind::NotFound => absent(path).map(Self::File),
            Err(error) => Err(error),
        }
    }
}

/// Where a file will be made for a path at which there is none: links may lead there.
fn absent(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(next) => path = folder_of(&path).join(next),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("its symbolic links go in a circle"))
}

/// The folder that holds `path`.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes `bytes` to `path`.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with(path, &mut |out| out.write_all(bytes)).map(drop)
}

/// Writes what `fill` gives; returns the number of bytes.
///
/// A new file is as readable as any: the umask decides, not the private mode of temporary files.
pub fn write_with(
    path: &Path,
    fill: &mut dyn FnMut(&mut (dyn Write + Send)) -> io::Result<()>,
) -> io::Result<u64> {
    match Target::of(path)? {
        // Neither created nor truncated: it is there, and has no length.
        Target::Stream => filled(&mut OpenOptions::new().write(true).open(path)?, fill),
        Target::File(path) => {
            let folder = folder_of(&path);
            let mut file = temporary(folder)?;
            let bytes = filled(file.as_file_mut(), fill)?;
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|error| error.error)?;
            // The file is whole; some file systems cannot sync a folder.
            let _ = File::open(folder).and_then(|folder| folder.sync_all());
            Ok(bytes)
        }
    }
}

/// Finds out before the work whether a result can be written to `path`, and changes nothing.
pub fn writable(path: &Path) -> io::Result<()> {
    match Target::of(path)? {
        // Opening a FIFO waits for its reader.
        Target::Stream => Ok(()),
        Target::File(path) => tempfile::tempfile_in(folder_of(&path)).map(drop),
    }
}

fn temporary(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.prefix(TEMPORARY).tempfile_in(folder)
}

fn filled(
    file: &mut File,
    fill: &mut dyn FnMut(&mut (dyn Write + Send)) -> io::Result<()>,
) -> io::Result<u64> {
    let mut out = BufWriter::with_capacity(1 << 20, Counted { file, bytes: 0 });
    fill(&mut out)?;
    out.flush()?;
    Ok(out.get_ref().bytes)
}

struct Counted<'f> {
    file: &'f mut File,
    bytes: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{FileTypeExt, symlink};
    use std::process::Command;

    use super::*;

    fn is_link(path: &Path) -> bool {
        fs::symlink_metadata(path).unwrap().is_symlink()
    }

    /// Names in a folder, sorted.
    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_made_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        for text in ["first", "2"] {
            write(&path, text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        let count = write_with(&path, &mut |out| out.write_all(&[7; 3])).unwrap();
        assert_eq!((count, fs::read(&path).unwrap()), (3, vec![7; 3]));
        let failed = write_with(&path, &mut |out| {
            out.write_all(b"half")?;
            Err(io::Error::other("stopped"))
        });
        assert!(failed.is_err());
        assert_eq!(
            (fs::read(&path).unwrap(), names(folder.path())),
            (vec![7; 3], vec!["a".into()])
        );
    }

    #[test]
    fn links_stay_and_what_they_point_to_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(elsewhere.path().join("real"), "old").unwrap();
        symlink(elsewhere.path().join("real"), at("link")).unwrap();
        symlink("link", at("link-of-link")).unwrap();
        symlink("not-yet", at("dangling")).unwrap();
        for (link, real) in [
            ("link", elsewhere.path().join("real")),
            ("link-of-link", elsewhere.path().join("real")),
            ("dangling", at("not-yet")),
        ] {
            writable(&at(link)).unwrap();
            write(&at(link), link.as_bytes()).unwrap();
            assert!(is_link(&at(link)) && !is_link(&real), "{link}");
            assert_eq!(fs::read_to_string(&real).unwrap(), link);
        }
        symlink("circle", at("circle")).unwrap();
        assert!(write(&at("circle"), b"x").is_err() && is_link(&at("circle")));
        assert!(writable(&at("circle")).is_err());
    }

    #[test]
    fn a_fifo_takes_the_bytes_and_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let (fifo, link) = (folder.path().join("fifo"), folder.path().join("link"));
        if !Command::new("mkfifo").arg(&fifo).status().is_ok_and(|status| status.success()) {
            eprintln!("skipped: no mkfifo here");
            return;
        }
        symlink("fifo", &link).unwrap();
        for path in [&fifo, &link] {
            assert_eq!(Target::of(path).unwrap(), Target::Stream);
            // Does not wait for a reader.
            writable(path).unwrap();
            let reader = std::thread::spawn({
                let fifo = fifo.clone();
                move || fs::read(fifo).unwrap()
            });
            write(path, b"through").unwrap();
            assert_eq!(reader.join().unwrap(), b"through");
            assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
        }
        assert!(is_link(&link));
        assert_eq!(names(folder.path()), ["fifo", "link"]);
    }

    #[test]
    fn a_folder_is_an_error_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        fs::create_dir(folder.path().join("sub")).unwrap();
        symlink("sub", &link).unwrap();
        for path in [folder.path().join("sub"), link] {
            for result in [write(&path, b"x"), writable(&path)] {
                assert_eq!(result.unwrap_err().kind(), ErrorKind::IsADirectory);
            }
            assert!(path.is_dir());
        }
        assert!(write(&folder.path().join("none/a"), b"x").is_err());
    }
}
