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
                if item.time_us.zip(selection.to_us).is_some_and(|(time, to)| time > to) {
                    break;
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
