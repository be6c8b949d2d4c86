//! The text console on stream channel 1: lines in, text and binary blobs out.
//!
//! | module | commands |
//! |---|---|
//! | [`conf`] | `conf ...`: the settings |
//! | [`tel`] | `tel ...`: the telemetry channels |
//! | [`diagnose`] | `d ...`, `clock ...`, `aux1 ...`, `aux2 ...` |
//! | [`text`] | values as text |
//! | [`blob`] | values as binary, and their schemas |
//!
//! The rules are those of mjbots/mjlib (`mjlib/micro/command_manager.cc`), as `docs/emulator.md` describes them.
//! A line is not looked at before the output of the one before it has been fetched.

mod blob;
mod conf;
mod diagnose;
mod tel;
mod text;

use super::Servo;
use tel::Subscriptions;

/// Stream channel of the console.
const CONSOLE: u32 = 1;
/// A device's stream channels; those after the console tunnel to UARTs that are not connected.
const CHANNELS: std::ops::RangeInclusive<u32> = 1..=3;
/// What a client may send ahead; more than fits is dropped whole.
const INPUT: usize = 128;
/// A longer line, its end included, is ignored.
const LONGEST_LINE: usize = 100;
/// Room for the longest reply (the schema of `servo_stats`), so that answering allocates nothing.
const OUTPUT: usize = 16 * 1024;
/// A block that is not acknowledged for this long is dropped; a real device would keep it for the next
/// client to fail on.
const FORGET_S: f64 = 1.0;

/// The state of one servo's console.
#[derive(Clone, Debug)]
pub(super) struct Console {
    input: [u8; INPUT],
    input_len: usize,
    /// The present line is too long and being skipped.
    skipping: bool,
    output: Vec<u8>,
    /// How much of the output has been fetched.
    taken: usize,
    subscriptions: Subscriptions,
    last_poll_s: f64,
}

impl Console {
    pub(super) fn new() -> Self {
        Self {
            input: [0; INPUT],
            input_len: 0,
            skipping: false,
            output: Vec::with_capacity(OUTPUT),
            taken: 0,
            subscriptions: Subscriptions::default(),
            last_poll_s: f64::INFINITY,
        }
    }

    fn idle(&self) -> bool {
        self.taken == self.output.len()
    }

    /// Takes the first whole line out of the input, without its end; its length in `line`.
    fn take_line(&mut self, line: &mut [u8; LONGEST_LINE]) -> Option<usize> {
        loop {
            let held = &self.input[..self.input_len];
            let Some(end) = held.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
                if self.input_len >= LONGEST_LINE {
                    self.skipping = true;
                    self.input_len = 0;
                }
                return None;
            };
            let usable = !self.skipping && (1..LONGEST_LINE).contains(&end);
            if usable {
                line[..end].copy_from_slice(&held[..end]);
            }
            self.skipping = false;
            self.input.copy_within(end + 1..self.input_len, 0);
            self.input_len -= end + 1;
            if usable {
                return Some(end);
            }
        }
    }
}

impl Servo {
    /// The pending output of a stream channel, if the servo has it.
    pub(super) fn stream_output(&mut self, channel: u32) -> Option<&[u8]> {
        if channel != CONSOLE {
            return CHANNELS.contains(&channel).then_some(&[]);
        }
        self.console.last_poll_s = self.seconds();
        if self.console.idle() {
            self.emit_due();
        }
        Some(&self.console.output[self.console.taken..])
    }

    /// The first `count` bytes of it have been fetched.
    pub(super) fn stream_consume(&mut self, channel: u32, count: usize) {
        if channel != CONSOLE {
            return;
        }
        let console = &mut self.console;
        console.taken = (console.taken + count).min(console.output.len());
        if console.idle() {
            console.output.clear();
            console.taken = 0;
            self.run_lines();
        }
    }

    /// Bytes from the client.
    pub(super) fn stream_input(&mut self, channel: u32, data: &[u8]) {
        let console = &mut self.console;
        let end = console.input_len + data.len();
        if channel != CONSOLE || end > INPUT {
            return;
        }
        console.input[console.input_len..end].copy_from_slice(data);
        console.input_len = end;
        self.run_lines();
    }

    /// True once after the client has been silent for so long that it will not acknowledge anything.
    pub(super) fn console_abandoned(&mut self) -> bool {
        let abandoned = self.seconds() - self.console.last_poll_s > FORGET_S;
        if abandoned {
            self.console.last_poll_s = f64::INFINITY;
        }
        abandoned
    }

    fn run_lines(&mut self) {
        let mut line = [0; LONGEST_LINE];
        while self.console.idle() {
            let Some(len) = self.console.take_line(&mut line) else { return };
            // What is no text cannot be a command either.
            let text = str::from_utf8(&line[..len]).unwrap_or("?");
            self.run(text);
        }
    }

    fn run(&mut self, line: &str) {
        let (word, rest) = first_word(line);
        match word {
            "tel" => self.tel(rest),
            "conf" => self.conf(rest),
            "d" => self.diagnose(rest),
            "clock" => self.clock_command(rest),
            "aux1" => self.aux_command(0, rest),
            "aux2" => self.aux_command(1, rest),
            _ => self.print("ERR unknown command\r\n"),
        }
    }

    fn print(&mut self, text: &str) {
        self.console.output.extend_from_slice(text.as_bytes());
    }

    fn print_ok(&mut self) {
        self.print("OK\r\n");
    }
}

/// The text up to the first space, and what follows it.
fn first_word(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}
