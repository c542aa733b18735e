//! The types numbers have in an engine, and the many words for them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A type of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "they are their own names")]
pub enum NumberType {
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
const WORDS: [(&str, NumberType); 38] = [
    ("int4", NumberType::Int4),
    ("i4", NumberType::Int4),
    ("s4", NumberType::Int4),
    ("u4", NumberType::Int4),
    ("int8", NumberType::Int8),
    ("i8", NumberType::Int8),
    ("s8", NumberType::Int8),
    ("fp4", NumberType::Fp4),
    ("fp4e2m1", NumberType::Fp4),
    ("e2m1", NumberType::Fp4),
    ("fp8", NumberType::Fp8),
    ("fp8e4m3", NumberType::Fp8),
    ("fp8e5m2", NumberType::Fp8),
    ("e4m3", NumberType::Fp8),
    ("e5m2", NumberType::Fp8),
    ("half", NumberType::Fp16),
    ("fp16", NumberType::Fp16),
    ("float16", NumberType::Fp16),
    ("f16", NumberType::Fp16),
    ("bfloat16", NumberType::Bf16),
    ("bf16", NumberType::Bf16),
    ("tf32", NumberType::Tf32),
    ("float", NumberType::Fp32),
    ("fp32", NumberType::Fp32),
    ("float32", NumberType::Fp32),
    ("f32", NumberType::Fp32),
    ("double", NumberType::Fp64),
    ("fp64", NumberType::Fp64),
    ("f64", NumberType::Fp64),
    ("uint8", NumberType::Uint8),
    ("u8", NumberType::Uint8),
    ("int32", NumberType::Int32),
    ("i32", NumberType::Int32),
    ("s32", NumberType::Int32),
    ("int64", NumberType::Int64),
    ("i64", NumberType::Int64),
    ("bool", NumberType::Bool),
    ("boolean", NumberType::Bool),
];

impl NumberType {
    /// The type a single word names.
    pub(crate) fn of_word(word: &str) -> Option<NumberType> {
        WORDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)).map(|(_, number)| *number)
    }

    /// The type in a description of a format: `Half`, `Row major linear FP16 format`, `Int8 NCHW`, `Half(64,1:8)`.
    ///
    /// None where it names no type (`N/A due to dynamic shapes`) or two different ones.
    pub(crate) fn of_format(text: &str) -> Option<NumberType> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric());
        let mut found = words.filter_map(NumberType::of_word);
        let first = found.next()?;
        found.all(|other| other == first).then_some(first)
    }

    /// The types of a run of them without separators, as in kernel names: `i8f32` is INT8 and FP32.
    pub(crate) fn of_run(text: &str) -> Option<Vec<NumberType>> {
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
        use NumberType as N;
        matches!(self, N::Fp4 | N::Fp8 | N::Fp16 | N::Bf16 | N::Tf32 | N::Fp32 | N::Fp64)
    }

    /// Whether products are computed in it; the rest are indices, sizes and masks.
    pub(crate) fn is_operand(self) -> bool {
        self.is_float() || matches!(self, NumberType::Int4 | NumberType::Int8)
    }

    /// As written in prose.
    pub fn name(self) -> &'static str {
        match self {
            NumberType::Int4 => "INT4",
            NumberType::Int8 => "INT8",
            NumberType::Fp4 => "FP4",
            NumberType::Fp8 => "FP8",
            NumberType::Fp16 => "FP16",
            NumberType::Bf16 => "BF16",
            NumberType::Tf32 => "TF32",
            NumberType::Fp32 => "FP32",
            NumberType::Fp64 => "FP64",
            NumberType::Uint8 => "UINT8",
            NumberType::Int32 => "INT32",
            NumberType::Int64 => "INT64",
            NumberType::Bool => "BOOL",
        }
    }
}

impl fmt::Display for NumberType {
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
            ("Row major linear FP16 format", Some(NumberType::Fp16)),
            ("Thirty-two wide channel vectorized row major Int8 format.", Some(NumberType::Int8)),
            ("Channel major FP16 format where channel % 4 == 0", Some(NumberType::Fp16)),
            ("Row major linear INT32", Some(NumberType::Int32)),
            ("N/A due to dynamic shapes", None),
            // 10.x
            ("Half", Some(NumberType::Fp16)),
            ("Float", Some(NumberType::Fp32)),
            ("Int8", Some(NumberType::Int8)),
            ("Int8 NCHW", Some(NumberType::Int8)),
            ("Half(64,1:8,...)", Some(NumberType::Fp16)),
            ("BFloat16", Some(NumberType::Bf16)),
            // 11.x
            ("Row major linear FP32 format (kLINEAR)", Some(NumberType::Fp32)),
            // nothing, nonsense, both
            ("", None),
            ("blocked", None),
            ("Int8 or Half", None),
        ];
        for (text, number) in cases {
            assert_eq!(NumberType::of_format(text), number, "{text}");
        }
    }

    #[test]
    fn runs_of_types_are_read_whole_or_not_at_all() {
        use NumberType as N;
        let cases: [(&str, Option<&[NumberType]>); 8] = [
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
            assert_eq!(NumberType::of_run(text).as_deref(), numbers, "{text}");
        }
    }
}
