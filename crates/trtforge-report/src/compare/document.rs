//! What a comparison says, before it is a page, Markdown or text: one order and one wording for all three.

use super::Comparison;

/// How a word is meant; nothing is said by colour alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Neither.
    Plain,
    /// Better.
    Good,
    /// Worse.
    Bad,
    /// Open.
    Unsure,
}

/// One cell of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Text.
    Text(String),
    /// A name from a model, a file or a profile.
    Code(String),
    /// A figure, set flush right.
    Number(String),
    /// A word with a tone.
    Word(&'static str, Tone),
    /// A value on its interval, where something can be drawn.
    Strip(f64, [f64; 2]),
    /// Nothing was measured.
    None,
}

impl Cell {
    /// A figure, or nothing.
    pub fn number(text: Option<String>) -> Self {
        text.map_or(Self::None, Self::Number)
    }

    /// Without colour or drawing.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Code(text) | Self::Number(text) => text,
            Self::Word(word, _) => word,
            Self::Strip(..) => "",
            Self::None => "–",
        }
    }
}

/// The head of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// In words.
    pub title: String,
    /// Whether it holds drawings alone.
    pub drawn: bool,
    /// Whether a terminal leaves it out.
    pub detail: bool,
    /// Whether its head is the name of a run.
    pub name: bool,
}

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// What it shows.
    pub caption: String,
    /// Heads, the first of which names the rows.
    pub columns: Vec<Column>,
    /// Lines, as wide as the heads.
    pub rows: Vec<Vec<Cell>>,
    /// Lines of a view that does not fold.
    pub most: usize,
}

impl Table {
    pub fn new(caption: impl Into<String>, columns: &[&str], rows: Vec<Vec<Cell>>) -> Self {
        let columns = columns
            .iter()
            .map(|title| Column {
                title: (*title).to_owned(),
                drawn: title.is_empty(),
                detail: false,
                name: false,
            })
            .collect();
        Self { caption: caption.into(), columns, rows, most: 40 }
    }

    /// Without the column that names the run, where there is only one.
    pub fn of_runs(mut self, comparison: &Comparison) -> Self {
        if comparison.differences.len() == 1 {
            self.columns.remove(0);
            self.rows.iter_mut().for_each(|row| drop(row.remove(0)));
        }
        self
    }

    /// With the names of runs as heads, from the second column on.
    pub fn named(mut self) -> Self {
        self.columns.iter_mut().skip(1).for_each(|column| column.name = true);
        self
    }

    /// With a column that a terminal leaves out.
    pub fn detail(mut self, title: &str) -> Self {
        let found = self.columns.iter_mut().filter(|column| column.title == title);
        found.for_each(|column| column.detail = true);
        self
    }

    pub fn most(mut self, most: usize) -> Self {
        self.most = most;
        self
    }
}

/// A piece of a part.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// A sentence.
    Paragraph(String),
    /// A table.
    Table(Table),
    /// The charts of all engines, where something can be drawn.
    Charts,
}

/// A part with its title.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// For links.
    pub id: &'static str,
    /// In words.
    pub title: &'static str,
    /// What it holds; a part with nothing in it is left out.
    pub blocks: Vec<Block>,
}

/// The whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The comparison in one line, without a full stop.
    pub headline: String,
    /// Of the headline.
    pub tone: Tone,
    /// One sentence a run, with its tone.
    pub findings: Vec<(Tone, String)>,
    /// What a reader must know about all of it.
    pub notes: Vec<String>,
    /// The parts in order.
    pub parts: Vec<Part>,
}
