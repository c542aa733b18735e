//! A row as it is stored: a header with the type of each column, then the values.

/// A value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'r> {
    /// No value.
    Null,
    /// A signed integer.
    Integer(i64),
    /// A floating-point number.
    Real(f64),
    /// Text; none where it is not UTF-8.
    Text(Option<&'r str>),
    /// Bytes, which no table here needs.
    Blob,
}

impl<'r> Cell<'r> {
    /// The integer, if it is one.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn text(&self) -> Option<&'r str> {
        match self {
            Self::Text(text) => *text,
            _ => None,
        }
    }
}

/// Where a value lies in its record.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    kind: u64,
    start: usize,
    length: usize,
}

impl Place {
    /// The value, out of the record it was found in.
    pub fn of<'r>(&self, record: &'r [u8]) -> Cell<'r> {
        let bytes = &record[self.start..self.start + self.length];
        match self.kind {
            1..=6 => Cell::Integer(integer(bytes)),
            7 => Cell::Real(f64::from_bits(integer(bytes) as u64)),
            8 => Cell::Integer(0),
            9 => Cell::Integer(1),
            kind if kind >= 13 && kind % 2 == 1 => Cell::Text(std::str::from_utf8(bytes).ok()),
            kind if kind >= 12 => Cell::Blob,
            _ => Cell::Null,
        }
    }
}

/// Big-endian, the first bit is the sign.
fn integer(bytes: &[u8]) -> i64 {
    let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    bytes.iter().fold(if negative { -1 } else { 0 }, |value, &byte| (value << 8) | i64::from(byte))
}

/// Finds the values of a record; none when they do not fit into it.
pub fn cells(record: &[u8], into: &mut Vec<Place>) -> Option<()> {
    let (header, mut at) = varint(record)?;
    let header = usize::try_from(header).ok()?;
    let mut start = header;
    while at < header {
        let (kind, bytes) = varint(record.get(at..header)?)?;
        at += bytes;
        let length = match kind {
            0 | 8 | 9 => 0,
            1..=4 => kind as usize,
            5 => 6,
            6 | 7 => 8,
            10 | 11 => return None,
            _ => usize::try_from((kind - 12) / 2).ok()?,
        };
        if start.checked_add(length)? > record.len() {
            return None;
        }
        into.push(Place { kind, start, length });
        start += length;
    }
    (at == header).then_some(())
}

/// A number of 1 to 9 bytes, seven bits in each but the ninth, and how many bytes it took.
pub fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(9).enumerate() {
        if index == 8 {
            return Some(((value << 8) | u64::from(byte), 9));
        }
        value = (value << 7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_by_hand() {
        assert_eq!(varint(&[0x05]), Some((5, 1)));
        assert_eq!(varint(&[0x81, 0x00]), Some((128, 2)));
        assert_eq!(varint(&[0xff; 9]), Some((u64::MAX, 9)));
        assert_eq!(varint(&[0x81]), None);
        assert_eq!(varint(&[]), None);
    }

    #[test]
    fn a_record_by_hand() {
        // Header of 6 bytes: NULL, 1-byte integer, constant 1, text of 2 bytes, 2-byte integer.
        let record = [6, 0, 1, 9, 17, 2, 0xfe, b'h', b'i', 0x01, 0x00];
        let mut places = Vec::new();
        cells(&record, &mut places).unwrap();
        let values: Vec<Cell<'_>> = places.iter().map(|place| place.of(&record)).collect();
        let text = Cell::Text(Some("hi"));
        assert_eq!(
            values,
            [Cell::Null, Cell::Integer(-2), Cell::Integer(1), text, Cell::Integer(256)]
        );
        for end in 0..record.len() {
            assert!(cells(&record[..end], &mut Vec::new()).is_none(), "cut at {end}");
        }
    }
}
