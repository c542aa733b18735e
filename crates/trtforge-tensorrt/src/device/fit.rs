//! Which optimization profile serves a shape.

use trtforge_exec::Port;

use crate::error::TensorRtError;
use crate::profile::{OptimizationProfile, ShapeRange};

/// Chooses, among the profiles that take the shapes, the one whose largest shapes hold the fewest elements: it was tuned
/// closest to them. Of equal ones the first.
///
/// - `shapes`: of every input, in their order;
/// - returns: the profile's index.
pub(super) fn choose(
    profiles: &[OptimizationProfile],
    inputs: &[Port],
    shapes: &[Vec<i64>],
) -> Result<usize, TensorRtError> {
    let misfits: Vec<Option<String>> =
        profiles.iter().map(|profile| misfit(profile, inputs, shapes)).collect();
    let fitting = (0..profiles.len()).filter(|&index| misfits[index].is_none());
    if let Some(best) = fitting.min_by_key(|&index| (work(&profiles[index]), index)) {
        return Ok(best);
    }
    // A plan whose inputs are all fixed has one profile without ranges, so there is always one to tell of.
    let numbered = misfits.into_iter().flatten().enumerate();
    let misfits = numbered.map(|(index, why)| format!("profile {}: {why}", index + 1)).collect();
    let given = inputs.iter().zip(shapes).map(|(port, shape)| format!("`{}` {shape:?}", port.name));
    Err(TensorRtError::NoProfileFits { given: given.collect::<Vec<_>>().join(", "), misfits })
}

/// Elements of all inputs at the profile's largest shapes.
fn work(profile: &OptimizationProfile) -> i128 {
    let elements =
        |range: &ShapeRange| range.max.iter().map(|&dim| i128::from(dim)).product::<i128>();
    profile.inputs.values().map(elements).sum()
}

/// The first dimension that a profile does not take.
fn misfit(profile: &OptimizationProfile, inputs: &[Port], shapes: &[Vec<i64>]) -> Option<String> {
    inputs.iter().zip(shapes).find_map(|(port, shape)| {
        let range = profile.inputs.get(&port.name)?;
        if range.min.len() != shape.len() {
            return Some(format!("`{}` has {} dimensions", port.name, range.min.len()));
        }
        let bounds = range.min.iter().zip(&range.max);
        let wrong = |&(&size, (&min, &max)): &(&i64, (&i64, &i64))| size < min || size > max;
        let (axis, (size, (min, max))) =
            shape.iter().zip(bounds).enumerate().find(|(_, pair)| wrong(pair))?;
        Some(format!(
            "dimension {} of `{}` is {size}, it takes {min} to {max} ({:?} to {:?})",
            axis + 1,
            port.name,
            range.min,
            range.max
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trtforge_onnx::ElementType;

    fn ports(names: &[&str]) -> Vec<Port> {
        let port = |name: &&str| Port {
            name: (*name).to_owned(),
            element_type: ElementType::I64,
            shape: None,
        };
        names.iter().map(port).collect()
    }

    fn profile(min: [i64; 2], max: [i64; 2]) -> OptimizationProfile {
        let range = ShapeRange { min: min.to_vec(), opt: max.to_vec(), max: max.to_vec() };
        let inputs = [("ids".to_owned(), range.clone()), ("mask".to_owned(), range)];
        OptimizationProfile { inputs: inputs.into() }
    }

    #[test]
    fn the_smallest_that_fits_is_chosen() {
        let profiles = [
            profile([1, 1], [64, 256]),
            profile([1, 1], [8, 128]),
            profile([1, 129], [32, 256]),
            profile([1, 1], [8, 128]),
        ];
        // 8·128 = 1 024, 32·256 = 8 192, 64·256 = 16 384 elements for each input.
        let cases = [([8, 128], 1), ([1, 1], 1), ([9, 128], 0), ([8, 129], 2), ([64, 256], 0)];
        for (shape, expected) in cases {
            let shapes = [shape.to_vec(), shape.to_vec()];
            let chosen = choose(&profiles, &ports(&["ids", "mask"]), &shapes).unwrap();
            assert_eq!(chosen, expected, "{shape:?}");
        }
    }

    #[test]
    fn a_misfit_names_profile_input_dimension_and_range() {
        let profiles = [profile([1, 16], [8, 128]), profile([4, 1], [32, 64])];
        let shapes = [vec![2, 300], vec![2, 300]];
        let error = choose(&profiles, &ports(&["ids", "mask"]), &shapes).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no optimization profile of the engine takes `ids` [2, 300], `mask` [2, 300]"
        );
        let TensorRtError::NoProfileFits { misfits, .. } = error else { panic!("{error}") };
        assert_eq!(
            misfits,
            [
                "profile 1: dimension 2 of `ids` is 300, it takes 16 to 128 ([1, 16] to [8, 128])",
                "profile 2: dimension 1 of `ids` is 2, it takes 4 to 32 ([4, 1] to [32, 64])",
            ]
        );
    }

    #[test]
    fn an_input_without_a_range_takes_what_the_ports_allow() {
        let chosen = choose(&[profile([1, 1], [8, 8])], &ports(&["other"]), &[vec![100]]);
        assert_eq!(chosen.unwrap(), 0);
    }
}
