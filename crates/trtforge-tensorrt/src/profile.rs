//! Optimization profiles: the shapes each dynamic input may take, checked against the model before any build.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use trtforge_onnx::{Dim, ValueInfo};

pub use crate::profile_error::{Corner, Place, ProfileError};

/// The shapes that one input may take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[Vec<i64>; 3]", into = "[Vec<i64>; 3]")]
pub struct ShapeRange {
    /// The smallest.
    pub min: Vec<i64>,
    /// The one to be fastest at.
    pub opt: Vec<i64>,
    /// The largest.
    pub max: Vec<i64>,
}

impl From<[Vec<i64>; 3]> for ShapeRange {
    fn from([min, opt, max]: [Vec<i64>; 3]) -> ShapeRange {
        ShapeRange { min, opt, max }
    }
}

impl From<ShapeRange> for [Vec<i64>; 3] {
    fn from(range: ShapeRange) -> [Vec<i64>; 3] {
        [range.min, range.opt, range.max]
    }
}

impl ShapeRange {
    fn corners(&self) -> [(Corner, &[i64]); 3] {
        [(Corner::Min, &self.min), (Corner::Opt, &self.opt), (Corner::Max, &self.max)]
    }
}

/// The shapes of all inputs together, for which TensorRT prepares one set of kernels.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OptimizationProfile {
    /// By input name. Every dynamic input must be there; a fixed one may be.
    pub inputs: BTreeMap<String, ShapeRange>,
}

impl OptimizationProfile {
    /// The same `[batch, sequence]` shapes for every input of a model whose inputs are all `[batch, sequence]`.
    pub fn uniform(inputs: &[ValueInfo], min: [i64; 2], opt: [i64; 2], max: [i64; 2]) -> Self {
        let range = ShapeRange { min: min.into(), opt: opt.into(), max: max.into() };
        let inputs = inputs.iter().map(|input| (input.name.clone(), range.clone())).collect();
        OptimizationProfile { inputs }
    }

    /// From three lists of `name:AxB,…`, as `trtexec` takes them. A name ends at the last colon.
    pub fn from_specs(min: &str, opt: &str, max: &str) -> Result<Self, ProfileError> {
        let (min, mut opt, mut max) = (parse_shapes(min)?, parse_shapes(opt)?, parse_shapes(max)?);
        let mut inputs = BTreeMap::new();
        let take = |from: &mut BTreeMap<String, Vec<i64>>, name: &str, corner| {
            from.remove(name)
                .ok_or_else(|| ProfileError::CornerMissing { input: name.to_owned(), corner })
        };
        for (name, min) in min {
            let opt = take(&mut opt, &name, Corner::Opt)?;
            let max = take(&mut max, &name, Corner::Max)?;
            inputs.insert(name, ShapeRange { min, opt, max });
        }
        match opt.into_keys().chain(max.into_keys()).next() {
            Some(input) => Err(ProfileError::CornerMissing { input, corner: Corner::Min }),
            None => Ok(OptimizationProfile { inputs }),
        }
    }
}

/// Reads `name:AxB,name:AxB`; a name may hold colons, the shape follows the last one.
pub fn parse_shapes(text: &str) -> Result<BTreeMap<String, Vec<i64>>, ProfileError> {
    let bad = |part: &str| ProfileError::Spec { text: part.to_owned() };
    let mut shapes = BTreeMap::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, shape) = part.rsplit_once(':').ok_or_else(|| bad(part))?;
        let shape: Result<Vec<i64>, _> = shape.split('x').map(str::parse).collect();
        let shape = shape.map_err(|_| bad(part))?;
        if name.is_empty() || shapes.insert(name.to_owned(), shape).is_some() {
            return Err(bad(part));
        }
    }
    Ok(shapes)
}

