//! From token ids to the inputs that a model declares.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use miette::Diagnostic;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::encode::Encoded;
use crate::error::nearest;

/// What a model input is fed with; the names are those of a profile's `model.inputs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputRole {
    /// Token ids, filled up with the padding token's id.
    InputIds,
    /// 1 for a token, 0 for padding.
    AttentionMask,
    /// 0 for the first text (and padding), 1 for the second.
    TokenTypeIds,
    /// 0, 1, 2 … in every row.
    PositionIds,
}

impl InputRole {
    /// Every role.
    pub const ALL: [Self; 4] =
        [Self::InputIds, Self::AttentionMask, Self::TokenTypeIds, Self::PositionIds];

    /// The role's name, which is also the usual name of the input.
    pub fn name(self) -> &'static str {
        match self {
            Self::InputIds => "input_ids",
            Self::AttentionMask => "attention_mask",
            Self::TokenTypeIds => "token_type_ids",
            Self::PositionIds => "position_ids",
        }
    }

    /// Names that exporters give to the role's input.
    fn aliases(self) -> &'static [&'static str] {
        match self {
            Self::InputIds => &["input_ids", "ids", "input_word_ids", "input_tokens", "token_ids"],
            Self::AttentionMask => &["attention_mask", "input_mask", "mask", "attn_mask"],
            Self::TokenTypeIds => {
                &["token_type_ids", "segment_ids", "input_type_ids", "token_types", "type_ids"]
            }
            Self::PositionIds => &["position_ids", "positions", "pos_ids"],
        }
    }

    /// The role that an input's name tells, if it tells one: `bert/Input_IDs:0` is `input_ids`.
    pub fn of_input(name: &str) -> Option<Self> {
        let name = name.to_lowercase();
        let name = name.split(':').next().unwrap_or_default();
        let name = name.rsplit(['/', '.']).next().unwrap_or_default();
        let name = name.strip_prefix("serving_default_").unwrap_or(name);
        Self::ALL.into_iter().find(|role| role.aliases().contains(&name))
    }
}

impl fmt::Display for InputRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for InputRole {
    type Err = FeedError;

    fn from_str(name: &str) -> Result<Self, FeedError> {
        let found = Self::ALL.into_iter().find(|role| role.name() == name);
        found.ok_or_else(|| FeedError::UnknownRole { role: name.to_owned() })
    }
}

/// The element type of a model input, as far as feeding cares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ElementKind {
    /// 32-bit integers.
    Int32,
    /// 64-bit integers.
    Int64,
    /// 32-bit floats: good for a mask only.
    Float32,
    /// Anything else, by name.
    Other(String),
}

impl fmt::Display for ElementKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int32 => f.write_str("int32"),
            Self::Int64 => f.write_str("int64"),
            Self::Float32 => f.write_str("float32"),
            Self::Other(name) => f.write_str(name),
        }
    }
}

/// Why a model's inputs cannot be fed.
#[derive(Debug, Clone, PartialEq, Eq, Diagnostic, Error)]
pub enum FeedError {
    /// An input whose name tells nothing.
    #[error(
        "the model needs the input `{input}`, and its name does not tell what to feed; known: {}",
        roles()
    )]
    #[diagnostic(
        code(data::unknown_input),
        help(
            "map it in the profile: `model: {{ inputs: {{ \"{input}\": ROLE }} }}`, where ROLE is one of {}",
            roles()
        )
    )]
    UnknownInput {
        /// The input.
        input: String,
    },
    /// No input takes the token ids.
    #[error("none of the model's inputs takes token ids; it has {}", inputs.join(", "))]
    #[diagnostic(
        code(data::no_input_ids),
        help("map one in the profile: `model: {{ inputs: {{ NAME: input_ids }} }}`")
    )]
    NoInputIds {
        /// The inputs that are there.
        inputs: Vec<String>,
    },
    /// Two inputs with one role.
    #[error("the inputs `{first}` and `{second}` would both be fed as {role}")]
    #[diagnostic(
        code(data::repeated_role),
        help(
            "say which is which in the profile's `model.inputs`; models with two texts in separate inputs are not supported"
        )
    )]
    RepeatedRole {
        /// The role.
        role: InputRole,
        /// The input that has it.
        first: String,
        /// The input that would have it too.
        second: String,
    },
    /// An input of a type that cannot hold ids.
    #[error("the input `{input}` ({role}) is {kind}; token data needs int32 or int64")]
    #[diagnostic(code(data::input_type), help("export the model with integer inputs"))]
    InputType {
        /// The input.
        input: String,
        /// Its role.
        role: InputRole,
        /// Its element type.
        kind: ElementKind,
    },
    /// The profile maps an input that the model does not have.
    #[error("`model.inputs` maps `{input}`, which is no input of the model; it has {}", inputs.join(", "))]
    #[diagnostic(code(data::unmatched_input), help("{}", nearest(input, inputs).map_or_else(|| "remove the line".to_owned(), |name| format!("did you mean `{name}`?"))))]
    UnmatchedInput {
        /// The name in the profile.
        input: String,
        /// The inputs that are there.
        inputs: Vec<String>,
    },
    /// A role that does not exist.
    #[error("unknown input role `{role}`")]
    #[diagnostic(code(data::unknown_role), help("known: {}", roles()))]
    UnknownRole {
        /// As written.
        role: String,
    },
}

