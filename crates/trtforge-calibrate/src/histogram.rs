//! A histogram of magnitudes that is a function of the multiset of values alone.
//!
//! The width of its bins is a power of two chosen by the largest magnitude seen, and when a larger one comes,
//! neighbouring bins are added up in pairs. A value's bin on the wide grid is its bin on the narrow grid without the
//! low bits, so nothing is lost or moved on the way: any order, batch size, thread count or split over machines
//! gives the same counts.

use serde::{Deserialize, Serialize};

use crate::scan::{for_each_bin, scan};

/// Bins held; one more than half of them at least are in use, see [`LEAST_BINS_IN_USE`].
pub const BINS: usize = 1 << BINS_LOG2;
/// The largest magnitude lies above this many bins, except below 2⁻¹³⁸, where every float has its own bin.
pub const LEAST_BINS_IN_USE: usize = BINS / 2;

const BINS_LOG2: i32 = 12;
/// The smallest subnormal is 2⁻¹⁴⁹: narrower bins could not tell more values apart.
const LEAST_EXPONENT: i32 = -149;
/// Values scanned and then counted while they are in the first-level cache.
const CHUNK: usize = 4096;
/// Separate sub-histograms for neighbouring values, so that equal values in a row do not wait for one another.
const LANES: usize = 4;
/// Below this many values the sub-histograms cost more than they save.
const LEAST_FOR_LANES: usize = 8 * BINS;

type Lanes = [[u32; BINS]; LANES];

/// Counts of `|x|` on a grid of power-of-two bin widths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Record", into = "Record")]
pub struct Histogram {
    /// The bin width is `2^exponent`; none while only zeros were seen.
    exponent: Option<i32>,
    /// Bits of the largest finite magnitude, which order like the magnitudes themselves.
    absmax_bits: u32,
    zeros: u64,
    nonfinite: u64,
    bins: Vec<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Self { exponent: None, absmax_bits: 0, zeros: 0, nonfinite: 0, bins: vec![0; BINS] }
    }

    /// Adds every value. NaN and infinity are only counted, never placed in a bin.
    pub fn observe(&mut self, values: &[f32]) {
        let mut lanes = if values.len() < LEAST_FOR_LANES { None } else { empty_lanes() };
        // A lane counts at most a quarter of a part, so its u32 cannot overflow.
        for part in values.chunks(1 << 30) {
            for chunk in part.chunks(CHUNK) {
                self.observe_chunk(chunk, lanes.as_deref_mut());
            }
            self.add_lanes(lanes.as_deref_mut());
        }
    }

    fn observe_chunk(&mut self, chunk: &[f32], mut lanes: Option<&mut Lanes>) {
        let seen = scan(chunk);
        self.zeros += seen.zeros;
        self.nonfinite += seen.nonfinite;
        self.absmax_bits = self.absmax_bits.max(seen.max_bits);
        let exponent = exponent_for(self.absmax_bits);
        if exponent != self.exponent {
            self.add_lanes(lanes.as_deref_mut());
            self.widen_to(exponent);
        }
        if seen.nonfinite > 0 {
            let finite: Vec<f32> = chunk.iter().copied().filter(|x| x.is_finite()).collect();
            self.place(&finite, None);
        } else {
            self.place(chunk, lanes);
        }
    }

    /// Places finite values, none larger than the grid, in their bins.
    fn place(&mut self, values: &[f32], lanes: Option<&mut Lanes>) {
        let Some(exponent) = self.exponent else {
            self.bins[0] += values.len() as u64;
            return;
        };
        if -exponent > f32::MAX_EXP - 1 {
            let per_width = 2_f64.powi(-exponent);
            for value in values {
                self.bins[(f64::from(value.abs()) * per_width) as usize] += 1;
            }
            return;
        }
        let per_width = 2_f32.powi(-exponent);
        match lanes {
            Some(lanes) => for_each_bin(values, per_width, |lane, bin| {
                // The mask changes no bin; it lets the compiler drop the bounds check.
                lanes[lane % LANES][bin % BINS] += 1;
            }),
            None => for_each_bin(values, per_width, |_, bin| self.bins[bin] += 1),
        }
    }

    /// Adds the sub-histograms to the bins and empties them.
    fn add_lanes(&mut self, lanes: Option<&mut Lanes>) {
        for lane in lanes.into_iter().flatten() {
            for (bin, count) in self.bins.iter_mut().zip(lane.iter_mut()) {
                *bin += u64::from(*count);
                *count = 0;
            }
        }
    }

    /// Adds up neighbouring bins until their width is the given one.
    fn widen_to(&mut self, exponent: Option<i32>) {
        let shift = match (self.exponent, exponent) {
            (Some(old), Some(new)) => (new - old).min(BINS_LOG2),
            _ => 0,
        };
        self.exponent = exponent;
        if shift == 0 {
            return;
        }
        let run = 1_usize << shift;
        for wide in 0..BINS / run {
            self.bins[wide] = self.bins[wide * run..(wide + 1) * run].iter().sum();
        }
        self.bins[BINS / run..].fill(0);
    }

    /// Adds all values of `other`; the result is the same as if they had been observed here.
    pub fn merge(&mut self, other: &Self) {
        self.zeros += other.zeros;
        self.nonfinite += other.nonfinite;
        self.absmax_bits = self.absmax_bits.max(other.absmax_bits);
        self.widen_to(exponent_for(self.absmax_bits));
        let shift = match (self.exponent, other.exponent) {
            (Some(mine), Some(theirs)) => (mine - theirs).min(BINS_LOG2),
            // Without an exponent the other side holds zeros only, all in bin 0.
            _ => 0,
        };
        for (bin, count) in other.bins.iter().enumerate() {
            self.bins[bin >> shift] += count;
        }
    }

    /// Largest finite magnitude; 0 when there is none.
    pub fn absmax(&self) -> f32 {
        f32::from_bits(self.absmax_bits)
    }

    /// All values observed, finite or not.
    pub fn count(&self) -> u64 {
        self.finite() + self.nonfinite
    }

    /// All values observed, or none when a file claims more than can be counted.
    pub(crate) fn checked_count(&self) -> Option<u64> {
        self.bins.iter().try_fold(self.nonfinite, |sum, &count| sum.checked_add(count))
    }

    /// Finite values observed: the sum over all bins.
    pub fn finite(&self) -> u64 {
        self.bins.iter().sum()
    }

    /// Values that were exactly zero; they are counted in bin 0 too.
    pub fn zeros(&self) -> u64 {
        self.zeros
    }

    /// NaN and infinite values; they are in no bin.
    pub fn nonfinite(&self) -> u64 {
        self.nonfinite
    }

    /// Width of one bin, a power of two; `None` while every value was zero.
    pub fn bin_width(&self) -> Option<f64> {
        self.exponent.map(|exponent| 2_f64.powi(exponent))
    }

    /// Bins up to and including the one that holds [`absmax`](Self::absmax); bin `i` counts
    /// `i * width <= |x| < (i + 1) * width`.
    pub fn bins(&self) -> &[u64] {
        &self.bins[..self.bins_in_use()]
    }

    fn bins_in_use(&self) -> usize {
        match self.bin_width() {
            Some(width) => (f64::from(self.absmax()) / width) as usize + 1,
            None => usize::from(self.zeros > 0),
        }
    }
}

