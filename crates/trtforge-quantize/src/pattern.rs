//! Patterns of `quantize.skip` and `quantize.only`: names with `*` (any characters) and `?` (any one).

use std::collections::BTreeSet;

use crate::QuantizeError;

/// How many near names an unmatched pattern lists.
const NEAR_NAMES: usize = 5;

/// One pattern on node, output tensor, weight or activation names.
///
/// `*` spans every character, `/` and `.` included, since exporters disagree on separators. All else is literal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern(String);

impl Pattern {
    /// The pattern as the user wrote it; every string is a valid pattern.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text it was made from.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the whole of `name` fits.
    pub fn matches(&self, name: &str) -> bool {
        fits(&self.0.chars().collect::<Vec<_>>(), &name.chars().collect::<Vec<_>>())
    }
}

impl<T: Into<String>> From<T> for Pattern {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}

/// Greedy match that returns to the last `*` on a mismatch: linear in practice, never exponential.
fn fits(pattern: &[char], name: &[char]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                retry = Some((p + 1, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match retry {
                Some((after_star, from)) => {
                    retry = Some((after_star, from + 1));
                    (p, n) = (after_star, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

/// Fails on the first pattern that fits none of `names`, with those of `suggest` that are most like it.
pub(crate) fn require_match(
    option: &'static str,
    patterns: &[Pattern],
    names: &BTreeSet<String>,
    suggest: &BTreeSet<String>,
) -> Result<(), QuantizeError> {
    match patterns.iter().find(|pattern| !names.iter().any(|name| pattern.matches(name))) {
        None => Ok(()),
        Some(pattern) => Err(QuantizeError::PatternMatchesNothing {
            option,
            pattern: pattern.0.clone(),
            near: near_names(&pattern.0, suggest),
        }),
    }
}

fn near_names(pattern: &str, names: &BTreeSet<String>) -> Vec<String> {
    let bare: String = pattern.chars().filter(|c| !matches!(c, '*' | '?')).collect();
    let mut ranked: Vec<(bool, f64, &String)> = names
        .iter()
        .filter(|name| !name.is_empty())
        .map(|name| (!name.contains(&bare), -strsim::jaro_winkler(&bare, name), name))
        .collect();
    ranked.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(b.2)));
    ranked.into_iter().take(NEAR_NAMES).map(|(_, _, name)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, name, fits) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("", "", true),
            ("*", "", true),
            ("*", "/bert/layer.0/MatMul", true),
            ("*/query/*", "/bert/layer.0/query/MatMul", true),
            ("*query", "/bert/query/MatMul", false),
            ("layer.?.x", "layer.1.x", true),
            ("layer.?.x", "layer.10.x", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("**", "x", true),
            ("[x]", "[x]", true),
        ] {
            assert_eq!(Pattern::new(pattern).matches(name), fits, "{pattern} on {name}");
        }
    }

    #[test]
    fn many_stars_do_not_explode() {
        let name = "a".repeat(2000);
        assert!(!Pattern::new("*a*a*a*a*a*a*a*b").matches(&name));
    }

    #[test]
    fn an_unmatched_pattern_lists_near_names() {
        let names: BTreeSet<String> =
            ["encoder.query", "encoder.key", "pooler"].map(String::from).into();
        let error =
            require_match("skip", &["*".into(), "*pooller*".into()], &names, &names).unwrap_err();
        let QuantizeError::PatternMatchesNothing { pattern, near, option } = error else {
            panic!("{error:?}")
        };
        assert_eq!((option, pattern.as_str(), near[0].as_str()), ("skip", "*pooller*", "pooler"));
        assert!(require_match("only", &["*key".into()], &names, &names).is_ok());
    }
}
