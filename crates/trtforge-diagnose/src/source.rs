//! The bytes of a trace: a file, decompressed on a second thread where it is gzip.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use flate2::read::MultiGzDecoder;

/// Bytes handed over at once.
const CHUNK: usize = 128 * 1024;

/// Chunks in flight: enough to keep both threads busy, and a bound on memory.
const IN_FLIGHT: usize = 4;

/// Opens `path`; gzip is known by its first bytes, whatever the file is called.
pub fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    let mut file = File::open(path)?;
    let mut magic = [0; 2];
    let (read, result) = read_fully(&mut file, &mut magic);
    result?;
    file.rewind()?;
    if magic[..read] == [0x1f, 0x8b] {
        Ok(Box::new(Inflated::start(file)))
    } else {
        Ok(Box::new(file))
    }
}

/// Whether the first bytes of the file are these.
pub fn begins_with(path: &Path, magic: &[u8]) -> io::Result<bool> {
    let mut found = vec![0; magic.len()];
    let (read, result) = read_fully(&mut File::open(path)?, &mut found);
    result.map(|()| found[..read] == *magic)
}

/// Fills `buffer` as far as the reader goes: what was read before an error is still good.
fn read_fully(reader: &mut impl Read, buffer: &mut [u8]) -> (usize, io::Result<()>) {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (filled, Err(error)),
        }
    }
    (filled, Ok(()))
}

/// Text that another thread decompresses ahead of the reader.
struct Inflated {
    chunks: Receiver<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    taken: usize,
}

impl Inflated {
    fn start(file: File) -> Self {
        let (sender, chunks) = sync_channel(IN_FLIGHT);
        // It ends by itself: at the end of the file, at an error, or when the reader is dropped.
        std::thread::spawn(move || inflate(file, &sender));
        Self { chunks, chunk: Vec::new(), taken: 0 }
    }
}

fn inflate(file: File, sender: &SyncSender<io::Result<Vec<u8>>>) {
    let mut decoder = MultiGzDecoder::new(io::BufReader::with_capacity(CHUNK, file));
    loop {
        let mut chunk = vec![0; CHUNK];
        let (count, result) = read_fully(&mut decoder, &mut chunk);
        chunk.truncate(count);
        let more = count == CHUNK;
        let gone = sender.send(Ok(chunk)).is_err();
        if let Err(error) = result {
            // A reader that has gone away does not care.
            let _ = sender.send(Err(error));
            return;
        }
        if gone || !more {
            return;
        }
    }
}

impl Read for Inflated {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // A chunk may be empty before an error; only the thread's end is the end.
        while self.taken == self.chunk.len() {
            self.chunk = match self.chunks.recv() {
                Ok(chunk) => chunk?,
                Err(_) => return Ok(0),
            };
            self.taken = 0;
        }
        let count = buffer.len().min(self.chunk.len() - self.taken);
        buffer[..count].copy_from_slice(&self.chunk[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}
