//! The accuracy gate: what a candidate has to prove to replace the baseline.

use serde::{Deserialize, Serialize};

use crate::error::EvaluateError;
use crate::metric::Metric;
use crate::scored::Scored;

/// What a candidate has to prove. Every rule must hold, each at `confidence` by itself: a candidate that breaks one passes them all no more
/// often than it passes that one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// What must not drop; the first is the one that headlines name.
    pub rules: Vec<Rule>,
    /// How sure an acceptance must be, one-sided, from 0.5 up to (not including) 1.
    pub confidence: f64,
    /// What to do when the rows cannot tell.
    pub on_inconclusive: OnInconclusive,
    /// Whether a baseline that answers no better than chance is tolerated.
    #[serde(default)]
    pub allow_chance_baseline: bool,
}

impl Default for Gate {
    fn default() -> Self {
        Self::drop(Metric::Accuracy, Tolerance::Absolute(0.005))
    }
}

/// One thing to prove.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// A metric may not drop by more than so much against the baseline.
    MaxDrop {
        /// Which.
        metric: Metric,
        /// How much.
        tolerance: Tolerance,
        /// On which rows.
        scope: Scope,
        /// Instead of the gate's own.
        on_inconclusive: Option<OnInconclusive>,
    },
    /// A metric may not be below this, whatever the baseline has.
    MinValue {
        /// Which.
        metric: Metric,
        /// The least.
        min: f64,
    },
    /// At most this share of rows may get another answer, better or worse.
    MaxFlipRate(f64),
    /// The mean absolute difference of logits may not be above this.
    MaxLogitDivergence(f64),
    /// The engine itself must have run on a GPU.
    RequireDevice,
    /// At least this share of the arithmetic must run in INT8 on the device.
    RequireInt8Share(f64),
    /// The engine must be at least so many times as fast as the baseline on the device.
    MinSpeedup(f64),
}

/// How much a metric may drop.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tolerance {
    /// By this.
    Absolute(f64),
    /// By this share of the value that the baseline has on these rows.
    Relative(f64),
}

impl Tolerance {
    /// The largest drop for a baseline of this value.
    pub fn limit(self, baseline: f64) -> f64 {
        match self {
            Self::Absolute(drop) => drop,
            Self::Relative(share) => share * baseline.abs(),
        }
    }
}

/// Which rows or classes a rule is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// All rows together.
    Whole,
    /// Each class by itself: the F1 of each class or entity type, or the metric on answerable and on unanswerable questions.
    EachClass,
    /// The rows of each value of this data field by themselves.
    EachSlice(String),
}

/// Whether an inconclusive candidate is let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnInconclusive {
    /// Too little evidence is a refusal.
    #[default]
    Refuse,
    /// Too little evidence against it is enough.
    Accept,
}

/// What the rows say, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GateOutcome {
    /// The drop is within the limit, at the gate's confidence.
    Accepted,
    /// The measured drop is within the limit, but too few rows say so; or a figure that a rule needs is missing.
    Inconclusive,
    /// The measured drop is above the limit, or a logit is not finite.
    Rejected,
}

impl Rule {
    /// Its name in a profile.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::MaxDrop { tolerance: Tolerance::Absolute(_), .. } => "max_drop",
            Self::MaxDrop { tolerance: Tolerance::Relative(_), .. } => "max_relative_drop",
            Self::MinValue { .. } => "min_value",
            Self::MaxFlipRate(_) => "max_flip_rate",
            Self::MaxLogitDivergence(_) => "max_logit_divergence",
            Self::RequireDevice => "require_device",
            Self::RequireInt8Share(_) => "require_int8_share",
            Self::MinSpeedup(_) => "min_speedup",
        }
    }

    fn check(&self) -> Result<(), EvaluateError> {
        const SHARE: &str = "at least 0 and below 1 (a share, not percent)";
        let (value, fits, range) = match *self {
            Self::MaxDrop {
                tolerance: Tolerance::Absolute(value) | Tolerance::Relative(value),
                ..
            } => (value, (0.0..1.0).contains(&value), SHARE),
            Self::MinValue { min, .. } => (min, (-1.0..=1.0).contains(&min), "from -1 to 1"),
            Self::MaxFlipRate(value) | Self::RequireInt8Share(value) => {
                (value, (0.0..=1.0).contains(&value), "from 0 to 1 (a share, not percent)")
            }
            Self::MaxLogitDivergence(value) => {
                (value, value >= 0.0 && value.is_finite(), "at least 0")
            }
            Self::MinSpeedup(value) => (value, value > 0.0 && value.is_finite(), "above 0"),
            Self::RequireDevice => return Ok(()),
        };
        if fits {
            return Ok(());
        }
        Err(EvaluateError::Gate { field: self.name(), value, range })
    }
}

impl Gate {
    /// One metric that may not drop by more than `tolerance`, at 95 % confidence.
    pub fn drop(metric: Metric, tolerance: Tolerance) -> Self {
        let rule = Rule::MaxDrop { metric, tolerance, scope: Scope::Whole, on_inconclusive: None };
        Self {
            rules: vec![rule],
            confidence: 0.95,
            on_inconclusive: OnInconclusive::Refuse,
            allow_chance_baseline: false,
        }
    }

    /// The metric of the first rule about a drop on all rows.
    pub fn headline(&self) -> Option<Metric> {
        self.rules.iter().find_map(|rule| match rule {
            Rule::MaxDrop { metric, scope: Scope::Whole, .. } => Some(*metric),
            _ => None,
        })
    }

    /// Checks the numbers; a profile does so before any work.
    pub fn check(&self) -> Result<(), EvaluateError> {
        if !(0.5..1.0).contains(&self.confidence) {
            let (value, range) = (self.confidence, "at least 0.5 and below 1");
            return Err(EvaluateError::Gate { field: "confidence", value, range });
        }
        if self.headline().is_none() {
            return Err(EvaluateError::NoDropRule);
        }
        self.rules.iter().try_for_each(Rule::check)
    }

    /// Checks that every rule can be asked of rows of this kind.
    pub fn check_kind(&self, kind: &Scored) -> Result<(), EvaluateError> {
        let rows = kind.kind();
        let classless = matches!(kind, Scored::Similarities(_) | Scored::Cosines(_));
        for rule in &self.rules {
            match rule {
                Rule::MaxDrop { metric, scope, .. } => {
                    metric.check(kind)?;
                    if *scope == Scope::EachClass && classless {
                        return Err(EvaluateError::NoClasses { rows });
                    }
                }
                Rule::MinValue { metric, .. } => metric.check(kind)?,
                Rule::MaxFlipRate(_) if classless => return Err(EvaluateError::NoFlips { rows }),
                _ => {}
            }
        }
        Ok(())
    }
}
