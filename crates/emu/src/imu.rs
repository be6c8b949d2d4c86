//! The emulated IMU: what the trunk does, plus noise.

use crate::body::Trunk;
use crate::config::ImuConfig;
use crate::noise::Noise;
use khz_link::ImuSample;

/// The sensor's own state.
#[derive(Debug)]
pub(crate) struct Sensor {
    config: ImuConfig,
    noise: Noise,
    ready_ns: Option<i64>,
    /// It no longer answers.
    pub(crate) gone: bool,
    /// It repeats its newest reading.
    pub(crate) frozen: bool,
    newest: Option<ImuSample>,
}

impl Sensor {
    pub(crate) fn new(config: ImuConfig, seed: u64) -> Self {
        Self { config, noise: Noise::new(seed), ready_ns: None, gone: false, frozen: false, newest: None }
    }

    pub(crate) fn request(&mut self, now_ns: i64) {
        self.ready_ns = Some(now_ns.saturating_add(self.config.latency_ns));
    }

    /// When the reading asked for will be there.
    pub(crate) fn ready_ns(&self) -> Option<i64> {
        self.ready_ns
    }

    /// The reading asked for, of a trunk seen at `at_ns`.
    pub(crate) fn take(&mut self, trunk: Trunk, at_ns: i64) -> ImuSample {
        self.ready_ns = None;
        if let Some(newest) = self.newest.filter(|_| self.frozen) {
            return ImuSample { at_ns, ..newest };
        }
        let sample = self.read(trunk, at_ns);
        self.newest = Some(sample);
        sample
    }

    fn read(&mut self, trunk: Trunk, at_ns: i64) -> ImuSample {
        let mut noisy = |[x, y, z]: [f64; 3], deviation: f64| {
            let mut noise = || self.noise.normal(deviation);
            [x + noise(), y + noise(), z + noise()]
        };
        let tilt = noisy([0.0; 3], self.config.attitude_noise);
        ImuSample {
            at_ns,
            attitude: turned(trunk.attitude, tilt),
            rate: noisy(trunk.rate, self.config.rate_noise),
            acceleration: noisy(trunk.acceleration, self.config.acceleration_noise),
        }
    }
}

/// `q` after a further small turn by `angles` about the body's own axes.
fn turned(q: [f64; 4], angles: [f64; 3]) -> [f64; 4] {
    let [w, x, y, z] = q;
    let [a, b, c] = angles.map(|angle| 0.5 * angle);
    let turned = [
        w - x * a - y * b - z * c,
        x + w * a + y * c - z * b,
        y + w * b + z * a - x * c,
        z + w * c + x * b - y * a,
    ];
    let norm = turned.iter().map(|v| v * v).sum::<f64>().sqrt();
    turned.map(|v| v / norm)
}
