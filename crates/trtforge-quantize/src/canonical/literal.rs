//! A constant while it is folded, and the operators that only move its elements.

use bytes::Bytes;
use rayon::prelude::*;
use trtforge_onnx::{ElementType, Tensor};

/// Elements below which a copy is not worth a second thread.
const PARALLEL_FROM: usize = 1 << 16;

/// Why a node on constants is not computed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The operator, its types or its values are not among those known here.
    Unknown,
    /// The result would have this many bytes.
    TooLarge(u64),
}

pub(super) type Folding<T = Literal> = Result<T, Refusal>;

/// Shape, type and raw little-endian values. Cheap to clone; values that lie in the model's file stay there.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Literal {
    pub element_type: ElementType,
    pub dims: Vec<i64>,
    pub bytes: Bytes,
}

impl Literal {
    /// `None` for strings, types narrower than a byte, and data that does not fit its shape.
    pub fn of(tensor: &Tensor) -> Option<Self> {
        let bits = tensor.element_type.bits().filter(|bits| bits % 8 == 0)?;
        let raw = tensor.proto().and_then(|proto| proto.raw_data.clone());
        let bytes = raw.unwrap_or_else(|| Bytes::from(tensor.bytes().into_owned()));
        let expected = size(&tensor.dims)?.checked_mul(bits / 8)?;
        let (element_type, dims) = (tensor.element_type, tensor.dims.clone());
        (bytes.len() as u64 == expected).then_some(Self { element_type, dims, bytes })
    }

