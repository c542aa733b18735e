//! Random weights of the bootstrap: the same on every machine, since they come from nothing but a seed.

/// SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Uniform in (0, 1), never an end.
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Standard normal, by Marsaglia's polar method.
    fn normal(&mut self) -> f64 {
        loop {
            let (u, v) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let s = u * u + v * v;
            if s > 0.0 && s < 1.0 {
                return u * (-2.0 * s.ln() / s).sqrt();
            }
        }
    }

    /// Gamma of scale 1; the sum of `shape` exponentials where `shape` is whole. 0 for a shape of 0.
    ///
    /// Source: Marsaglia and Tsang 2000, with their boost below 1; products of uniforms where the shape is small and whole.
    pub(crate) fn gamma(&mut self, shape: f64) -> f64 {
        if shape <= 0.0 {
            return 0.0;
        }
        if shape <= 8.0 && shape.fract() == 0.0 {
            let product: f64 = (0..shape as u32).map(|_| self.uniform()).product();
            return -product.ln();
        }
        if shape < 1.0 {
            return self.gamma(shape + 1.0) * self.uniform().powf(1.0 / shape);
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 && self.uniform().ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gamma_has_its_mean_and_variance() {
        // Both are the shape. 4 standard errors of a mean of 20,000: 4·√(shape / 20,000); the variance has kurtosis 3 + 6 / shape.
        let count = 20_000.0;
        for shape in [0.5, 1.0, 2.5, 8.0, 9.0, 400.0] {
            let mut random = Random::new(1);
            let draws: Vec<f64> = (0..20_000).map(|_| random.gamma(shape)).collect();
            let mean = draws.iter().sum::<f64>() / count;
            let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
            assert!((mean - shape).abs() < 4.0 * (shape / count).sqrt(), "{shape}: {mean}");
            let error = shape * ((2.0 + 6.0 / shape) / count).sqrt();
            assert!((variance - shape).abs() < 4.0 * error, "{shape}: {variance}");
        }
        assert_eq!(Random::new(1).gamma(0.0), 0.0);
    }

    #[test]
    fn uniform_stays_inside() {
        let mut random = Random::new(7);
        let draws: Vec<f64> = (0..10_000).map(|_| random.uniform()).collect();
        assert!(draws.iter().all(|x| (0.0..1.0).contains(x) && *x > 0.0));
        assert!((draws.iter().sum::<f64>() / 1e4 - 0.5).abs() < 0.012);
    }
}
