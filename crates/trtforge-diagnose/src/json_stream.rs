//! JSON taken value by value from a reader, through one buffer that holds little more than the value at hand.

use std::io::{self, Read};

use serde::de::{Deserialize, DeserializeOwned};

/// First size of the buffer; it grows only for a single value that is longer.
const BUFFER: usize = 256 * 1024;

/// Longest value read as one: far above any event, far below what would hurt.
const LONGEST_VALUE: usize = 64 * 1024 * 1024;

/// Why the next value cannot be had.
#[derive(Debug)]
pub enum StreamError {
    /// The reader failed.
    Io(io::Error),
    /// The text ends inside a value.
    Truncated,
    /// The text is no JSON here.
    Syntax {
        /// Of the value.
        offset: u64,
        /// What is wrong.
        message: String,
    },
}

/// A reader with a cursor on its JSON text.
pub struct JsonStream<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Next byte to take, in `buffer`.
    start: usize,
    /// One past the last byte there is, in `buffer`.
    end: usize,
    /// Offset in the text of `buffer[0]`.
    base: u64,
    ended: bool,
}

/// Numbers that Python and C++ write and JSON lacks.
const BARE_WORDS: [&[u8]; 7] =
    [b"-Infinity", b"Infinity", b"NaN", b"-nan", b"nan", b"-inf", b"inf"];

/// Length of the longest.
const LONGEST_WORD: usize = 9;

/// How an attempt on the bytes at hand went.
enum Attempt<T> {
    Value(T, usize),
    /// The value goes on beyond them.
    Short,
    Wrong(String),
}

impl<R: Read> JsonStream<R> {
    pub fn new(reader: R) -> Self {
        Self { reader, buffer: vec![0; BUFFER], start: 0, end: 0, base: 0, ended: false }
    }

    /// Bytes of text taken so far.
    pub fn offset(&self) -> u64 {
        self.base + self.start as u64
    }

    /// Bytes of text seen so far.
    pub fn seen(&self) -> u64 {
        self.base + self.end as u64
    }

    /// The next bytes as they are, at most `count` of them.
    pub fn preview(&mut self, count: usize) -> Result<&[u8], StreamError> {
        while self.end - self.start < count && self.fill()? {}
        Ok(&self.buffer[self.start..self.end.min(self.start + count)])
    }

    /// Takes `count` bytes that were previewed.
    pub fn advance(&mut self, count: usize) {
        self.start = self.end.min(self.start + count);
    }

    /// The next byte that is no white space, not taken; none at the end of the text.
    pub fn peek(&mut self) -> Result<Option<u8>, StreamError> {
        loop {
            let rest = &self.buffer[self.start..self.end];
            if let Some(skip) = rest.iter().position(|byte| !byte.is_ascii_whitespace()) {
                self.start += skip;
                return Ok(Some(self.buffer[self.start]));
            }
            self.start = self.end;
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// Takes `byte`, or says what is there instead.
    pub fn expect(&mut self, byte: u8) -> Result<(), StreamError> {
        match self.peek()? {
            Some(found) if found == byte => {
                self.start += 1;
                Ok(())
            }
            Some(found) => Err(self.syntax(format!(
                "expected `{}`, found `{}`",
                char::from(byte),
                found.escape_ascii()
            ))),
            None => Err(StreamError::Truncated),
        }
    }

    /// After a member or element: whether another follows, or `close` was taken.
    pub fn another(&mut self, close: u8) -> Result<bool, StreamError> {
        match self.peek()? {
            Some(b',') => {
                self.start += 1;
                Ok(true)
            }
            Some(found) if found == close => {
                self.start += 1;
                Ok(false)
            }
            Some(found) => Err(self.syntax(format!(
                "expected `,` or `{}`, found `{}`",
                char::from(close),
                found.escape_ascii()
            ))),
            None => Err(StreamError::Truncated),
        }
    }

    /// The next value, owned.
    pub fn value<T: DeserializeOwned>(&mut self) -> Result<T, StreamError> {
        loop {
            self.at_value()?;
            match attempt(&self.buffer[self.start..self.end], self.ended) {
                Attempt::Value(value, used) => {
                    self.start += used;
                    return Ok(value);
                }
                Attempt::Short => self.more()?,
                Attempt::Wrong(message) => return Err(self.syntax(message)),
            }
        }
    }

    /// The next value, lent to `elements` while its bytes are in the buffer.
    pub fn visit<E: Elements>(&mut self, elements: &mut E) -> Result<(), StreamError> {
        loop {
            self.at_value()?;
            let rest = &self.buffer[self.start..self.end];
            match take(rest, self.ended, elements) {
                Attempt::Value((), used) => {
                    self.start += used;
                    return Ok(());
                }
                Attempt::Short => self.more()?,
                Attempt::Wrong(message) => return Err(self.syntax(message)),
            }
        }
    }

    fn at_value(&mut self) -> Result<(), StreamError> {
        self.peek()?.map(|_| ()).ok_or(StreamError::Truncated)
    }

    fn more(&mut self) -> Result<(), StreamError> {
        if self.end - self.start > LONGEST_VALUE {
            return Err(self.syntax(format!("one value is longer than {LONGEST_VALUE} bytes")));
        }
        let known = self.ended;
        // Once the end is known, what looked short is tried again as the last.
        if self.fill()? || !known { Ok(()) } else { Err(StreamError::Truncated) }
    }

    fn syntax(&self, message: String) -> StreamError {
        StreamError::Syntax { offset: self.offset(), message }
    }

    /// Reads on; false at the end.
    fn fill(&mut self) -> Result<bool, StreamError> {
        if self.ended {
            return Ok(false);
        }
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.base += self.start as u64;
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        loop {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(count) => {
                    self.end += count;
                    self.ended = count == 0;
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A gzip stream that was cut off.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(StreamError::Truncated);
                }
                Err(error) => return Err(StreamError::Io(error)),
            }
        }
    }
}

/// What is done with the elements of an array, each lent for a moment.
pub trait Elements {
    /// One element; it may borrow from the buffer.
    type Element<'de>: Deserialize<'de>;

