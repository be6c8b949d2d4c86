//! Emulated servos, IMU, body and wire that speak the real bytes; deterministic from a seed.
//!
//! A [`World`] is a whole machine behind one [`khz_link::Link`]: nothing in it reads a clock or sleeps, time
//! is what its callers pass. What is faithful and what is simplified is in `docs/emulator.md`.
//!
//! | module | what |
//! |---|---|
//! | [`world`] | the machine as a link |
//! | [`config`] | what it is made of |
//! | [`bus`] | the wire's own time: arbitration, frame times, turnaround, collisions |
//! | [`hat`] | a pi3hat in front of the machine |
//! | [`pl011`] | a UART in front of a line of servos |
//! | [`twin`] | what the machine needs of a servo, whichever its family |
//! | [`moteus`], [`damiao`], … | one servo of a family, in a module of its name |
//! | [`position_servo`] | a servo that follows positions by a voltage: hobby servos |
//! | [`injection`] | faults put into a servo from outside |
//! | [`misbehaviour`] | servos that do or report something else than they are commanded |
//! | [`thermal`] | how a servo warms up |
//! | [`injected_fault`] | faults by their names, for commands and programs |
//! | [`body`] | what the servos move |
//! | [`serve`] | the machine in real time, for other processes |
#![forbid(unsafe_code)]

pub mod body;
pub mod bus;
pub mod config;
pub mod cubemars;
pub mod damiao;
pub mod dynamixel;
mod family;
pub mod feetech;
mod hand;
pub mod hat;
mod imu;
pub mod injected_fault;
pub mod injection;
mod machine;
pub mod misbehaviour;
mod mit;
pub mod moteus;
pub mod noise;
pub mod odrive;
pub mod pl011;
pub mod position_servo;
mod pusher;
pub mod rmd;
pub mod robstride;
pub mod robstride_mit;
pub mod serve;
mod settings;
mod tamper;
pub mod thermal;
pub mod twin;
pub mod world;

pub use body::{
    Body, BodyConfig, Drive, Forces, Ground, JointState, Joints, Quadruped, QuadrupedConfig, Trunk,
};
pub use config::{BusConfig, Device, ImuConfig, JointConfig, ReceiveBuffers, WireKind};
pub use family::{FamilyConfig, ServoConfig};
pub use injected_fault::InjectedFault;
pub use injection::{Injection, Misbehaviour};
pub use machine::{ConfigError, WorldConfig};
pub use position_servo::{PositionServo, VoltageLaw};
pub use pusher::PUSH_S;
pub use settings::{DeviceConfig, EmulatedLink, EmulationConfig, WireModel};
pub use thermal::HeatConfig;
pub use twin::Twin;
pub use world::{Probe, World};