fn roles() -> String {
    InputRole::ALL.map(InputRole::name).join(", ")
}

/// One input of the model and what it is fed with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedInput {
    /// The input's name in the graph.
    pub name: String,
    /// What goes in.
    pub role: InputRole,
    /// The type that the graph declares.
    pub kind: ElementKind,
}

/// How to fill a model's inputs from encoded rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedPlan {
    inputs: Vec<FeedInput>,
    pad_id: u32,
}

impl FeedPlan {
    /// Gives every input of a model its role.
    ///
    /// - `inputs`: name and element type of the model's real inputs, in graph order;
    /// - `overrides`: roles from the profile's `model.inputs`, by input name; they win over what a name tells;
    /// - `pad_id`: the padding token, from [`crate::TextEncoder::pad_id`].
    pub fn new(
        inputs: &[(String, ElementKind)],
        overrides: &BTreeMap<String, InputRole>,
        pad_id: u32,
    ) -> Result<Self, FeedError> {
        let names = || inputs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        if let Some(input) = overrides.keys().find(|name| !names().contains(name)) {
            return Err(FeedError::UnmatchedInput { input: input.clone(), inputs: names() });
        }
        let mut planned: Vec<FeedInput> = Vec::with_capacity(inputs.len());
        for (name, kind) in inputs {
            let role = overrides.get(name).copied().or_else(|| InputRole::of_input(name));
            let role = role.ok_or_else(|| FeedError::UnknownInput { input: name.clone() })?;
            if let Some(first) = planned.iter().find(|input| input.role == role) {
                let (first, second) = (first.name.clone(), name.clone());
                return Err(FeedError::RepeatedRole { role, first, second });
            }
            let fits = match kind {
                ElementKind::Int32 | ElementKind::Int64 => true,
                ElementKind::Float32 => role == InputRole::AttentionMask,
                ElementKind::Other(_) => false,
            };
            let input = FeedInput { name: name.clone(), role, kind: kind.clone() };
            if !fits {
                return Err(FeedError::InputType { input: input.name, role, kind: input.kind });
            }
            planned.push(input);
        }
        if planned.iter().all(|input| input.role != InputRole::InputIds) {
            return Err(FeedError::NoInputIds { inputs: names() });
        }
        Ok(Self { inputs: planned, pad_id })
    }

    /// The inputs in graph order.
    pub fn inputs(&self) -> &[FeedInput] {
        &self.inputs
    }

    /// Fills the inputs for one batch.
    ///
    /// - `length`: tokens to pad to; raised to the longest row, since feeding never cuts.
    /// - returns: name, values and shape `[rows, length]` of every input, in graph order. Values are `i64` whatever the graph
    ///   declares: [`FeedInput::kind`] says what to narrow them to.
    pub fn bind(&self, rows: &[&Encoded], length: usize) -> Vec<(String, Vec<i64>, [usize; 2])> {
        let length = rows.iter().map(|row| row.ids.len()).fold(length, usize::max);
        let bind = |input: &FeedInput| {
            let mut values = Vec::with_capacity(rows.len() * length);
            for row in rows {
                self.fill(input.role, row, length, &mut values);
            }
            (input.name.clone(), values, [rows.len(), length])
        };
        self.inputs.iter().map(bind).collect()
    }

