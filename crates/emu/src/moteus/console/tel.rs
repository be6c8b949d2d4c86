//! `tel`: the telemetry channels, on request or periodically.

use super::{blob, first_word, text};
use crate::moteus::Servo;
use crate::moteus::telemetry::{CHANNELS, Channel};

/// A channel's rate in ms from which it is periodic; less means "with every update".
const PERIODIC_MS: u32 = 10;

/// How each channel is wanted.
#[derive(Clone, Copy, Debug, Default)]
struct Subscription {
    text: bool,
    /// 0 is off.
    rate_ms: u32,
    next_s: f64,
}

/// How all channels are wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct Subscriptions([Subscription; CHANNELS.len()]);

impl Servo {
    pub(super) fn tel(&mut self, line: &str) {
        let (word, rest) = first_word(line);
        let (name, number) = first_word(rest);
        match word {
            "list" => {
                for channel in CHANNELS {
                    self.print(channel.name());
                    self.print("\r\n");
                }
                self.print_ok();
            }
            "stop" => {
                self.console.subscriptions.0.iter_mut().for_each(|wanted| wanted.rate_ms = 0);
                self.print_ok();
            }
            "text" => {
                self.console.subscriptions.0.iter_mut().for_each(|wanted| wanted.text = true);
                self.print_ok();
            }
            "schema" | "get" | "fmt" | "rate" => match index(name) {
                Some(index) => self.tel_channel(word, index, number),
                None => self.print("ERR unknown name\r\n"),
            },
            _ => self.print("ERR unknown subcommand\r\n"),
        }
    }

    fn tel_channel(&mut self, word: &str, index: usize, number: &str) {
        let now_s = self.seconds();
        let wanted = &mut self.console.subscriptions.0[index];
        let number = || number.trim().parse::<u32>().unwrap_or(0);
        match word {
            "schema" => self.tel_schema(CHANNELS[index]),
            "get" => {
                self.emit(index);
                if self.console.subscriptions.0[index].text {
                    self.print_ok();
                }
            }
            "fmt" => {
                wanted.text = number() != 0;
                self.print_ok();
            }
            _ => {
                wanted.rate_ms = match number() {
                    0 => 0,
                    rate => rate.max(PERIODIC_MS),
                };
                wanted.next_s = now_s;
                self.print_ok();
            }
        }
    }

    fn tel_schema(&mut self, channel: Channel) {
        let out = &mut self.console.output;
        channel.with_default(&mut |record| {
            blob::frame(["schema", channel.name()], out, |out| blob::schema(record, out));
        });
    }

    /// Puts out one channel's present values.
    fn emit(&mut self, index: usize) {
        let channel = CHANNELS[index];
        let as_text = self.console.subscriptions.0[index].text;
        let mut out = std::mem::take(&mut self.console.output);
        channel.with(self, &mut |record| {
            if as_text {
                text::enumerate(channel.name(), record, &mut out);
            } else {
                blob::frame(["emit", channel.name()], &mut out, |out| blob::data(record, out));
            }
        });
        self.console.output = out;
    }

    /// Puts out the first channel whose time has come.
    pub(super) fn emit_due(&mut self) {
        let now_s = self.seconds();
        let wanted = &mut self.console.subscriptions.0;
        let due = |wanted: &Subscription| wanted.rate_ms > 0 && wanted.next_s <= now_s;
        if let Some(index) = wanted.iter().position(due) {
            // A client that polls too seldom gets less, not later.
            wanted[index].next_s = now_s + f64::from(wanted[index].rate_ms) * 1e-3;
            self.emit(index);
        }
    }
}

fn index(name: &str) -> Option<usize> {
    CHANNELS.iter().position(|channel| channel.name() == name)
}
