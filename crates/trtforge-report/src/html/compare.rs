//! `compare.html`: runs side by side, from the same document as its Markdown and its text.

use maud::{Markup, html};

use super::draw::{self, Mark, Scale, strip};
use super::{page, typeset};
use crate::compare::{Block, Cell, Comparison, Document, Part, Table, Tone};
use crate::words;

/// What this page needs beside the style of every page.
const OWN_STYLE: &str = include_str!("compare.css");

/// Lines of a table that are not folded away.
const SHOWN: usize = 24;

/// Lines of a table at all; more are for a program to read.
const MOST: usize = 1_000;

/// The whole page.
pub fn render_comparison(comparison: &Comparison, document: &Document) -> String {
    let body = html! {
        main {
            (header(comparison, document))
            nav aria-label="Sections" {
                @for part in &document.parts { a href={ "#" (part.id) } { (part.title) } }
            }
            @for part in &document.parts { (section(comparison, part)) }
        }
    };
    page(&document.headline, OWN_STYLE, &body)
}

fn header(comparison: &Comparison, document: &Document) -> Markup {
    let class = match document.tone {
        Tone::Good => "good",
        Tone::Bad => "bad",
        Tone::Unsure => "unsure",
        Tone::Plain => "unjudged",
    };
    html! {
        header.verdict.(class) {
            p.eyebrow { "trtforge compare, against " b { (words::name(&comparison.baseline)) } }
            h1 { (typeset(&document.headline)) }
            @if !document.findings.is_empty() {
                ul.findings { @for (tone, finding) in &document.findings {
                    li.finding { (mark(*tone)) p { (typeset(finding)) } }
                } }
            }
            @for note in &document.notes { p.place { (typeset(&note.replace('`', ""))) } }
        }
    }
}

/// A tone as a mark beside words that say the same.
fn mark(tone: Tone) -> Markup {
    let (class, mark) = match tone {
        Tone::Good => ("good", "✓"),
        Tone::Bad => ("bad", "✗"),
        Tone::Unsure => ("unsure", "?"),
        Tone::Plain => ("", "="),
    };
    html! { span.badge.(class) aria-hidden="true" { (mark) } }
}

fn section(comparison: &Comparison, part: &Part) -> Markup {
    html! {
        section id=(part.id) aria-labelledby={ (part.id) "-title" } {
            h2 id={ (part.id) "-title" } { (part.title) }
            @for block in &part.blocks {
                @match block {
                    Block::Paragraph(sentence) => { p.told { (typeset(sentence)) } }
                    Block::Table(found) => { (folded(found)) }
                    Block::Charts => { (draw::frontiers(comparison)) }
                }
            }
        }
    }
}

/// A table whose later lines are folded away when there are many.
fn folded(found: &Table) -> Markup {
    let (first, rest) = found.rows.split_at(SHOWN.min(found.rows.len()));
    let (rest, left) = rest.split_at(MOST.min(rest.len()));
    html! {
        (table(found, &found.caption, first))
        @if !rest.is_empty() {
            details.more {
                summary { "The other " (words::count(rest.len() as u64)) }
                (table(found, "The rest of the table above", rest))
                @if !left.is_empty() { p.legend { "and " (words::count(left.len() as u64)) " more, in the form that " code { "--json" } " gives." } }
            }
        }
    }
}

fn table(found: &Table, caption: &str, rows: &[Vec<Cell>]) -> Markup {
    let strips = rows.iter().flatten().filter_map(|cell| match cell {
        Cell::Strip(value, interval) => Some([*value, interval[0], interval[1]]),
        _ => None,
    });
    let scale = Scale::around(strips.flatten().chain([0.0]));
    let drawn = found.columns.iter().any(|column| column.drawn);
    let right = |at: usize| found.rows.iter().any(|row| matches!(row[at], Cell::Number(_)));
    html! {
        table.stack.compared {
            caption { (typeset(caption)) }
            thead { tr { @for (at, column) in found.columns.iter().enumerate() {
                @if column.drawn { th scope="col" aria-hidden="true" { } }
                @else { th.n[right(at)].name[column.name] scope="col" { (column.title) } }
            } } }
            tbody { @for row in rows { tr { @for (at, cell) in row.iter().enumerate() {
                (table_cell(cell, at, &found.columns[at].title, scale, right(at)))
            } } } }
        }
        @if let Some(scale) = scale.filter(|_| drawn) {
            p.legend {
                "The strips run from " (typeset(&words::figure(scale.low))) " to " (typeset(&words::figure(scale.high))) ". "
                span.entry { span.key.baseline { } " no change" }
            }
        }
    }
}

fn table_cell(cell: &Cell, at: usize, title: &str, scale: Option<Scale>, right: bool) -> Markup {
    let content = match cell {
        Cell::Text(text) | Cell::Number(text) => html! { (typeset(text)) },
        Cell::Code(name) => html! { code { (name) } },
        Cell::Word(word, Tone::Plain) => html! { (word) },
        Cell::Word(word, tone) => {
            let class = match tone {
                Tone::Good => "good",
                Tone::Bad => "bad",
                _ => "unsure",
            };
            html! { span.badge.(class) { (word) } }
        }
        Cell::Strip(value, interval) => {
            let kind = match *interval {
                [low, _] if low > 0.0 => "good",
                [_, high] if high < 0.0 => "bad",
                _ => "neutral",
            };
            let zero = [Some(Mark::Baseline(0.0))];
            return html! { td.drawn { @if let Some(scale) = scale { (strip(scale, *value, *interval, &zero, kind)) } } };
        }
        Cell::None => super::absent(),
    };
    if at == 0 {
        html! { th.n[right] scope="row" { (content) } }
    } else if title.is_empty() {
        html! { td.drawn { } }
    } else {
        html! { td.n[right] data-label=(words::capital(title)) { (content) } }
    }
}