    fn fill(&self, role: InputRole, row: &Encoded, length: usize, values: &mut Vec<i64>) {
        let end = values.len() + length;
        match role {
            InputRole::InputIds => {
                values.extend(row.ids.iter().map(|&id| i64::from(id)));
                values.resize(end, i64::from(self.pad_id));
            }
            InputRole::AttentionMask => {
                values.resize(end - length + row.ids.len(), 1);
                values.resize(end, 0);
            }
            InputRole::TokenTypeIds => {
                values.extend(row.type_ids.iter().map(|&id| i64::from(id)));
                values.resize(end, 0);
            }
            InputRole::PositionIds => values.extend((0..).take(length)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(names: &[&str]) -> Vec<(String, ElementKind)> {
        names.iter().map(|&name| (name.to_owned(), ElementKind::Int64)).collect()
    }

    fn plan(names: &[&str]) -> Result<FeedPlan, FeedError> {
        FeedPlan::new(&inputs(names), &BTreeMap::new(), 9)
    }

    #[test]
    fn batches_are_filled_by_role() {
        let plan =
            plan(&["input_ids", "attention_mask", "token_type_ids", "position_ids"]).unwrap();
        let short = Encoded { ids: vec![2, 7, 3], type_ids: vec![0, 0, 0], truncated: false };
        let pair = Encoded { ids: vec![2, 3, 8, 3], type_ids: vec![0, 0, 1, 1], truncated: false };
        let bound = plan.bind(&[&short, &pair], 5);
        let values = |index: usize| bound[index].1.as_slice();
        assert_eq!(values(0), [2, 7, 3, 9, 9, 2, 3, 8, 3, 9]);
        assert_eq!(values(1), [1, 1, 1, 0, 0, 1, 1, 1, 1, 0]);
        assert_eq!(values(2), [0, 0, 0, 0, 0, 0, 0, 1, 1, 0]);
        assert_eq!(values(3), [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
        assert!(bound.iter().all(|(_, _, shape)| *shape == [2, 5]));
        assert_eq!(plan.bind(&[&pair], 1)[0].2, [1, 4], "a row is never cut");
    }

    #[test]
    fn exporters_names_are_known() {
        let cases = [
            ("input_ids", InputRole::InputIds),
            ("ids", InputRole::InputIds),
            ("input_ids:0", InputRole::InputIds),
            ("bert/Input_IDs:0", InputRole::InputIds),
            ("serving_default_input_word_ids:0", InputRole::InputIds),
            ("input_mask", InputRole::AttentionMask),
            ("attention_mask:0", InputRole::AttentionMask),
            ("segment_ids", InputRole::TokenTypeIds),
            ("input_type_ids", InputRole::TokenTypeIds),
            ("position_ids", InputRole::PositionIds),
        ];
        for (name, role) in cases {
            assert_eq!(InputRole::of_input(name), Some(role), "{name}");
        }
        assert_eq!(InputRole::of_input("unique_ids_raw_output___9:0"), None);
        assert_eq!(InputRole::of_input(""), None);
    }

    #[test]
    fn unknown_inputs_are_named_with_the_remedy() {
        let error = plan(&["input_ids", "head_mask"]).unwrap_err();
        assert!(error.to_string().contains("`head_mask`"), "{error}");
        let help = error.help().unwrap().to_string();
        assert!(
            help.contains("inputs: { \"head_mask\": ROLE }") && help.contains("token_type_ids"),
            "{help}"
        );
    }

    #[test]
    fn overrides_win_and_must_match() {
        let role = |name: &str, role| BTreeMap::from([(name.to_owned(), role)]);
        let given = inputs(&["x", "mask"]);
        let plan = FeedPlan::new(&given, &role("x", InputRole::InputIds), 0).unwrap();
        assert_eq!(plan.inputs()[0].role, InputRole::InputIds);
        let error = FeedPlan::new(&given, &role("maks", InputRole::AttentionMask), 0).unwrap_err();
        assert!(error.to_string().contains("`maks`"), "{error}");
        assert_eq!(error.help().unwrap().to_string(), "did you mean `mask`?");
        assert!(matches!(plan_of_roles(), Err(FeedError::UnknownRole { .. })));
    }

    fn plan_of_roles() -> Result<InputRole, FeedError> {
        "input-ids".parse()
    }

    #[test]
    fn unusable_sets_of_inputs_are_refused() {
        assert!(matches!(plan(&["attention_mask"]), Err(FeedError::NoInputIds { .. })));
        assert!(matches!(plan(&[]), Err(FeedError::NoInputIds { .. })));
        assert!(matches!(plan(&["input_ids", "ids"]), Err(FeedError::RepeatedRole { .. })));
        let kinds = |ids, mask| {
            let inputs = [("input_ids".to_owned(), ids), ("attention_mask".to_owned(), mask)];
            FeedPlan::new(&inputs, &BTreeMap::new(), 0)
        };
        assert!(kinds(ElementKind::Int32, ElementKind::Float32).is_ok());
        assert!(matches!(
            kinds(ElementKind::Float32, ElementKind::Int64),
            Err(FeedError::InputType { .. })
        ));
        let error = kinds(ElementKind::Int64, ElementKind::Other("bool".into())).unwrap_err();
        assert!(
            error.to_string().contains("attention_mask") && error.to_string().contains("bool"),
            "{error}"
        );
    }
}