/// Made on the heap at once: an array that size would pass through the stack.
fn empty_lanes() -> Option<Box<Lanes>> {
    vec![[0; BINS]; LANES].into_boxed_slice().try_into().ok()
}

/// The exponent of the bin width at which a magnitude lands in the upper half of the bins.
fn exponent_for(magnitude_bits: u32) -> Option<i32> {
    let magnitude = f64::from(f32::from_bits(magnitude_bits));
    // Every f32, subnormal or not, is a normal f64, so its exponent field is exact.
    let log2 = ((magnitude.to_bits() >> 52) as i32) - 1023;
    (magnitude > 0.0).then(|| (log2 + 1 - BINS_LOG2).max(LEAST_EXPONENT))
}

/// The form of a histogram in a file: no trailing empty bins, and no field that another one implies.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    absmax: f32,
    zeros: u64,
    nonfinite: u64,
    bins: Vec<u64>,
}

impl From<Histogram> for Record {
    fn from(histogram: Histogram) -> Self {
        Self {
            absmax: histogram.absmax(),
            zeros: histogram.zeros,
            nonfinite: histogram.nonfinite,
            bins: histogram.bins().to_vec(),
        }
    }
}

impl TryFrom<Record> for Histogram {
    type Error = String;

    fn try_from(record: Record) -> Result<Self, String> {
        if !(record.absmax.is_finite() && record.absmax.is_sign_positive()) {
            return Err(format!("absmax {} is not a finite magnitude", record.absmax));
        }
        let absmax_bits = record.absmax.to_bits();
        let mut histogram = Self {
            exponent: exponent_for(absmax_bits),
            absmax_bits,
            zeros: record.zeros,
            nonfinite: record.nonfinite,
            bins: record.bins,
        };
        let (held, in_use) = (histogram.bins.len(), histogram.bins_in_use());
        if held != in_use {
            return Err(format!("{held} bins, but absmax {} needs {in_use}", record.absmax));
        }
        if in_use > 0 && (histogram.bins[in_use - 1] == 0 || histogram.bins[0] < record.zeros) {
            return Err("the counts do not agree with absmax and zeros".to_owned());
        }
        histogram.bins.resize(BINS, 0);
        Ok(histogram)
    }
}

#[cfg(test)]
#[path = "histogram_tests.rs"]
mod tests;
