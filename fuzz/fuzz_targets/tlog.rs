#![no_main]

use khz_tlog::{Reader, Type, repair};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = Type::decode(bytes);
    let Ok(mut reader) = Reader::open(bytes) else { return };
    read(&mut reader);
    let _ = reader.survey();
    let names: Vec<String> = reader.records().iter().map(|record| record.name().to_owned()).collect();
    for name in names {
        if let Ok(Some(places)) = reader.places(&name) {
            places.iter().for_each(|&place| drop(reader.sample_at(place).map(|item| item.payload.len())));
        }
    }
    let _ = reader.seek(1_583_798_400_500_000);
    read(&mut reader);
    // What a repair makes is whole.
    let Ok((report, repaired)) = repair(bytes, Vec::new(), |_| {}) else { return };
    let (again, _) = repair(repaired, Vec::new(), |_| {}).expect("a repaired log can be read");
    assert_eq!((again.samples, again.damages, again.was_finished), (report.samples, 0, true));
});

/// Reads on over contained damage, and behind other damage.
fn read(reader: &mut Reader<&[u8]>) {
    loop {
        match reader.next().map(|item| item.map(|item| drop(item.value().map(|value| value.number())))) {
            Ok(Some(())) => {}
            Ok(None) => return,
            Err(error) if error.is_contained() => {}
            Err(_) => {
                let from = reader.block() + 1;
                if !matches!(reader.resync(from), Ok(Some(_))) {
                    return;
                }
            }
        }
    }
}
