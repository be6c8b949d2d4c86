#![no_main]

use khz_policy::Model;

// What is taken for a model can be evaluated, and twice the same.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(mut model) = Model::parse(bytes) else { return };
    let outputs = |model: &Model| -> Vec<u32> {
        let numbers = (0..model.outputs().len()).flat_map(|output| model.output(output));
        // Of a NaN only that it is one is promised.
        numbers.map(|number| if number.is_nan() { u32::MAX } else { number.to_bits() }).collect()
    };
    model.run();
    let first = outputs(&model);
    model.run();
    assert_eq!(outputs(&model), first);
});
