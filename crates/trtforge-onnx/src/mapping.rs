//! Mapping a file into memory as shared bytes.

use std::fs::File;
use std::path::Path;

use bytes::Bytes;
use memmap2::Mmap;

/// Maps a regular file read-only; an empty file gives empty bytes.
pub(crate) fn map(path: &Path) -> std::io::Result<Bytes> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    if metadata.len() == 0 {
        return Ok(Bytes::new());
    }
    #[expect(
        unsafe_code,
        reason = "mapping a file is the one way to read weights without copying them"
    )]
    // SAFETY: the mapping is private to this process and read-only. What remains is another process changing the file in
    // place; the crate's documentation forbids that, and everything we write ourselves replaces files by rename.
    let mapping = unsafe { Mmap::map(&file)? };
    Ok(Bytes::from_owner(mapping))
}
