//! What can be wrong with a profile, each with the place and what to write instead.

use miette::Diagnostic;
use thiserror::Error;

use super::tree::Place;

/// Why a profile was refused.
#[derive(Debug, Diagnostic, Error)]
pub enum ProfileError {
    /// The file cannot be read.
    #[error("cannot read the profile `{path}`: {reason}")]
    #[diagnostic(
        code(profile::unreadable),
        help("check the path; `trtforge build PROFILE` takes a YAML file")
    )]
    Unreadable {
        /// As given.
        path: String,
        /// Of the operating system.
        reason: String,
    },
    /// It is not YAML.
    #[error("{at}: this is not valid YAML: {reason}")]
    #[diagnostic(code(profile::yaml))]
    Yaml {
        /// `file:line:column`.
        at: String,
        /// Of the YAML library.
        reason: String,
        /// The line at fault, when it is known.
        #[help]
        line: Option<String>,
    },
    /// A key nobody reads.
    #[error("{at}: unknown key `{key}` in {section}")]
    #[diagnostic(code(profile::unknown_key), help("{help}"))]
    UnknownKey {
        /// `file:line:column`.
        at: String,
        /// As written.
        key: String,
        /// `the profile` or the dotted section.
        section: String,
        /// The nearest known key and all of them.
        help: String,
    },
    /// A key that must be there.
    #[error("{at}: `{key}` is missing")]
    #[diagnostic(code(profile::missing), help("{help}"))]
    Missing {
        /// `file:line:column` of the section.
        at: String,
        /// Dotted.
        key: String,
        /// An example.
        help: String,
    },
    /// A value of the wrong kind or out of range.
    #[error("{at}: `{key}` is {found}, expected {expected}")]
    #[diagnostic(code(profile::value), help("{help}"))]
    Value {
        /// `file:line:column`.
        at: String,
        /// Dotted.
        key: String,
        /// In words.
        found: String,
        /// In words.
        expected: String,
        /// What to write.
        help: String,
    },
    /// `--set` that cannot be applied.
    #[error("`--set {assignment}` cannot be applied: {reason}")]
    #[diagnostic(
        code(profile::assignment),
        help("write `--set section.key=value`, for example `--set gate.max_drop=0.01`")
    )]
    Assignment {
        /// As given.
        assignment: String,
        /// In words.
        reason: String,
    },
    /// Several of the above at once.
    #[error("the profile `{source_name}` has {} mistakes", errors.len())]
    #[diagnostic(code(profile::several))]
    Several {
        /// File name.
        source_name: String,
        /// All that were found.
        #[related]
        errors: Vec<ProfileError>,
    },
}

impl ProfileError {
    /// A syntax error with the line at fault.
    pub fn yaml(source: &str, text: &str, error: &serde_yaml::Error) -> Self {
        let location = error.location();
        let at = location.map_or_else(
            || source.to_owned(),
            |location| format!("{source}:{}:{}", location.line(), location.column()),
        );
        let line = location
            .and_then(|location| text.lines().nth((location.line().max(1) - 1) as usize))
            .map(|line| format!("the line reads: {}", line.trim_end()));
        let message = error.without_snippet().to_string();
        let reason = message.lines().next().unwrap_or_default().to_owned();
        ProfileError::Yaml { at, reason, line }
    }
}

/// `file:line:column`, or the `--set` it came from.
pub fn locate(source: &str, place: &Place) -> String {
    match place {
        Place::File { line, column } => format!("{source}:{line}:{column}"),
        Place::CommandLine(assignment) => format!("--set {assignment}"),
    }
}
