//! The types numbers have in an engine, and the many words for them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A type of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "they are their own names")]
pub enum Number {
    Int4,
    Int8,
    Fp4,
    Fp8,
    Fp16,
    Bf16,
    Tf32,
    Fp32,
    Fp64,
    Uint8,
    Int32,
    Int64,
    Bool,
}

/// Every word for a type that inspectors and kernel names use, in lower case.
const WORDS: [(&str, Number); 38] = [
    ("int4", Number::Int4),
    ("i4", Number::Int4),
    ("s4", Number::Int4),
    ("u4", Number::Int4),
    ("int8", Number::Int8),
    ("i8", Number::Int8),
    ("s8", Number::Int8),
    ("fp4", Number::Fp4),
    ("fp4e2m1", Number::Fp4),
    ("e2m1", Number::Fp4),
    ("fp8", Number::Fp8),
    ("fp8e4m3", Number::Fp8),
    ("fp8e5m2", Number::Fp8),
    ("e4m3", Number::Fp8),
    ("e5m2", Number::Fp8),
    ("half", Number::Fp16),
    ("fp16", Number::Fp16),
    ("float16", Number::Fp16),
    ("f16", Number::Fp16),
    ("bfloat16", Number::Bf16),
    ("bf16", Number::Bf16),
    ("tf32", Number::Tf32),
    ("float", Number::Fp32),
    ("fp32", Number::Fp32),
    ("float32", Number::Fp32),
    ("f32", Number::Fp32),
    ("double", Number::Fp64),
    ("fp64", Number::Fp64),
    ("f64", Number::Fp64),
    ("uint8", Number::Uint8),
    ("u8", Number::Uint8),
    ("int32", Number::Int32),
    ("i32", Number::Int32),
    ("s32", Number::Int32),
    ("int64", Number::Int64),
    ("i64", Number::Int64),
    ("bool", Number::Bool),
    ("boolean", Number::Bool),
];

impl Number {
    /// The type a single word names.
    pub(crate) fn of_word(word: &str) -> Option<Number> {
        WORDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)).map(|(_, number)| *number)
    }

    /// The type in a description of a format: `Half`, `Row major linear FP16 format`, `Int8 NCHW`, `Half(64,1:8)`.
    ///
    /// None where it names no type (`N/A due to dynamic shapes`) or two different ones.
    pub(crate) fn of_format(text: &str) -> Option<Number> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric());
        let mut found = words.filter_map(Number::of_word);
        let first = found.next()?;
        found.all(|other| other == first).then_some(first)
    }

    /// The types of a run of them without separators, as in kernel names: `i8f32` is INT8 and FP32.
    pub(crate) fn of_run(text: &str) -> Option<Vec<Number>> {
        let mut rest = text;
        let mut numbers = Vec::new();
        while !rest.is_empty() {
            let longest = WORDS
                .iter()
                .filter(|(word, _)| rest.starts_with(word))
                .max_by_key(|(word, _)| word.len())?;
            numbers.push(longest.1);
            rest = &rest[longest.0.len()..];
        }
        (!numbers.is_empty()).then_some(numbers)
    }

    /// Whether it is a floating-point type.
    pub fn is_float(self) -> bool {
        use Number as N;
        matches!(self, N::Fp4 | N::Fp8 | N::Fp16 | N::Bf16 | N::Tf32 | N::Fp32 | N::Fp64)
    }

    /// Whether products are computed in it; the rest are indices, sizes and masks.
    pub(crate) fn is_operand(self) -> bool {
        self.is_float() || matches!(self, Number::Int4 | Number::Int8)
    }

    /// As written in prose.
    pub fn name(self) -> &'static str {
        match self {
            Number::Int4 => "INT4",
            Number::Int8 => "INT8",
            Number::Fp4 => "FP4",
            Number::Fp8 => "FP8",
            Number::Fp16 => "FP16",
            Number::Bf16 => "BF16",
            Number::Tf32 => "TF32",
            Number::Fp32 => "FP32",
            Number::Fp64 => "FP64",
            Number::Uint8 => "UINT8",
            Number::Int32 => "INT32",
            Number::Int64 => "INT64",
            Number::Bool => "BOOL",
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_of_every_version_name_their_type() {
        let cases = [
            // 8.x
            ("Row major linear FP16 format", Some(Number::Fp16)),
            ("Thirty-two wide channel vectorized row major Int8 format.", Some(Number::Int8)),
            ("Channel major FP16 format where channel % 4 == 0", Some(Number::Fp16)),
            ("Row major linear INT32", Some(Number::Int32)),
            ("N/A due to dynamic shapes", None),
            // 10.x
            ("Half", Some(Number::Fp16)),
            ("Float", Some(Number::Fp32)),
            ("Int8", Some(Number::Int8)),
            ("Int8 NCHW", Some(Number::Int8)),
            ("Half(64,1:8,...)", Some(Number::Fp16)),
            ("BFloat16", Some(Number::Bf16)),
            // 11.x
            ("Row major linear FP32 format (kLINEAR)", Some(Number::Fp32)),
            // nothing, nonsense, both
            ("", None),
            ("blocked", None),
            ("Int8 or Half", None),
        ];
        for (text, number) in cases {
            assert_eq!(Number::of_format(text), number, "{text}");
        }
    }

    #[test]
    fn runs_of_types_are_read_whole_or_not_at_all() {
        use Number as N;
        let cases: [(&str, Option<&[Number]>); 8] = [
            ("i8i8", Some(&[N::Int8, N::Int8])),
            ("i8f32", Some(&[N::Int8, N::Fp32])),
            ("bf16bf16", Some(&[N::Bf16, N::Bf16])),
            ("tf32f32", Some(&[N::Tf32, N::Fp32])),
            ("e4m3f32", Some(&[N::Fp8, N::Fp32])),
            ("f16", Some(&[N::Fp16])),
            ("tn", None),
            ("", None),
        ];
        for (text, numbers) in cases {
            assert_eq!(Number::of_run(text).as_deref(), numbers, "{text}");
        }
    }
}