    /// Takes from it what is wanted.
    fn take(&mut self, element: Self::Element<'_>);
}

fn attempt<'de, T: Deserialize<'de>>(bytes: &'de [u8], last: bool) -> Attempt<T> {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<T>();
    match values.next() {
        // A number at the end of the bytes may have more digits beyond.
        Some(Ok(_)) if values.byte_offset() == bytes.len() && !last => Attempt::Short,
        Some(Ok(value)) => Attempt::Value(value, values.byte_offset()),
        Some(Err(error)) if error.is_eof() || at_end(&error, bytes, last) => Attempt::Short,
        Some(Err(error)) => Attempt::Wrong(plain(&error)),
        None => Attempt::Short,
    }
}

/// Whether an error may come from text that goes on: `68.` is no number yet, `Na` no NaN.
fn at_end(error: &serde_json::Error, bytes: &[u8], last: bool) -> bool {
    let lines = bytes.split(|byte| *byte == b'\n').take(error.line().saturating_sub(1));
    let offset = lines.map(|line| line.len() + 1).sum::<usize>() + error.column();
    if offset + LONGEST_WORD < bytes.len() {
        return false;
    }
    let tail = bytes.iter().rposition(|byte| !(byte.is_ascii_alphabetic() || *byte == b'-'));
    let tail = &bytes[tail.map_or(0, |at| at + 1)..];
    let word = !tail.is_empty() && BARE_WORDS.iter().any(|word| word.starts_with(tail));
    let number = matches!(bytes.last(), Some(b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    !last || word || number && offset >= bytes.len()
}

/// Reads one element and gives it away.
///
/// Python writes NaN and Infinity, which no JSON has; they matter to nothing that is read, and are tried as null.
fn take<E: Elements>(bytes: &[u8], last: bool, elements: &mut E) -> Attempt<()> {
    let message = match attempt::<E::Element<'_>>(bytes, last) {
        Attempt::Value(element, used) => {
            elements.take(element);
            return Attempt::Value((), used);
        }
        Attempt::Short => return Attempt::Short,
        Attempt::Wrong(message) => message,
    };
    let length = object_length(bytes);
    let clean = without_bare_words(&bytes[..length.unwrap_or(bytes.len())]);
    match (attempt::<E::Element<'_>>(&clean, last || length.is_some()), length) {
        (Attempt::Value(element, _), Some(used)) => {
            elements.take(element);
            Attempt::Value((), used)
        }
        (Attempt::Short, None) => Attempt::Short,
        _ => Attempt::Wrong(message),
    }
}

/// What `serde_json` says, without its line and column, which count from the value's own start.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(message, _)| message.to_owned())
}

/// Walks JSON text outside strings; stops when `visit` says so.
fn outside_strings(bytes: &[u8], mut visit: impl FnMut(usize, u8) -> bool) {
    let (mut inside, mut escaped) = (false, false);
    for (index, &byte) in bytes.iter().enumerate() {
        if inside {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => inside = false,
                _ => {}
            }
        } else if byte == b'"' {
            inside = true;
        } else if visit(index, byte) {
            return;
        }
    }
}

/// Length of the object that `bytes` begin with; none where it does not close.
fn object_length(bytes: &[u8]) -> Option<usize> {
    let (mut depth, mut length) = (0_usize, None);
    outside_strings(bytes, |index, byte| {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            length = Some(index + 1);
        }
        depth == 0
    });
    length
}

