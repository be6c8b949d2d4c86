//! Values to bytes and back: the register protocol, the frames of each bus, and how long they occupy the wire.
//!
//! Everything here is a pure function of its arguments: no allocation, no clock, no I/O, no panic on any
//! input. Host and emulated servo share this one codec, so a byte has one meaning everywhere.
//!
//! | module | from → to |
//! |---|---|
//! | [`frame`] | identifier + payload of up to 64 bytes, as every bus of the register protocol carries it |
//! | [`request`] | a frame, where it goes, and what it brings |
//! | [`address`] | prefix, source, destination, reply-wanted ⇄ 29-bit identifier |
//! | [`register`] | the register map: number, name, class, access |
//! | [`value`] | physical value ⇄ int8 / int16 / int32 / float |
//! | [`subframe`] | payload ⇄ reads, writes, replies, errors, streams |
//! | [`format`] | which registers travel, and how finely |
//! | [`command`] | commands of a host → payload |
//! | [`reply`] | payload → what a servo reports of itself |
//! | [`template`] | the two of them with everything but the numbers done beforehand, for the tick |
//! | [`device`] | request → reply, for an emulated device |
//! | [`fdcanusb`] | frame ⇄ lines of text, of the USB adapter and of the UART |
//! | [`slcan`] | frame ⇄ lines of text of CANable and Lawicel adapters |
//! | [`text`] | lines ⇄ a byte stream |
//! | [`rs485`] | frame ⇄ bytes of a serial line |
//! | [`serial`] | the same, whichever packets the line's servos speak |
//! | [`mit`] | position, velocity, gains, torque ⇄ the codes of MIT-type servos |
//! | [`damiao`], … | the frames, messages or packets of a family of servos, in a module of its name |
//! | [`pi3hat`] | frames, configuration and IMU ⇄ SPI registers of the hat |
//! | [`udp`] | frames ⇄ datagram |
//! | [`time`] | frame → how long it occupies its wire |
#![no_std]
#![forbid(unsafe_code)]

pub mod address;
pub mod command;
pub mod cubemars;
pub mod damiao;
pub mod device;
pub mod dynamixel;
pub mod fdcanusb;
pub mod feetech;
pub mod format;
pub mod frame;
pub mod mit;
pub mod mode;
pub mod odrive;
pub mod pi3hat;
pub mod register;
pub mod reply;
pub mod request;
pub mod rmd;
pub mod robstride;
pub mod robstride_mit;
pub mod rs485;
pub mod serial;
pub mod slcan;
pub mod subframe;
pub mod template;
pub mod text;
pub mod time;
pub mod udp;
pub mod value;

pub use address::Address;
pub use command::{Command, Position};
pub use format::Format;
pub use frame::Frame;
pub use mode::{Fault, Mode};
pub use register::Register;
pub use reply::Reply;
pub use request::Request;
pub use subframe::{Subframe, Subframes, Writer};
pub use template::{CommandTemplate, Layout, Reading, ReplyLayout, Target};
pub use value::{Class, Resolution, Value};
