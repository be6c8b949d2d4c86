//! Raw samples as CSV, distributions as HdrHistogram percentile files.

use super::recording::{Recording, Sample};
use khz_rt::{Disturbance, Histogram};
use std::io::{self, Write};

/// Writes every sample kept, one line per tick, with a heading. `docs/metrics.md` has how the figures follow from it.
///
/// # Errors
/// Of the writer.
pub fn csv(samples: &[(Sample, Disturbance)], out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "planned_ns,woke_ns,begun_ns,done_ns,wake_latency_ns,execution_ns,response_ns,due_ns,missed,overrun,previous_ns,cpu_ns,\
         away_ns,queued_before_ns,queued_ns,faults_ns,blocked_before,blocked,involuntary,minor_faults,major_faults,withheld"
    )?;
    for (sample, lost) in samples {
        let times = [
            sample.planned_ns,
            sample.woke_ns,
            sample.begun_ns,
            sample.done_ns,
            sample.wake_latency_ns(),
            sample.execution_ns(),
            sample.response_ns(),
            sample.due_ns,
            sample.missed as i64,
            i64::from(sample.overrun),
            lost.previous_ns,
            lost.cpu_ns,
            lost.away_ns,
            lost.queued_before_ns,
            lost.queued_ns,
            lost.faults_ns,
        ];
        let counts =
            [lost.blocked_before, lost.blocked, lost.involuntary, lost.minor_faults, lost.major_faults];
        let counts = counts.into_iter().chain([u32::from(sample.withheld)]).map(i64::from);
        let values = times.into_iter().chain(counts);
        writeln!(out, "{}", values.map(|value| value.to_string()).collect::<Vec<_>>().join(","))?;
    }
    Ok(())
}

/// Writes the wake latency's percentiles in microseconds as HdrHistogram's own programs do (`.hgrm`), to be
/// drawn by any of its plotters.
///
/// # Errors
/// Of the writer.
pub fn hgrm(recording: &Recording, out: &mut impl Write) -> io::Result<()> {
    write_hgrm(&recording.wake, out)
}

fn write_hgrm(histogram: &Histogram, out: &mut impl Write) -> io::Result<()> {
    let us = |ns: i64| ns as f64 / 1e3;
    writeln!(out, "{:>12} {:>14} {:>10} {:>14}\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")?;
    for (value_ns, quantile, count) in histogram.curve(5) {
        write!(out, "{:>12.3} {quantile:>14.12} {count:>10}", us(value_ns))?;
        if quantile < 1.0 {
            write!(out, " {:>14.2}", 1.0 / (1.0 - quantile))?;
        }
        writeln!(out)?;
    }
    let s = histogram.summary();
    writeln!(out, "#[Mean    = {:>12.3}, StdDeviation   = {:>12.3}]", s.mean / 1e3, s.sigma / 1e3)?;
    writeln!(out, "#[Max     = {:>12.3}, Total count    = {:>12}]", us(s.max), s.count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_a_line_per_sample() {
        let mut out = Vec::new();
        let lost = Disturbance { cpu_ns: 5, away_ns: 2, blocked: 1, ..Disturbance::default() };
        csv(&[(Sample::in_time(10, 13, 14, 20), lost)], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().nth(1), Some("10,13,14,20,3,6,9,10,0,0,0,5,2,0,0,0,0,1,0,0,0,0"));
        let columns = |line: usize| text.lines().nth(line).unwrap().split(',').count();
        assert_eq!(columns(0), columns(1));
    }

    #[test]
    fn hgrm_as_the_plotters_read_it() {
        let mut histogram = Histogram::new();
        (1..=4).for_each(|n| histogram.record(n * 1_000, n));
        let mut out = Vec::new();
        write_hgrm(&histogram, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(
            rows[0].split_whitespace().collect::<Vec<_>>(),
            ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]
        );
        assert_eq!(rows[2].split_whitespace().collect::<Vec<_>>(), ["1.000", "0.000000000000", "1", "1.00"]);
        assert!(text.contains("4.000 1.000000000000          4\n"), "{text}");
        assert!(text.ends_with("#[Max     =        4.000, Total count    =            4]\n"), "{text}");
    }
}