    /// A vector of int64, or a scalar where `dims` is empty.
    pub fn ints(values: &[i64], dims: Vec<i64>) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Self { element_type: ElementType::I64, dims, bytes: bytes.into() }
    }

    /// Bytes of one element.
    pub fn width(&self) -> usize {
        (self.element_type.bits().unwrap_or(8) / 8) as usize
    }

    pub fn len(&self) -> usize {
        self.bytes.len() / self.width()
    }

    /// The same elements in another shape.
    pub fn reshaped(&self, dims: Vec<i64>) -> Folding {
        let fits = size(&dims).is_some_and(|count| count == self.len() as u64);
        if fits { Ok(Self { dims, ..self.clone() }) } else { Err(Refusal::Unknown) }
    }

    /// Steps between neighbours along each axis, in elements.
    fn steps(&self) -> Vec<i64> {
        let mut steps = vec![1; self.dims.len()];
        for axis in (1..self.dims.len()).rev() {
            steps[axis - 1] = steps[axis] * self.dims[axis];
        }
        steps
    }

    /// The element of each place of `dims`, found `steps` apart from `start` on.
    fn picked(&self, dims: Vec<i64>, steps: &[i64], start: i64, limit: u64) -> Folding {
        let count = within(&dims, self.width(), limit)?;
        let bytes = match self.width() {
            1 => pick::<1>(&self.bytes, &dims, steps, start, count),
            2 => pick::<2>(&self.bytes, &dims, steps, start, count),
            4 => pick::<4>(&self.bytes, &dims, steps, start, count),
            8 => pick::<8>(&self.bytes, &dims, steps, start, count),
            _ => return Err(Refusal::Unknown),
        };
        Ok(Self { element_type: self.element_type, dims, bytes: bytes.into() })
    }

    /// - `order`: the source axis of each result axis; reversed when absent.
    pub fn transposed(&self, order: Option<&[i64]>, limit: u64) -> Folding {
        let rank = self.dims.len();
        let reversed: Vec<i64> = (0..rank as i64).rev().collect();
        let order: Vec<usize> =
            order.unwrap_or(&reversed).iter().filter_map(|&a| usize::try_from(a).ok()).collect();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        if sorted.iter().copied().ne(0..rank) {
            return Err(Refusal::Unknown);
        }
        let steps = self.steps();
        let dims = order.iter().map(|&axis| self.dims[axis]).collect();
        let steps: Vec<i64> = order.iter().map(|&axis| steps[axis]).collect();
        self.picked(dims, &steps, 0, limit)
    }

    /// Broadcast to `shape`, in both directions as `Expand` does.
    pub fn expanded(&self, shape: &[i64], limit: u64) -> Folding {
        let dims = broadcast(&self.dims, shape)?;
        let added = dims.len() - self.dims.len();
        let own = self.steps();
        let step = |axis: usize| match axis.checked_sub(added) {
            Some(source) if self.dims[source] != 1 => own[source],
            _ => 0,
        };
        let steps: Vec<i64> = (0..dims.len()).map(step).collect();
        self.picked(dims, &steps, 0, limit)
    }

    pub fn tiled(&self, repeats: &[i64], limit: u64) -> Folding {
        if repeats.len() != self.dims.len() || repeats.iter().any(|&r| r < 0) {
            return Err(Refusal::Unknown);
        }
        // One more axis before each, of step 0; read row by row, this is the tiled tensor.
        let own = self.steps();
        let axes = 0..self.dims.len();
        let dims: Vec<i64> = axes.clone().flat_map(|a| [repeats[a], self.dims[a]]).collect();
        let steps: Vec<i64> = axes.clone().flat_map(|a| [0, own[a]]).collect();
        let merged = axes.map(|a| repeats[a].checked_mul(self.dims[a]).ok_or(Refusal::Unknown));
        let merged: Vec<i64> = merged.collect::<Folding<_>>()?;
        self.picked(dims, &steps, 0, limit)?.reshaped(merged)
    }

    /// - `ranges`: for each axis its first index, number of elements and step.
    pub fn sliced(&self, ranges: &[(i64, i64, i64)], limit: u64) -> Folding {
        let own = self.steps();
        let start = ranges.iter().zip(&own).map(|(range, step)| range.0 * step).sum();
        let steps: Vec<i64> = ranges.iter().zip(&own).map(|(range, step)| range.2 * step).collect();
        self.picked(ranges.iter().map(|range| range.1).collect(), &steps, start, limit)
    }

    /// The elements of one axis at `indices`, whose shape takes the place of the axis.
    pub fn gathered(&self, indices: &Self, axis: usize, limit: u64) -> Folding {
        let length = self.dims[axis];
        let at: Vec<i64> = indices.integers()?;
        let places: Vec<usize> = at
            .iter()
            .map(|&i| usize::try_from(if i < 0 { i + length } else { i }).ok())
            .map(|i| i.filter(|&i| (i as i64) < length).ok_or(Refusal::Unknown))
            .collect::<Folding<_>>()?;
        let (before, after) = (&self.dims[..axis], &self.dims[axis + 1..]);
        let dims = [before, &indices.dims, after].concat();
        within(&dims, self.width(), limit)?;
        let block = bytes_of(after, self.width())?;
        let row = block * length as usize;
        let mut bytes = Vec::new();
        for outer in 0..bytes_of(before, 1)? {
            for place in &places {
                bytes.extend_from_slice(&self.bytes[outer * row + place * block..][..block]);
            }
        }
        Ok(Self { element_type: self.element_type, dims, bytes: bytes.into() })
    }

    pub fn concatenated(parts: &[Self], axis: usize, limit: u64) -> Folding {
        let first = parts.first().ok_or(Refusal::Unknown)?;
        let mut dims = first.dims.clone();
        let alike = |part: &&Self| {
            part.element_type == first.element_type
                && part.dims.len() == dims.len()
                && part.dims.iter().zip(&dims).enumerate().all(|(a, (x, y))| a == axis || x == y)
        };
        if axis >= dims.len() || !parts.iter().all(|part| alike(&part)) {
            return Err(Refusal::Unknown);
        }
        dims[axis] = parts.iter().map(|part| part.dims[axis]).sum();
        within(&dims, first.width(), limit)?;
        let mut bytes = Vec::new();
        for outer in 0..bytes_of(&dims[..axis], 1)? {
            for part in parts {
                let row = bytes_of(&part.dims[axis..], part.width())?;
                bytes.extend_from_slice(&part.bytes[outer * row..][..row]);
            }
        }
        Ok(Self { element_type: first.element_type, dims, bytes: bytes.into() })
    }

    /// `dims` filled with this one element.
    pub fn filled(&self, dims: Vec<i64>, limit: u64) -> Folding {
        if self.len() != 1 {
            return Err(Refusal::Unknown);
        }
        let steps = vec![0; dims.len()];
        self.picked(dims, &steps, 0, limit)
    }

    /// The values of an integer (or bool) literal.
    pub fn integers(&self) -> Folding<Vec<i64>> {
        use ElementType::{Bool, I8, I32, I64, U8};
        Ok(match self.element_type {
            I64 => numbers(&self.bytes, i64::from_le_bytes),
            I32 => numbers(&self.bytes, |b| i64::from(i32::from_le_bytes(b))),
            I8 => numbers(&self.bytes, |b| i64::from(i8::from_le_bytes(b))),
            U8 | Bool => numbers(&self.bytes, |b: [u8; 1]| i64::from(b[0])),
            _ => return Err(Refusal::Unknown),
        })
    }
}

pub(super) fn numbers<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|&chunk| read(chunk)).collect()
}

/// Elements of a shape; `None` when a size is negative or there are too many.
pub(super) fn size(dims: &[i64]) -> Option<u64> {
    dims.iter().try_fold(1_u64, |n, &dim| n.checked_mul(u64::try_from(dim).ok()?))
}

fn bytes_of(dims: &[i64], width: usize) -> Folding<usize> {
    let count = size(dims).and_then(|n| usize::try_from(n).ok()?.checked_mul(width));
    count.ok_or(Refusal::Unknown)
}

/// The elements of a shape, if they fit the limit.
pub(super) fn within(dims: &[i64], width: usize, limit: u64) -> Folding<usize> {
    if dims.iter().any(|&dim| dim < 0) {
        return Err(Refusal::Unknown);
    }
    let bytes = size(dims).and_then(|n| n.checked_mul(width as u64)).unwrap_or(u64::MAX);
    if bytes > limit { Err(Refusal::TooLarge(bytes)) } else { Ok(bytes as usize / width) }
}