/// Checks every profile against the model's inputs: nothing missing, nothing unknown, every number possible.
///
/// `positions` is how many positions the model's position embedding has, where that is known: a longer sequence
/// would build and then fail, or read past the table, when it runs.
pub fn validate(
    profiles: &[OptimizationProfile],
    inputs: &[ValueInfo],
    positions: Option<i64>,
) -> Result<(), ProfileError> {
    let dynamic: Vec<&ValueInfo> = inputs.iter().filter(|input| is_dynamic(input)).collect();
    if profiles.is_empty() && !dynamic.is_empty() {
        let inputs = dynamic.iter().map(|input| input.name.clone()).collect();
        return Err(ProfileError::None { inputs });
    }
    for (index, profile) in profiles.iter().enumerate() {
        let number = index + 1;
        let known = || inputs.iter().map(|input| input.name.clone()).collect();
        if let Some(name) = profile.inputs.keys().find(|n| inputs.iter().all(|i| i.name != **n)) {
            return Err(ProfileError::Unknown {
                profile: number,
                input: name.clone(),
                known: known(),
            });
        }
        if let Some(input) = dynamic.iter().find(|i| !profile.inputs.contains_key(&i.name)) {
            return Err(ProfileError::Missing { profile: number, input: input.name.clone() });
        }
        for input in inputs {
            if let Some(range) = profile.inputs.get(&input.name) {
                check_range(number, input, range, positions)?;
            }
        }
        check_agreement(number, profile, inputs)?;
    }
    Ok(())
}

fn is_dynamic(input: &ValueInfo) -> bool {
    input.shape.as_ref().is_none_or(|dims| dims.iter().any(|dim| dim.fixed().is_none()))
}

fn check_range(
    profile: usize,
    input: &ValueInfo,
    range: &ShapeRange,
    positions: Option<i64>,
) -> Result<(), ProfileError> {
    for (corner, shape) in range.corners() {
        let place = |axis| Place { profile, input: input.name.clone(), corner, axis };
        let rank = input.shape.as_ref().map_or(range.min.len(), Vec::len);
        if shape.len() != rank {
            let given = shape.to_vec();
            return Err(ProfileError::WrongRank {
                profile,
                input: input.name.clone(),
                corner,
                given,
                rank,
            });
        }
        for (axis, &value) in shape.iter().enumerate() {
            check_size(&place(axis), input, value)?;
        }
        if let (Some(positions), [_, sequence]) = (positions, shape)
            && *sequence > positions
        {
            return Err(ProfileError::PastPositions {
                place: place(1),
                value: *sequence,
                positions,
            });
        }
    }
    let ordered = [
        ((Corner::Min, &range.min), (Corner::Opt, &range.opt)),
        ((Corner::Opt, &range.opt), (Corner::Max, &range.max)),
    ];
    for ((corner, lower), (above, upper)) in ordered {
        if let Some(axis) = (0..lower.len()).find(|&axis| lower[axis] > upper[axis]) {
            let place = Place { profile, input: input.name.clone(), corner, axis };
            return Err(ProfileError::OutOfOrder {
                place,
                value: lower[axis],
                above,
                limit: upper[axis],
            });
        }
    }
    Ok(())
}

fn check_size(place: &Place, input: &ValueInfo, value: i64) -> Result<(), ProfileError> {
    if value < 1 {
        return Err(ProfileError::NotPositive { place: place.clone(), value });
    }
    if value > i64::from(i32::MAX) {
        return Err(ProfileError::TooLarge { place: place.clone(), value });
    }
    let fixed = input.shape.as_ref().and_then(|dims| dims.get(place.axis)).and_then(Dim::fixed);
    match fixed {
        Some(fixed) if fixed != value => {
            Err(ProfileError::Fixed { place: place.clone(), value, fixed })
        }
        _ => Ok(()),
    }
}

/// Dimensions that the model gives one name must have one size in each corner.
fn check_agreement(
    profile: usize,
    shapes: &OptimizationProfile,
    inputs: &[ValueInfo],
) -> Result<(), ProfileError> {
    let mut seen: BTreeMap<(&str, Corner), (&str, i64)> = BTreeMap::new();
    for input in inputs {
        let (Some(dims), Some(range)) = (&input.shape, shapes.inputs.get(&input.name)) else {
            continue;
        };
        for (axis, dim) in dims.iter().enumerate() {
            let Dim::Named(name) = dim else { continue };
            for (corner, shape) in range.corners() {
                let value = shape[axis];
                let (other, expected) = *seen.entry((name, corner)).or_insert((&input.name, value));
                if value != expected {
                    let place = Place { profile, input: input.name.clone(), corner, axis };
                    let (dim, other) = (name.clone(), other.to_owned());
                    return Err(ProfileError::Disagree { place, value, dim, other, expected });
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
