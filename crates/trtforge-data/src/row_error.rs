//! What can be wrong with a row of words and tags, of questions and answers, or of two texts and their score.

use miette::Diagnostic;
use thiserror::Error;

use crate::error::{Place, known_labels, label_help};

/// Why a row was refused.
#[derive(Debug, Clone, PartialEq, Diagnostic, Error)]
pub enum RowError {
    /// Words or tags that are not a list.
    #[error("{place}: field `{field}` is {value}, not a list of {what}")]
    #[diagnostic(
        code(data::not_list),
        help(
            "words and their tags are lists of one length, as {{\"tokens\": [\"EU\", \"rejects\"], \"ner_tags\": [\"B-ORG\", \"O\"]}}, or lines of a .conll file"
        )
    )]
    NotList {
        /// Where.
        place: Place,
        /// The field.
        field: String,
        /// The value, as written.
        value: String,
        /// `words` or `tags`.
        what: &'static str,
    },
    /// A word that is null, a number …
    #[error("{place}: word {index} (counted from 0) of field `{field}` is {value}, not text")]
    #[diagnostic(code(data::word), help("write every word as a string"))]
    Word {
        /// Where.
        place: Place,
        /// The field.
        field: String,
        /// Position in the list.
        index: usize,
        /// The value, as written.
        value: String,
    },
    /// More or fewer tags than words.
    #[error("{place}: `{words_field}` has {words} words and `{tags_field}` has {tags} tags")]
    #[diagnostic(
        code(data::tag_count),
        help("every word needs one tag; a word outside of all entities has the tag `O`")
    )]
    TagCount {
        /// Where.
        place: Place,
        /// The field of the words.
        words_field: String,
        /// Words.
        words: usize,
        /// The field of the tags.
        tags_field: String,
        /// Tags.
        tags: usize,
    },
    /// A tag that is none of the known ones.
    #[error(
        "{place}: tag {value} of word {index} (counted from 0) in `{field}` is not a known tag; known tags: {}",
        known_labels(known)
    )]
    #[diagnostic(code(data::bad_tag), help("{}", label_help(value, known)))]
    BadTag {
        /// Where.
        place: Place,
        /// The field.
        field: String,
        /// Position in the list.
        index: usize,
        /// The value, as written.
        value: String,
        /// `task.labels`.
        known: Vec<String>,
    },
    /// Names and positions in one list.
    #[error("{place}: the tags in `{field}` mix names and positions: {name} and {position}")]
    #[diagnostic(
        code(data::mixed_tags),
        help("write all tags as names of `task.labels` or all as positions in it")
    )]
    MixedTags {
        /// Where.
        place: Place,
        /// The field.
        field: String,
        /// A tag that is a name.
        name: String,
        /// A tag that is a position.
        position: String,
    },
    /// A line of a column file with a single column.
    #[error("{place}: the line has one column ({value}); a word and its tag are needed")]
    #[diagnostic(
        code(data::conll_columns),
        help(
            "each line is a word, any other columns, and the tag, separated by spaces or tabs; an empty line ends a sentence"
        )
    )]
    OneColumn {
        /// Where.
        place: Place,
        /// The line, shortened.
        value: String,
    },
    /// A format without lists or nesting.
    #[error("{}: a {extension} file cannot hold {what}", place.path.display())]
    #[diagnostic(code(data::flat_format), help("{help}"))]
    FlatFormat {
        /// The file.
        place: Place,
        /// Its extension.
        extension: String,
        /// What was to be read.
        what: &'static str,
        /// Formats that can.
        help: &'static str,
    },
    /// A score that is no finite number.
    #[error("{place}: field `{field}` is {value}, not a finite number")]
    #[diagnostic(
        code(data::score),
        help(
            "the score says how alike the two texts of the row are, on any scale, such as 0 to 5"
        )
    )]
    Score {
        /// Where.
        place: Place,
        /// The field.
        field: String,
        /// The value, as written.
        value: String,
    },
    /// Answers in none of the known forms.
    #[error("{place}: field `{field}` is {value}, not answers")]
    #[diagnostic(
        code(data::answers),
        help(
            "write {{\"text\": [\"…\"], \"answer_start\": [0]}}, a list of {{\"text\": …, \"answer_start\": …}}, or a list of texts"
        )
    )]
    Answers {
        /// Where.
        place: Place,
        /// The field.
        field: String,
        /// What is there.
        value: String,
    },
    /// As many starts as answers are needed.
    #[error("{place}: field `{field}` has {texts} answers and {starts} values of `answer_start`")]
    #[diagnostic(
        code(data::answer_count),
        help("give each answer its start, or leave `answer_start` out")
    )]
    AnswerCount {
        /// Where.
        place: Place,
        /// The field.
        field: String,
        /// Answers.
        texts: usize,
        /// Starts.
        starts: usize,
    },
    /// The context does not have the answer where the row says.
    #[error(
        "{place}: the context has {found} at character {start}, where field `{field}` says that the answer \"{answer}\" begins"
    )]
    #[diagnostic(code(data::answer_start), help("{help}"))]
    AnswerStart {
        /// Where.
        place: Place,
        /// The field.
        field: String,
        /// The answer, shortened.
        answer: String,
        /// As written.
        start: i64,
        /// What stands there.
        found: String,
        /// What the offset could be instead.
        help: String,
    },
    /// A question without an answer in a task where each has one.
    #[error("{place}: field `{field}` has no answer")]
    #[diagnostic(
        code(data::no_answer),
        help(
            "set `task.no_answer: true` when some questions have no answer in their context (SQuAD 2.0), else complete the row or remove it"
        )
    )]
    NoAnswer {
        /// Where.
        place: Place,
        /// The field.
        field: String,
    },
    /// Nothing to find an answer in.
    #[error("{place}: field `{field}` has no visible text")]
    #[diagnostic(
        code(data::empty_context),
        help("a question needs a context that its answer is a part of; remove the row")
    )]
    EmptyContext {
        /// Where.
        place: Place,
        /// The field.
        field: String,
    },
    /// A question that leaves no room for the context.
    #[error(
        "{place}: the question takes {question} of {max_length} tokens; {window} remain for the context, and consecutive windows share {stride} (`task.stride`)"
    )]
    #[diagnostic(
        code(data::window),
        help(
            "a window must be longer than what it shares with the next: lower `task.stride`, raise `max_length`, or shorten the question"
        )
    )]
    Window {
        /// Where.
        place: Place,
        /// Tokens of the question.
        question: usize,
        /// Tokens of a row at most.
        max_length: usize,
        /// Tokens left for the context.
        window: usize,
        /// Tokens shared by consecutive windows.
        stride: usize,
    },
    /// A file that is not SQuAD's.
    #[error("{place}: {message}")]
    #[diagnostic(
        code(data::squad),
        help(
            "SQuAD is {{\"data\": [{{\"paragraphs\": [{{\"context\": …, \"qas\": [{{\"question\": …, \"answers\": […]}}]}}]}}]}}"
        )
    )]
    Squad {
        /// Where.
        place: Place,
        /// What is wrong.
        message: String,
    },
}
