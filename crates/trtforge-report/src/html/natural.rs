//! The order a person counts in.

/// A piece of a name: digits compare as numbers, so that `layer.10` follows `layer.9`.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NaturalPart<'a> {
    /// Leading zeros dropped; a longer number is a larger one.
    Digits(usize, &'a str),
    Text(&'a str),
}

/// The pieces of a name, to sort by.
pub fn natural(name: &str) -> Vec<NaturalPart<'_>> {
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let digits = first.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != digits).unwrap_or(rest.len());
        let (part, tail) = rest.split_at(end);
        let significant = part.trim_start_matches('0');
        parts.push(if digits {
            NaturalPart::Digits(significant.len(), significant)
        } else {
            NaturalPart::Text(part)
        });
        rest = tail;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_sort_as_a_person_counts() {
        let mut layers =
            vec!["layer.10", "layer.9", "layer.0", "decoder", "layer.99999999999999999999", ""];
        layers.sort_by_key(|layer| natural(layer));
        assert_eq!(
            layers,
            ["", "decoder", "layer.0", "layer.9", "layer.10", "layer.99999999999999999999"]
        );
    }
}
