//! Pages of the file, and the trees of pages that tables are.

use std::borrow::Cow;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;
use std::rc::Rc;

use super::SqliteFault;
use super::record::varint;

/// Bytes read at once; pages of a table mostly lie side by side.
const READ: usize = 256 * 1024;

/// The header of the file; page 1 begins after it.
const HEADER: usize = 100;

/// Largest row that is put together. Nothing that a profiler writes is near it.
const LARGEST_ROW: u64 = 1 << 28;

pub struct Pages {
    file: File,
    /// Bytes of a page.
    size: usize,
    /// Those of them that hold content.
    usable: usize,
    count: u32,
    /// Pages side by side, and the first of them.
    chunk: Rc<[u8]>,
    first: u32,
}

/// A page of rows.
pub struct Leaf {
    pub page: u32,
    pub bytes: PageBytes,
    pub cells: Vec<usize>,
}

/// One page out of the chunk that was read.
#[derive(Clone)]
pub struct PageBytes {
    chunk: Rc<[u8]>,
    start: usize,
    end: usize,
}

impl PageBytes {
    fn all(&self) -> &[u8] {
        &self.chunk[self.start..self.end]
    }
}

impl Pages {
    pub fn open(path: &Path) -> Result<Self, SqliteFault> {
        let mut file = File::open(path).map_err(SqliteFault::Io)?;
        let mut header = [0; HEADER];
        file.read_exact(&mut header).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => SqliteFault::Truncated { page: 1 },
            _ => SqliteFault::Io(error),
        })?;
        let size = match u16::from_be_bytes([header[16], header[17]]) {
            1 => 65_536,
            size => usize::from(size),
        };
        let corrupt = |what| SqliteFault::Corrupt { page: 1, what };
        if !size.is_power_of_two() || size < 512 {
            return Err(corrupt("the page size is impossible"));
        }
        let usable = size - usize::from(header[20]);
        if usable < 480 {
            return Err(corrupt("pages have no room for content"));
        }
        if u32::from_be_bytes([header[56], header[57], header[58], header[59]]) > 1 {
            return Err(SqliteFault::Unsupported("text in UTF-16"));
        }
        let length = file.metadata().map_err(SqliteFault::Io)?.len();
        let count = u32::try_from(length / size as u64).unwrap_or(u32::MAX);
        Ok(Self { file, size, usable, count, chunk: Rc::from([]), first: 0 })
    }

    /// A page, numbered from 1.
    fn page(&mut self, page: u32) -> Result<PageBytes, SqliteFault> {
        if page == 0 {
            return Err(SqliteFault::Corrupt { page, what: "a page number is 0" });
        }
        if page > self.count {
            return Err(SqliteFault::Truncated { page });
        }
        let held = (self.chunk.len() / self.size) as u32;
        if page < self.first || page >= self.first + held {
            let pages = ((READ / self.size).max(1) as u32).min(self.count - page + 1);
            let mut bytes = vec![0; pages as usize * self.size];
            let offset = u64::from(page - 1) * self.size as u64;
            self.file.seek(SeekFrom::Start(offset)).map_err(SqliteFault::Io)?;
            self.file.read_exact(&mut bytes).map_err(SqliteFault::Io)?;
            (self.chunk, self.first) = (bytes.into(), page);
        }
        let start = (page - self.first) as usize * self.size;
        Ok(PageBytes { chunk: Rc::clone(&self.chunk), start, end: start + self.usable })
    }

    /// The leaves of a table, first to last.
    pub fn walk(&self, root: u32) -> Walk {
        Walk { open: vec![root], left: self.count }
    }

    /// The number and the content of the row at `offset` of a leaf.
    pub fn payload<'b>(
        &mut self,
        page: u32,
        bytes: &'b PageBytes,
        offset: usize,
    ) -> Result<(i64, Cow<'b, [u8]>), SqliteFault> {
        let corrupt = |what| SqliteFault::Corrupt { page, what };
        let beyond = || corrupt("a row lies beyond its page");
        let cell = bytes.all().get(offset..).ok_or_else(beyond)?;
        let (length, first) = varint(cell).ok_or_else(beyond)?;
        let (row_id, second) = varint(&cell[first..]).ok_or_else(beyond)?;
        if length > LARGEST_ROW {
            return Err(corrupt("a row is impossibly long"));
        }
        let (length, cell) = (length as usize, &cell[first + second..]);
        let local = self.local(length);
        let here = cell.get(..local).ok_or_else(beyond)?;
        if local == length {
            return Ok((row_id as i64, Cow::Borrowed(here)));
        }
        let mut next = number(cell.get(local..local + 4).ok_or_else(beyond)?);
        let mut whole = here.to_vec();
        while whole.len() < length {
            let more = self.page(next)?;
            let more = more.all();
            let take = (length - whole.len()).min(more.len() - 4);
            whole.extend_from_slice(&more[4..4 + take]);
            next = number(&more[..4]);
        }
        Ok((row_id as i64, Cow::Owned(whole)))
    }

    /// How much of a row of so many bytes lies in its leaf; the rest is on pages of its own.
    fn local(&self, length: usize) -> usize {
        let most = self.usable - 35;
        if length <= most {
            return length;
        }
        let least = (self.usable - 12) * 32 / 255 - 23;
        let fitting = least + (length - least) % (self.usable - 4);
        if fitting <= most { fitting } else { least }
    }
}

/// Where a walk through a table's pages is.
pub struct Walk {
    /// Pages still to visit, the next one last.
    open: Vec<u32>,
    /// No table has more pages than its file: what goes on longer goes in circles.
    left: u32,
}

/// What kinds of pages tables have.
const INTERIOR: u8 = 5;
const LEAF: u8 = 13;

impl Walk {
    pub fn next(&mut self, pages: &mut Pages) -> Result<Option<Leaf>, SqliteFault> {
        while let Some(page) = self.open.pop() {
            let corrupt = |what| SqliteFault::Corrupt { page, what };
            self.left =
                self.left.checked_sub(1).ok_or_else(|| corrupt("pages point in circles"))?;
            let bytes = pages.page(page)?;
            let start = if page == 1 { HEADER } else { 0 };
            let head = &bytes.all()[start..];
            let (kind, count) = (head[0], usize::from(u16::from_be_bytes([head[3], head[4]])));
            let pointers = match kind {
                LEAF => 8,
                INTERIOR => 12,
                _ => return Err(corrupt("this is no page of a table")),
            };
            let offsets: Vec<usize> = head
                .get(pointers..pointers + 2 * count)
                .ok_or_else(|| corrupt("it has more rows than room"))?
                .chunks_exact(2)
                .map(|pair| usize::from(u16::from_be_bytes([pair[0], pair[1]])))
                .collect();
            if kind == LEAF {
                return Ok(Some(Leaf { page, bytes, cells: offsets }));
            }
            let child = |offset: &usize| {
                let four = bytes.all().get(*offset..*offset + 4);
                four.map(number).ok_or_else(|| corrupt("a pointer lies beyond its page"))
            };
            self.open.push(number(&head[8..12]));
            for offset in offsets.iter().rev() {
                self.open.push(child(offset)?);
            }
        }
        Ok(None)
    }
}

fn number(four: &[u8]) -> u32 {
    four.iter().fold(0, |number, &byte| (number << 8) | u32::from(byte))
}
