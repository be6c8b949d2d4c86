//! Seeded noise.

/// A small generator (SplitMix64, Steele et al. 2014): one word of state, the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Noise(u64);

impl Noise {
    /// Equal seeds give equal sequences.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Evenly distributed in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Near enough to a normal distribution for sensor noise: twelve uniform numbers summed.
    pub fn normal(&mut self, deviation: f64) -> f64 {
        let sum: f64 = (0..12).map(|_| self.uniform()).sum();
        (sum - 6.0) * deviation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_deviation_are_what_was_asked() {
        let mut noise = Noise::new(1);
        let samples: Vec<f64> = (0..20_000).map(|_| noise.normal(2.0)).collect();
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        let variance = samples.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / samples.len() as f64;
        assert!(mean.abs() < 0.05);
        assert!((variance.sqrt() - 2.0).abs() < 0.05);
    }
}
