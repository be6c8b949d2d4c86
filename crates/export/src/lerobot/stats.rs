//! The statistics of a column in `meta/stats.json`.

use serde_json::{Map, Value, json};

/// Shares of all values that are no greater, as `LeRobot` names them.
const QUANTILES: [(&str, f64); 5] = [("q01", 0.01), ("q10", 0.1), ("q50", 0.5), ("q90", 0.9), ("q99", 0.99)];

/// Of rows of `width` numbers, each number by itself.
pub(super) fn of(values: &[f64], width: usize) -> Value {
    let columns = (0..width).map(|column| values.iter().skip(column).step_by(width).copied().collect());
    let columns: Vec<Vec<f64>> = columns.map(sorted).collect();
    let each =
        |of: &dyn Fn(&[f64]) -> f64| Value::from(columns.iter().map(|column| of(column)).collect::<Vec<_>>());
    let mut all = Map::new();
    all.insert("min".into(), each(&|column| column[0]));
    all.insert("max".into(), each(&|column| column[column.len() - 1]));
    all.insert("mean".into(), each(&mean));
    all.insert("std".into(), each(&deviation));
    all.insert("count".into(), json!([values.len() / width]));
    for (name, share) in QUANTILES {
        all.insert(name.into(), each(&|column| quantile(column, share)));
    }
    Value::Object(all)
}

fn sorted(mut column: Vec<f64>) -> Vec<f64> {
    column.sort_by(f64::total_cmp);
    column
}

fn mean(column: &[f64]) -> f64 {
    column.iter().sum::<f64>() / column.len() as f64
}

fn deviation(column: &[f64]) -> f64 {
    let mean = mean(column);
    (column.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / column.len() as f64).sqrt()
}

/// Between two values linearly.
fn quantile(column: &[f64], share: f64) -> f64 {
    let place = share * (column.len() - 1) as f64;
    let (low, high) = (column[place.floor() as usize], column[place.ceil() as usize]);
    (high - low).mul_add(place.fract(), low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_has_its_own() {
        let stats = of(&[1.0, 10.0, 3.0, 30.0, 2.0, 20.0], 2);
        assert_eq!(stats["min"], json!([1.0, 10.0]));
        assert_eq!(stats["max"], json!([3.0, 30.0]));
        assert_eq!(stats["mean"], json!([2.0, 20.0]));
        assert_eq!(stats["q50"], json!([2.0, 20.0]));
        assert_eq!(stats["q10"], json!([1.2, 12.0]));
        assert_eq!(stats["count"], json!([3]));
        assert!((stats["std"][0].as_f64().unwrap() - (2.0f64 / 3.0).sqrt()).abs() < 1e-15);
    }
}
