//! Going through a log once, whatever its state.

use crate::ExportError;
use khz_tlog::{Error, Item, Reader, Source};

/// Which samples are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Records by name; none means all.
    pub records: Vec<String>,
    /// Not before this time, µs since the Unix epoch.
    pub from_us: Option<i64>,
    /// Not after this time.
    pub to_us: Option<i64>,
}

/// What was wrong on the way.
#[derive(Debug, Default)]
pub struct Damage {
    /// Damaged places.
    pub places: u64,
    /// What was wrong at the first of them.
    pub first: Option<Error>,
}

/// Gives each selected sample to `each`, in the order of the log; stops early when that returns false. Steps over
/// damage and goes on with the next block that is certainly sound. `progress` is told the position with each sample.
///
/// # Errors
/// When the log cannot be read, a selected record is not in it, or `each` fails.
pub fn scan<S: Source>(
    reader: &mut Reader<S>,
    selection: &Selection,
    mut progress: impl FnMut(u64),
    mut each: impl FnMut(&Item<'_>) -> Result<bool, ExportError>,
) -> Result<Damage, ExportError> {
    let mut damage = Damage::default();
    begin(reader, selection)?;
    loop {
        let error = match reader.next() {
            Ok(None) => break,
            Ok(Some(item)) => {
                progress(item.position);
                if let Some((time, to)) = item.time_us.zip(selection.to_us)
                    && time > to
                {
                    if reader.is_past(to, time) {
                        break;
                    }
                    continue;
                }
                if item.time_us.zip(selection.from_us).is_some_and(|(time, from)| time < from) {
                    continue;
                }
                if each(&item)? {
                    continue;
                }
                break;
            }
            Err(error @ Error::Io { .. }) => return Err(error.into()),
            Err(error) => error,
        };
        damage.places += 1;
        if !error.is_contained() {
            reader.resync(reader.block() + 1)?;
        }
        damage.first.get_or_insert(error);
    }
    Ok(damage)
}

fn begin<S: Source>(reader: &mut Reader<S>, selection: &Selection) -> Result<(), ExportError> {
    reader.rewind();
    if !selection.records.is_empty() {
        reader.survey()?;
        selection.records.iter().try_for_each(|name| reader.record(name).map(|_| ()))?;
        reader.select(selection.records.iter().cloned());
    }
    // A log too damaged to be searched is read from the start.
    if let Some(from_us) = selection.from_us
        && reader.seek(from_us.saturating_sub(1)).is_err()
    {
        reader.rewind();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_tlog::{Options, Type, Writer, received};

    const S: i64 = 1_000_000;

    #[test]
    fn samples_that_came_late_are_within_the_time_asked_for() {
        let mut log = Writer::new(Vec::new(), Options::default()).unwrap();
        log.record(received::SENDERS, &Type::Null).unwrap();
        log.record(received::GAPS, &Type::Null).unwrap();
        let beat = log.record("beat", &Type::Null).unwrap();
        for second in [10, 15, 11, 40, 9, 12, 80, 81, 20] {
            log.write(beat, Some(second * S), &[]).unwrap();
        }
        let mut reader = Reader::open(log.finish().unwrap()).unwrap();
        let mut found = Vec::new();
        let selection = Selection { from_us: Some(10 * S), to_us: Some(15 * S), ..Selection::default() };
        let damage = scan(
            &mut reader,
            &selection,
            |_| {},
            |item| {
                found.push(item.time_us.unwrap() / S);
                Ok(true)
            },
        );
        assert_eq!((damage.unwrap().places, found), (0, vec![10, 15, 11, 12]));
    }
}