/// The shape that two shapes are broadcast to.
pub(super) fn broadcast(a: &[i64], b: &[i64]) -> Folding<Vec<i64>> {
    let rank = a.len().max(b.len());
    let dim = |dims: &[i64], axis: usize| {
        axis.checked_sub(rank - dims.len()).map_or(1, |source| dims[source])
    };
    let joined = (0..rank).map(|axis| match (dim(a, axis), dim(b, axis)) {
        (x, y) if x == y || y == 1 => Ok(x),
        (1, y) => Ok(y),
        _ => Err(Refusal::Unknown),
    });
    joined.collect()
}

fn pick<const W: usize>(
    source: &[u8],
    dims: &[i64],
    steps: &[i64],
    start: i64,
    count: usize,
) -> Vec<u8> {
    let source = source.as_chunks::<W>().0;
    let Some((&row, outer)) = dims.split_last() else {
        return source[start as usize].to_vec();
    };
    let mut picked = vec![[0_u8; W]; count];
    if count == 0 {
        return Vec::new();
    }
    let fill = |(index, row): (usize, &mut [[u8; W]])| {
        let (mut rest, mut from) = (index as i64, start);
        for (dim, step) in outer.iter().zip(steps).rev() {
            from += rest % dim * step;
            rest /= dim;
        }
        for (place, element) in row.iter_mut().enumerate() {
            *element = source[(from + place as i64 * steps[outer.len()]) as usize];
        }
    };
    if count < PARALLEL_FROM {
        picked.chunks_mut(row as usize).enumerate().for_each(fill);
    } else {
        picked.par_chunks_mut(row as usize).enumerate().for_each(fill);
    }
    picked.into_flattened()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(dims: &[i64]) -> Literal {
        let count = size(dims).unwrap() as i64;
        Literal::ints(&(0..count).collect::<Vec<_>>(), dims.to_vec())
    }

    fn parts(literal: &Literal) -> (Vec<i64>, Vec<i64>) {
        (literal.dims.clone(), literal.integers().unwrap())
    }

    #[test]
    fn elements_move_where_they_belong() {
        let matrix = literal(&[2, 3]);
        let all = u64::MAX;
        for (moved, dims, values) in [
            (matrix.transposed(None, all), vec![3, 2], vec![0, 3, 1, 4, 2, 5]),
            (matrix.transposed(Some(&[0, 1]), all), vec![2, 3], vec![0, 1, 2, 3, 4, 5]),
            (literal(&[3]).expanded(&[2, 1], all), vec![2, 3], vec![0, 1, 2, 0, 1, 2]),
            (literal(&[2]).tiled(&[2], all), vec![4], vec![0, 1, 0, 1]),
            (literal(&[2, 1]).tiled(&[1, 2], all), vec![2, 2], vec![0, 0, 1, 1]),
            (matrix.sliced(&[(1, 1, 1), (2, 2, -2)], all), vec![1, 2], vec![5, 3]),
            (
                matrix.gathered(&Literal::ints(&[-1, 0], vec![2]), 1, all),
                vec![2, 2],
                vec![2, 0, 5, 3],
            ),
            (matrix.gathered(&Literal::ints(&[1], vec![]), 0, all), vec![3], vec![3, 4, 5]),
            (
                Literal::concatenated(&[literal(&[2, 1]), matrix.clone()], 1, all),
                vec![2, 4],
                vec![0, 0, 1, 2, 1, 3, 4, 5],
            ),
            (Literal::ints(&[7], vec![1]).filled(vec![2, 2], all), vec![2, 2], vec![7; 4]),
            (literal(&[0]).expanded(&[2, 0], all), vec![2, 0], vec![]),
        ] {
            assert_eq!(parts(&moved.unwrap()), (dims, values));
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let matrix = literal(&[2, 3]);
        let unknown = Refusal::Unknown;
        for refused in [
            matrix.transposed(Some(&[0, 0]), 100),
            matrix.transposed(Some(&[0, 5]), 100),
            matrix.expanded(&[4, 3], 100),
            matrix.tiled(&[2], 100),
            matrix.gathered(&Literal::ints(&[3], vec![]), 1, 100),
            matrix.gathered(&Literal::ints(&[-4], vec![]), 1, 100),
            matrix.reshaped(vec![4]),
            Literal::concatenated(&[matrix.clone(), literal(&[2])], 0, 100),
        ] {
            assert_eq!(refused.unwrap_err(), unknown);
        }
        let huge = Literal::ints(&[1], vec![1]).filled(vec![1 << 40, 1 << 40], 100);
        assert_eq!(huge.unwrap_err(), Refusal::TooLarge(u64::MAX));
        assert_eq!(matrix.tiled(&[2, 2], 191).unwrap_err(), Refusal::TooLarge(192));
    }
}
