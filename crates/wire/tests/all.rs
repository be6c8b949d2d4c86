//! The codecs against vectors, other people's code and damage, in one program: linking takes longer than they do.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "what cannot be read fails the test")]

mod common;
mod cubemars;
mod dynamixel;
mod entry_points;
mod feetech;
mod odrive;
mod official;
mod replay;
mod rmd;
mod robstride;
mod robstride_mit;
mod vectors;
