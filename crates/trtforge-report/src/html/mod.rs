//! `report.html`: one page that explains a run to a person, and needs nothing but itself.
//!
//! Each section is a file of its own and renders nothing when the record has nothing for it, so a run stopped early gives a
//! short page. The page holds no reference to anything outside it and works without scripts; the one script filters names.

mod accuracy;
mod benchmark;
mod calibration;
mod canonical;
mod compare;
mod decisions;
mod diagnosis;
mod draw;
mod engines;
mod flips;
mod natural;
mod plot;
mod proof;
mod provenance;
mod rules;
mod sensitivity;
mod shapes;
mod verdict;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::{RunRecord, words};

pub use compare::render_comparison;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("search.js");

/// Forbids everything outside the page, should a browser ever find something to fetch.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The whole page.
pub fn render_html(record: &RunRecord) -> String {
    let sections = [
        Section::new("accuracy", "Accuracy", accuracy::section(record)),
        Section::new("gate", "What the gate looked at", rules::section(record)),
        Section::new("flips", "Answers that changed", flips::section(record)),
        Section::new("int8", "What INT8 costs", sensitivity::section(record)),
        Section::new("engines", "Size and build", engines::section(record)),
        Section::new("speed", "Speed", benchmark::section(record)),
        Section::new("precision", "What the engine runs in", proof::section(record)),
        Section::new("diagnosis", "Where the time goes", diagnosis::section(record)),
        Section::new("shapes", "Shapes and padding", shapes::section(record)),
        Section::new("canonical", "The graph it starts from", canonical::section(record)),
        Section::new("tensors", "What became of each tensor", decisions::section(record)),
        Section::new("calibration", "Calibration", calibration::section(record)),
        Section::new("provenance", "Provenance", Some(provenance::section(record))),
    ];
    let sections: Vec<Section> = sections.into_iter().flatten().collect();
    let title = format!("{}: {}", words::run_name(record), words::headline(record));
    let body = html! {
        main {
            (verdict::header(record))
            nav aria-label="Sections" {
                @for section in &sections { a href={ "#" (section.id) } { (section.title) } }
            }
            @for section in &sections {
                section id=(section.id) aria-labelledby={ (section.id) "-title" } {
                    h2 id={ (section.id) "-title" } { (section.title) }
                    (section.body)
                }
            }
        }
        script { (PreEscaped(SCRIPT)) }
    };
    page(&title, "", &body)
}

/// A page around its content, with the style of every page and what this one needs beside it.
fn page(title: &str, own_style: &str, body: &Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(own_style)) }
            }
            body { (body) }
        }
    }
    .into_string()
}

struct Section {
    id: &'static str,
    title: &'static str,
    body: Markup,
}

impl Section {
    fn new(id: &'static str, title: &'static str, body: Option<Markup>) -> Option<Self> {
        body.map(|body| Self { id, title, body })
    }
}

/// Text with true minus signs, and percent signs kept beside their number.
fn typeset(text: &str) -> String {
    let mut typeset = String::with_capacity(text.len());
    let mut before = ' ';
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let next = characters.peek().copied().unwrap_or(' ');
        typeset.push(match character {
            '-' if before == ' ' && (next.is_ascii_digit() || next == 'i') => '−',
            ' ' if before.is_ascii_digit() && next == '%' => '\u{a0}',
            other => other,
        });
        before = character;
    }
    typeset
}

/// Markup for a figure that was not measured.
fn absent() -> Markup {
    html! { span.absent aria-label="none" { "–" } }
}

#[cfg(test)]
mod tests {
    use super::typeset;

    #[test]
    fn only_a_minus_becomes_a_minus() {
        assert_eq!(
            typeset("-0.1 to -infinite, layer-3, 95 %, a - b"),
            "−0.1 to −infinite, layer-3, 95\u{a0}%, a - b"
        );
    }
}
