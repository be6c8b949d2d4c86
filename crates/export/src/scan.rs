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
/// damage and goes on with the next block that is certainly sound; a sample that `each` finds not to fit its schema is
/// damage, too. `progress` gets the position with each sample.
///
/// # Errors
/// When the log cannot be read, a selected record is not in it, or `each` fails.
pub fn scan<S: Source>(
    reader: &mut Reader<S>,
    selection: &Selection,
    mut progress: impl FnMut(u64),
    mut each: impl FnMut(&Item<'_>) -> Result<bool, ExportError>,
) -> Result<Damage, ExportError> {
    let mut scan = Scan::begin(reader, selection)?;
    let mut step = |item: &Item<'_>| {
        progress(item.position);
        each(item)
    };
    while scan.step(&mut step)? == Some(true) {}
    Ok(scan.damage)
}

/// [`scan`] one sample after another, for going through several logs at once.
pub struct Scan<'a, S> {
    reader: &'a mut Reader<S>,
    selection: &'a Selection,
    /// Nothing that is wanted follows.
    over: bool,
    damage: Damage,
}

impl<'a, S: Source> Scan<'a, S> {
    /// Goes to the first selected sample.
    ///
    /// # Errors
    /// When the log cannot be read, or a selected record is not in it.
    pub fn begin(reader: &'a mut Reader<S>, selection: &'a Selection) -> Result<Self, ExportError> {
        begin(reader, selection)?;
        Ok(Self { reader, selection, over: false, damage: Damage::default() })
    }

    /// Gives the next selected sample to `each`, and behind one that does not fit its schema the next again. Returns
    /// what `each` does; `None` behind the last.
    ///
    /// # Errors
    /// When the log cannot be read, or `each` fails.
    pub fn step<T>(
        &mut self,
        mut each: impl FnMut(&Item<'_>) -> Result<T, ExportError>,
    ) -> Result<Option<T>, ExportError> {
        while !self.over {
            let error = match self.reader.next() {
                Ok(None) => break,
                Ok(Some(item)) => {
                    if let Some((time, to)) = item.time_us.zip(self.selection.to_us)
                        && time > to
                    {
                        self.over = self.reader.is_past(to, time);
                        continue;
                    }
                    if item.time_us.zip(self.selection.from_us).is_some_and(|(time, from)| time < from) {
                        continue;
                    }
                    match each(&item) {
                        Err(ExportError::Log(error)) if error.is_contained() => error,
                        other => return other.map(Some),
                    }
                }
                Err(error) => error,
            };
            let error = self.reader.step_over(error)?;
            self.damage.places += 1;
            self.damage.first.get_or_insert(error);
        }
        self.over = true;
        Ok(None)
    }
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
