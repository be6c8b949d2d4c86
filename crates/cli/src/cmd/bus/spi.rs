//! `khz bus spi`: a pi3hat's registers, as they are.

use crate::cmd::show;
use anyhow::{Result, anyhow};
use khz_link::pi3hat::Processor;
use khz_robot::desk::hat_spi;
use khz_rt::clock::now_ns;
use std::process::ExitCode;

/// Read registers of a pi3hat's processors, without checking the hat's versions first.
///
/// REGISTER is `PROCESSOR,REGISTER,SIZE`: processor 0 (JC1, JC2), 1 (JC3, JC4) or 2 (JC5, IMU), the register's number and how
/// many bytes to read, for example `2,34,42` for the attitude. Prints a line of hex digits for each.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz bus spi 2,34,42                              the attitude
  khz bus spi --link emulated:pi3hat 1,7,25")]
pub struct Args {
    /// The hat: `pi3hat` on this computer's usual SPI devices, the hat of a robot file, or `emulated:pi3hat`.
    #[arg(long, short, value_name = "LINK", default_value = "pi3hat")]
    link: String,
    /// What to read.
    #[arg(required = true, value_name = "REGISTER", value_parser = parse)]
    reads: Vec<Read>,
}

#[derive(Clone, Debug, PartialEq)]
struct Read {
    of: Processor,
    register: u8,
    size: usize,
}

fn parse(text: &str) -> Result<Read, String> {
    let [of, register, size] = text.split(',').collect::<Vec<_>>()[..] else {
        return Err("write PROCESSOR,REGISTER,SIZE, for example 2,34,42".into());
    };
    let of = match of {
        "0" => Processor::Can1,
        "1" => Processor::Can2,
        "2" => Processor::Aux,
        _ => return Err(format!("{of}: the processors are 0, 1 and 2")),
    };
    let register = register.parse().map_err(|_| format!("{register}: registers are 0 to 255"))?;
    let size = size.parse().ok().filter(|size| (1..=128).contains(size));
    Ok(Read { of, register, size: size.ok_or("a read has 1 to 128 bytes")? })
}

/// Does it.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut spi = hat_spi(&args.link).map_err(|error| anyhow!("{error}"))?;
    for Read { of, register, size } in &args.reads {
        let mut bytes = vec![0; *size];
        spi.read(*of, *register, &mut bytes, now_ns())?;
        let line: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        show(&format!("{line}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_understood_or_explained() {
        assert_eq!(parse("1,7,25"), Ok(Read { of: Processor::Can2, register: 7, size: 25 }));
        for wrong in ["", "1,7", "3,7,25", "1,256,25", "1,7,0", "1,7,129", "1,7,25,r"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