/// The same text with `null` for NaN and Infinity.
fn without_bare_words(object: &[u8]) -> Vec<u8> {
    let mut clean = object.to_vec();
    let mut places = Vec::new();
    outside_strings(object, |index, _| {
        for word in BARE_WORDS {
            if object[index..].starts_with(word) {
                places.push((index, word.len()));
                break;
            }
        }
        false
    });
    // From the back, so that places stay right; `inf` within `-inf` was found too and is skipped.
    let mut before = usize::MAX;
    for (index, length) in places.into_iter().rev() {
        if object.get(index.wrapping_sub(1)) == Some(&b'-') || index + length > before {
            continue;
        }
        clean.splice(index..index + length, *b"null");
        before = index;
    }
    clean
}

#[cfg(test)]
mod tests {
    use serde::de::IgnoredAny;
    use serde_json::{Value, json};

    use super::*;

    /// Hands out one byte at a time: every boundary falls everywhere.
    struct Drip<'a>(&'a [u8]);

    impl Read for Drip<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(&mut buffer[..1])
        }
    }

    struct Collect(Vec<Value>);

    impl Elements for Collect {
        type Element<'de> = Value;
        fn take(&mut self, element: Value) {
            self.0.push(element);
        }
    }

    fn array(text: &str) -> Result<Vec<Value>, StreamError> {
        let mut stream = JsonStream::new(Drip(text.as_bytes()));
        let mut all = Collect(Vec::new());
        stream.expect(b'[')?;
        loop {
            stream.visit(&mut all)?;
            if !stream.another(b']')? {
                return Ok(all.0);
            }
        }
    }

    #[test]
    fn values_survive_every_split() {
        let text = r#" [ {"dur": 68.25, "n": -1e-1}, 12, -3.5e2 ,"a\"]\\", {"k":[1,{"}":"{"}]}, true,null ]"#;
        let expected = [
            json!({"dur": 68.25, "n": -0.1}),
            json!(12),
            json!(-350.0),
            json!("a\"]\\"),
            json!({"k":[1,{"}":"{"}]}),
            json!(true),
            json!(null),
        ];
        assert_eq!(array(text).unwrap(), expected);
    }

    #[test]
    fn python_numbers_that_json_lacks_become_null() {
        let text = r#"[{"a":NaN,"b":"NaN","c":-Infinity,"d":[inf,-inf,nan],"e":Infinity}]"#;
        let expected = json!({"a":null,"b":"NaN","c":null,"d":[null,null,null],"e":null});
        assert_eq!(array(text).unwrap(), [expected]);
    }

    #[test]
    fn text_that_ends_early_is_truncated_wherever_it_ends() {
        let text = "[{\"name\":\"a b\",\n\"n\":[1,2.5]},\n{\"x\":true,\"y\":-0.5}]";
        for length in 0..text.len() {
            let error = array(&text[..length]).unwrap_err();
            assert!(matches!(error, StreamError::Truncated), "{length}: {error:?}");
        }
    }

    #[test]
    fn broken_places_are_named_by_their_offset() {
        for (text, at) in [("[1 2]", 3), (r#"[1,{"a" 2}]"#, 3), ("[1,}", 3), ("{", 0)] {
            let error = array(text).unwrap_err();
            assert!(
                matches!(error, StreamError::Syntax { offset, .. } if offset == at),
                "{text}: {error:?}"
            );
        }
    }

    #[test]
    fn a_value_longer_than_the_buffer_is_read() {
        let long = format!("\"{}\" 7", "x".repeat(3 * BUFFER));
        let mut stream = JsonStream::new(long.as_bytes());
        stream.value::<IgnoredAny>().unwrap();
        assert_eq!(stream.value::<u8>().unwrap(), 7);
        assert_eq!(stream.offset(), long.len() as u64);
    }
}
