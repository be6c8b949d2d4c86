//! Evaluates a model: `evaluate MODEL [ENGINE]`, by Kilohertz if no other is named. Standard input is what its inputs have, float32 in
//! this machine's order, one observation after the other; standard output is what its outputs have.

use khz_onnxruntime::{Engine, Evaluator};
use std::error::Error;
use std::io::{Read, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let Err(error) = evaluate() else { return ExitCode::SUCCESS };
    let _ = writeln!(std::io::stderr(), "{error}");
    ExitCode::FAILURE
}

fn evaluate() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let path = words.next().ok_or("usage: evaluate MODEL [ENGINE]")?;
    let engine = words.next().map_or(Ok(Engine::Own), |engine| engine.parse())?;
    let mut model = Evaluator::load(&std::fs::read(path)?, engine)?;
    let mut observations = Vec::new();
    std::io::stdin().read_to_end(&mut observations)?;
    let mut numbers =
        observations.as_chunks::<4>().0.iter().map(|&bytes| f32::from_ne_bytes(bytes)).peekable();
    let mut out = std::io::BufWriter::new(std::io::stdout());
    while numbers.peek().is_some() {
        for input in 0..model.inputs().len() {
            for number in model.input_mut(input) {
                *number = numbers.next().ok_or("the last observation is not whole")?;
            }
        }
        model.run()?;
        for output in 0..model.outputs().len() {
            for number in model.output(output) {
                out.write_all(&number.to_ne_bytes())?;
            }
        }
    }
    Ok(out.flush()?)
}
