//! Serves one CAN-FD bus of servos on a pseudo terminal for fdcanusb clients, until Ctrl-C.
//!
//! ```text
//! $ cargo run -p khz-emu --example serve -- 2
//! /dev/pts/3
//! $ moteus_tool --fdcanusb /dev/pts/3 --info
//! ```

use khz_emu::serve::Server;
use khz_emu::{BusConfig, ServoConfig, World, WorldConfig};
use std::sync::atomic::AtomicBool;

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = std::env::args().nth(1).map_or(Ok(1), |word| word.parse::<u8>())?;
    let servos = (1..=count).map(|id| ServoConfig::new(0, id)).collect();
    let config = WorldConfig { buses: vec![BusConfig::CAN_FD], servos, imu: None, seed: 1 };
    let mut server = Server::new(World::new(&config)?)?;
    for endpoint in server.endpoints() {
        println!("{}", endpoint.display());
    }
    server.run(&AtomicBool::new(false), None)?;
    Ok(())
}
