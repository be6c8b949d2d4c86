//! What tests of the command share.
#![allow(dead_code, reason = "no test uses all of it")]
#![allow(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Output};

macro_rules! pan_and_tilt {
    () => {
        r#"
[[servo]]
name = "pan"
bus = "main"
id = 1
[[servo]]
name = "tilt"
bus = "main"
id = 2
"#
    };
}

/// A process that ends with the test.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for a message of the robot's process to its service manager, past all others.
pub fn wait_for(notify: &UnixDatagram, wanted: &str) {
    let (mut message, mut waiting) = ([0; 256], Vec::new());
    loop {
        let len = match notify.recv(&mut message) {
            // As after this process was stopped.
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            received => received.unwrap_or_else(|error| panic!("{wanted}: {error}; received {waiting:?}")),
        };
        let text = String::from_utf8_lossy(&message[..len]).into_owned();
        if waiting.last() != Some(&text) {
            waiting.push(text);
        }
        if message[..len].split(|byte| *byte == b'\n').any(|line| line == wanted.as_bytes()) {
            return;
        }
    }
}

/// Two servos on the bus `main`.
pub const SERVOS: &str = pan_and_tilt!();

/// The end of a robot file: lenient, because the machine that runs the tests may be busy.
macro_rules! lenient {
    ($($robot:expr),+) => {
        concat!(
            $($robot,)+
            r#"
[servo_defaults]
watchdog_s = 30.0
[supervisor]
answer_s = 60
damping_s = 0.2
overruns = 100000
[supervisor.reactions]
missed_replies = "damp"
stale = "warn"
controller = "warn"
"#
        )
    };
}

/// A robot of one servo.
pub const PAN: &str = lenient!(
    r#"
[bus.main]
link = "emulated"
[[servo]]
name = "pan"
bus = "main"
id = 1
"#
);

/// A robot of two servos.
pub const PAN_TILT: &str = lenient!(
    r#"
[robot]
name = "pan_tilt"
[bus.main]
link = "emulated""#,
    pan_and_tilt!()
);

/// What `khz` did in a folder.
pub fn khz(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_khz")).args(words).current_dir(folder).output().unwrap()
}

/// What it wrote to standard output.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What it wrote to standard error.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
