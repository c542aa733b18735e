//! A comparison for a job page or a pull request.

use std::fmt::Write as _;

use super::document::{Block, Cell, Document, Table, Tone};
use crate::markdown::{code, plain, row, rule};

/// GitHub-flavoured Markdown.
pub fn render(document: &Document) -> String {
    let mut text = format!("# {}\n", plain(&document.headline));
    if !document.findings.is_empty() {
        text.push('\n');
    }
    for (tone, finding) in &document.findings {
        let finding = plain(finding);
        let _ = match tone {
            Tone::Bad => writeln!(text, "- **{finding}**"),
            _ => writeln!(text, "- {finding}"),
        };
    }
    for note in &document.notes {
        let _ = writeln!(text, "\n_{}_", plain(note));
    }
    for part in &document.parts {
        let _ = writeln!(text, "\n## {}", plain(part.title));
        for block in &part.blocks {
            match block {
                Block::Paragraph(sentence) => {
                    let _ = writeln!(text, "\n{}", plain(sentence));
                }
                Block::Table(found) => table(found, &mut text),
                Block::Charts => {}
            }
        }
    }
    text
}

fn table(table: &Table, text: &mut String) {
    let shown: Vec<usize> =
        (0..table.columns.len()).filter(|&at| !table.columns[at].drawn).collect();
    let _ = writeln!(text, "\n{}:\n", plain(&table.caption));
    row(text, &shown.iter().map(|&at| plain(&table.columns[at].title)).collect::<Vec<_>>());
    rule(text, shown.len());
    for cells in table.rows.iter().take(table.most) {
        let cell = |&at: &usize| match &cells[at] {
            Cell::Code(name) => code(name),
            Cell::Word(word, Tone::Bad) => format!("**{word}**"),
            other => plain(other.text()),
        };
        row(text, &shown.iter().map(cell).collect::<Vec<_>>());
    }
    if table.rows.len() > table.most {
        let _ = writeln!(
            text,
            "\nand {} more: see the page or `--json`",
            table.rows.len() - table.most
        );
    }
}
