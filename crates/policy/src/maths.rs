//! Functions with the same bits on every machine: sums and products of f64 in a fixed order, rounded to f32 once, at the end.
//!
//! A C library's `expf` differs from version to version. These are right to the last bit but for ties: their error before the rounding
//! is below 1e-11.

/// Lanes of a sum: as many as fit any vector unit, so that it does not matter which there is.
const LANES: usize = 16;

/// Σ aᵢ·bᵢ of the shorter length, in this order: product i goes to lane i mod 16, then the lanes one after the other, then what is left
/// beyond the last whole 16.
#[must_use]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut lanes = [0.0_f32; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    let sum = lanes.iter().fold(0.0, |sum, lane| sum + lane);
    a_rest.iter().zip(b_rest).fold(sum, |sum, (a, b)| sum + a * b)
}

/// Σ aᵢ in the order of [`dot`].
#[must_use]
pub fn sum(a: &[f32]) -> f32 {
    let (a, rest) = a.as_chunks::<LANES>();
    let mut lanes = [0.0_f32; LANES];
    for a in a {
        for lane in 0..LANES {
            lanes[lane] += a[lane];
        }
    }
    let sum = lanes.iter().fold(0.0, |sum, lane| sum + lane);
    rest.iter().fold(sum, |sum, a| sum + a)
}

/// eˣ.
#[must_use]
pub fn exp(x: f32) -> f32 {
    wide_exp(f64::from(x)) as f32
}

/// eˣ − 1, also near 0.
#[must_use]
pub fn exp_m1(x: f32) -> f32 {
    wide_exp_m1(f64::from(x)) as f32
}

/// Hyperbolic tangent.
#[must_use]
pub fn tanh(x: f32) -> f32 {
    // Beyond 20 it is 1 to the last bit, and the quotient would be that of two infinities.
    let grown = wide_exp_m1(2.0 * clamp(f64::from(x), 20.0));
    (grown / (grown + 2.0)) as f32
}

/// 1 / (1 + e⁻ˣ).
#[must_use]
pub fn sigmoid(x: f32) -> f32 {
    (1.0 / (1.0 + wide_exp(-f64::from(x)))) as f32
}

/// ln(1 + eˣ).
#[must_use]
pub fn softplus(x: f32) -> f32 {
    let x = f64::from(x);
    let above = if x < 0.0 { 0.0 } else { x };
    (above + ln_1p(wide_exp(if x < 0.0 { x } else { -x }))) as f32
}

/// Sine of an angle within ±1000 rad.
#[must_use]
pub fn sin(x: f64) -> f32 {
    quarter_turned(x, 0) as f32
}

/// Cosine of an angle within ±1000 rad.
#[must_use]
pub fn cos(x: f64) -> f32 {
    quarter_turned(x, 1) as f32
}

/// sin(x + quarters·π/2): Taylor's series of the sine or the cosine of what is left of a quarter turn.
fn quarter_turned(x: f64, quarters: i64) -> f64 {
    let n = (x * std::f64::consts::FRAC_2_PI + ROUNDING) - ROUNDING;
    let r = x - n * std::f64::consts::FRAC_PI_2;
    let (quarter, square) = ((n as i64).wrapping_add(quarters), r * r);
    let series = |first: u32| {
        (1..=7_u32).rev().fold(1.0, |sum, k| {
            let n = 2 * k + first;
            1.0 - sum * square * (1.0 / f64::from(n * (n - 1)))
        })
    };
    let value = if quarter & 1 == 0 { r * series(1) } else { series(0) };
    if quarter & 2 == 0 { value } else { -value }
}

/// Between −most and most; NaN stays.
fn clamp(x: f64, most: f64) -> f64 {
    if x > most {
        most
    } else if x < -most {
        -most
    } else {
        x
    }
}

/// 1.5·2⁵²: adding and taking it away rounds to a whole number.
const ROUNDING: f64 = 6_755_399_441_055_744.0;

fn wide_exp(x: f64) -> f64 {
    let (power, grown) = reduced(x);
    power + power * grown
}

fn wide_exp_m1(x: f64) -> f64 {
    let (power, grown) = reduced(x);
    // With a power of 1 this is `grown` alone, which is exact near 0.
    (power - 1.0) + power * grown
}

/// 2ⁿ and eʳ − 1, with x = n·ln 2 + r and r within ±ln 2 / 2.
fn reduced(x: f64) -> (f64, f64) {
    // An f32 is 0 or infinite long before; an f64 is not yet.
    let x = clamp(x, 300.0);
    let n = (x * std::f64::consts::LOG2_E + ROUNDING) - ROUNDING;
    let r = x - n * std::f64::consts::LN_2;
    (power_of_two(n), r * series(r))
}

fn power_of_two(n: f64) -> f64 {
    f64::from_bits(((n as i64 + 1023) as u64) << 52)
}

/// (eʳ − 1) / r by Taylor's series: the first term left out is below 1e-13 for r within ±ln 2 / 2.
fn series(r: f64) -> f64 {
    (2..=11_u32).rev().fold(1.0, |sum, n| 1.0 + sum * r * (1.0 / f64::from(n)))
}

/// ln(1 + y) for y within 0 and 1: 2·artanh(y / (2 + y)), whose series ends below 1e-12 here.
fn ln_1p(y: f64) -> f64 {
    let s = y / (2.0 + y);
    let square = s * s;
    let sum = (0..12_u32).rev().fold(0.0, |sum, n| sum * square + 1.0 / f64::from(2 * n + 1));
    2.0 * s * sum
}
