//! A comparison as text of a given width.

use std::fmt::Write as _;

use super::document::{Block, Cell, Document, Table, Tone};
use crate::words;

/// Space between columns.
const GAP: usize = 2;
/// A column of names gives up its width to this many characters before a table falls apart into blocks.
const NARROWEST: usize = 16;

/// Text; colour adds nothing but colour.
pub fn render(document: &Document, width: usize, color: bool) -> String {
    let page = Page { width: width.clamp(40, 240), color };
    let mut text = String::new();
    let mark = match document.tone {
        Tone::Good => "✓",
        Tone::Bad => "✗",
        Tone::Unsure => "?",
        Tone::Plain => "=",
    };
    let mark = page.paint(document.tone, mark);
    page.wrap(&mut text, &format!("{mark} "), 2, &document.headline);
    if !document.findings.is_empty() {
        text.push('\n');
    }
    for (tone, finding) in &document.findings {
        let mark = match tone {
            Tone::Good => "+",
            Tone::Bad => "-",
            Tone::Unsure => "?",
            Tone::Plain => "=",
        };
        let mark = page.paint(*tone, mark);
        page.wrap(&mut text, &format!("  {mark} "), 4, finding);
    }
    for note in &document.notes {
        text.push('\n');
        page.wrap(&mut text, "", 0, &note.replace('`', ""));
    }
    for part in &document.parts {
        let _ = writeln!(text, "\n{}", page.bold(part.title));
        for block in &part.blocks {
            match block {
                Block::Paragraph(sentence) => page.wrap(&mut text, "  ", 2, sentence),
                Block::Table(table) => page.table(&mut text, table),
                Block::Charts => {}
            }
        }
    }
    text
}

struct Page {
    width: usize,
    color: bool,
}

impl Page {
    fn paint(&self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Good => "32",
            Tone::Bad => "1;31",
            Tone::Unsure => "33",
        };
        if self.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn bold(&self, text: &str) -> String {
        if self.color { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn dim(&self, text: &str) -> String {
        if self.color { format!("\u{1b}[2m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// `label` and then words, continued under their start.
    fn wrap(&self, text: &mut String, label: &str, indent: usize, body: &str) {
        let mut line = label.to_owned();
        let (mut used, mut first) = (indent, true);
        for word in body.split(' ').filter(|word| !word.is_empty()) {
            let length = word.chars().count();
            if !first && used + 1 + length > self.width {
                let _ = writeln!(text, "{line}");
                (line, used, first) = (" ".repeat(indent), indent, true);
            }
            if !first {
                line.push(' ');
                used += 1;
            }
            line.push_str(word);
            (used, first) = (used + length, false);
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }

    fn table(&self, text: &mut String, table: &Table) {
        let shown: Vec<usize> = (0..table.columns.len())
            .filter(|&at| !table.columns[at].drawn && !table.columns[at].detail)
            .collect();
        let rows = &table.rows[..table.rows.len().min(table.most)];
        let longest = |&at: &usize| {
            let cells = rows.iter().map(|row| row[at].text().chars().count());
            cells.chain([table.columns[at].title.chars().count()]).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = shown.iter().map(longest).collect();
        let room = self.width.saturating_sub(2 + GAP * (shown.len().saturating_sub(1)));
        let mut total: usize = widths.iter().sum();
        // The widest column of names gives way first.
        while total > room {
            let names =
                |at: &usize| rows.iter().any(|row| matches!(row[shown[*at]], Cell::Code(_)));
            let Some(at) = (0..widths.len())
                .filter(names)
                .filter(|&at| widths[at] > NARROWEST)
                .max_by_key(|&at| widths[at])
            else {
                break;
            };
            let less = (total - room).min(widths[at] - NARROWEST);
            (widths[at], total) = (widths[at] - less, total - less);
        }
        if total > room {
            self.blocks(text, table, rows, &shown);
        } else {
            self.lines(text, table, rows, &shown, &widths);
        }
        if table.rows.len() > table.most {
            let more = table.rows.len() - table.most;
            let _ = writeln!(text, "  and {more} more: see -o compare.html or --json");
        }
    }

    fn lines(
        &self,
        text: &mut String,
        table: &Table,
        rows: &[Vec<Cell>],
        shown: &[usize],
        widths: &[usize],
    ) {
        let right = |at: usize| rows.iter().any(|row| matches!(row[at], Cell::Number(_)));
        let pad = |content: &str, at: usize, width: usize| {
            let content = words::shorten(content, width);
            if right(at) { format!("{content:>width$}") } else { format!("{content:<width$}") }
        };
        let head: Vec<String> = shown
            .iter()
            .zip(widths)
            .map(|(&at, &width)| pad(&table.columns[at].title, at, width))
            .collect();
        let _ = writeln!(text, "  {}", self.dim(head.join("  ").trim_end()));
        for row in rows {
            let mut line = String::new();
            for (place, (&at, &width)) in shown.iter().zip(widths).enumerate() {
                if place > 0 {
                    line.push_str("  ");
                }
                let last = place + 1 == shown.len();
                let content = pad(row[at].text(), at, width);
                let content = if last { content.trim_end() } else { &content };
                match &row[at] {
                    Cell::Word(word, tone) => {
                        line.push_str(&content.replacen(*word, &self.paint(*tone, word), 1));
                    }
                    _ => line.push_str(content),
                }
            }
            let _ = writeln!(text, "  {}", line.trim_end());
        }
    }

    /// One block a line of the table, where the table is too wide.
    fn blocks(&self, text: &mut String, table: &Table, rows: &[Vec<Cell>], shown: &[usize]) {
        for row in rows {
            let mut first = true;
            let mut rest = Vec::new();
            for &at in shown {
                let cell = &row[at];
                if *cell == Cell::None {
                    continue;
                }
                if first {
                    let _ = writeln!(
                        text,
                        "  {}",
                        self.bold(&words::shorten(cell.text(), self.width - 2))
                    );
                    first = false;
                } else {
                    rest.push(format!("{} {}", table.columns[at].title, cell.text()));
                }
            }
            self.wrap(text, "    ", 4, &rest.join(", "));
        }
    }
}
