//! `d`, `clock`, `aux1`, `aux2`: command the servo by text.

use super::first_word;
use crate::moteus::Servo;
use crate::moteus::command::Command;
use crate::moteus::settings::float;
use khz_wire::Mode;

impl Servo {
    pub(super) fn diagnose(&mut self, line: &str) {
        let (word, rest) = first_word(line);
        let answer = match word {
            "stop" => self.carry_out(Some(Command::new(Mode::Stopped)), ""),
            "pos" => self.carry_out_position(Mode::Position, rest),
            "tmt" => self.carry_out_position(Mode::PositionTimeout, rest),
            "zero" => self.carry_out_position(Mode::ZeroVelocity, rest),
            "within" => self.carry_out_within(rest),
            "brake" => self.carry_out(Some(Command::new(Mode::Brake)), ""),
            "dq" => self.carry_out(direct(Mode::Current, rest, 2), "ERR missing d/q current\r\n"),
            "vdq" => self.carry_out(direct(Mode::VoltageDq, rest, 2), "ERR missing d/q voltage\r\n"),
            "v" => self.carry_out(direct(Mode::Voltage, rest, 3), "ERR missing a/b/c voltage\r\n"),
            "raw" => self.carry_out(direct(Mode::Pwm, rest, 3), "ERR missing pwm value\r\n"),
            "pwm" => self.carry_out(direct(Mode::VoltageFoc, rest, 2), "ERR missing phase or mag\r\n"),
            "nearest" | "rezero" => {
                self.set_output_nearest(float(rest));
                OK
            }
            "exact" | "index" if rest.is_empty() => "ERR missing index value\r\n",
            "exact" | "index" | "cfg-set-output" => {
                self.set_output_exact(float(rest));
                OK
            }
            "req-reindex" => {
                self.require_reindex();
                OK
            }
            "recapture" => {
                self.release();
                OK
            }
            "reset" => return self.reboot(),
            _ => "ERR unknown command\r\n",
        };
        self.print(answer);
    }

    fn carry_out(&mut self, command: Option<Command>, missing: &'static str) -> &'static str {
        let Some(command) = command else { return missing };
        self.written = command;
        self.apply(command);
        OK
    }

    fn carry_out_position(&mut self, mode: Mode, line: &str) -> &'static str {
        let Some(([position, velocity, max_torque], options)) = numbers(line) else {
            return "ERR missing p/v/i\r\n";
        };
        let mut command =
            Command { position, velocity, max_torque, timeout_s: f64::NAN, ..Command::new(mode) };
        if command.read_options(options, "pdisftavocb") {
            self.carry_out(Some(command), "")
        } else {
            "ERR unknown option\r\n"
        }
    }

    fn carry_out_within(&mut self, line: &str) -> &'static str {
        let Some(([lower, upper, max_torque], options)) = numbers(line) else {
            return "ERR missing min/max/t\r\n";
        };
        let start = Command::new(Mode::StayWithin);
        let mut command = Command { lower, upper, max_torque, timeout_s: f64::NAN, ..start };
        if command.read_options(options, "pditfb") {
            self.carry_out(Some(command), "")
        } else {
            "ERR unknown option\r\n"
        }
    }

    pub(super) fn clock_command(&mut self, line: &str) {
        match first_word(line) {
            ("us", _) => self.print_number(i64::from((self.clock.ns / 1000) as u32)),
            ("trim", "") => self.print_number(i64::from(self.clock.trim)),
            ("trim", number) => {
                self.clock.trim = (float(number) as i32).clamp(-8, 8);
                self.print_ok();
            }
            _ => self.print("ERR unknown clock\r\n"),
        }
    }

    pub(super) fn aux_command(&mut self, port: usize, line: &str) {
        let (word, rest) = first_word(line);
        match (word, numbers::<2>(rest)) {
            ("out", _) if rest.is_empty() => self.print("ERR missing gpio value\r\n"),
            ("out", _) => {
                self.set_pins(port, float(rest) as u8);
                self.print_ok();
            }
            ("pwm", Some(([pin, duty], _))) => {
                self.set_duty(port, pin as usize, duty);
                self.print_ok();
            }
            ("pwm", None) => self.print("ERR missing pin or value\r\n"),
            ("ic-extra" | "ic-cmd" | "ic-wr" | "ic-rd", _) => self.print("ERR no iC-PZ setup\r\n"),
            _ => self.print("ERR unknown aux cmd\r\n"),
        }
    }
}

const OK: &str = "OK\r\n";

impl Command {
    /// Reads tokens of a letter and a number; false if a letter is not among `allowed`.
    fn read_options(&mut self, line: &str, allowed: &str) -> bool {
        line.split(' ').filter(|token| !token.is_empty()).all(|token| self.read_option(token, allowed))
    }

    fn read_option(&mut self, token: &str, allowed: &str) -> bool {
        let mut letters = token.chars();
        let Some(letter) = letters.next().filter(|letter| allowed.contains(*letter)) else { return false };
        let value = float(letters.as_str());
        match letter {
            'p' => self.kp_scale = value,
            'd' => self.kd_scale = value,
            'i' => self.ilimit_scale = value,
            's' => self.stop_position = value,
            'f' => self.feedforward = value,
            't' => self.timeout_s = value,
            'a' => self.accel_limit = value,
            'v' => self.velocity_limit = value,
            'o' => self.fixed_voltage = value,
            'c' => self.fixed_current = value,
            _ => self.ignore_bounds = value != 0.0,
        }
        true
    }
}

/// A command made of the mode's own numbers; the voltage angle may have a rate after it.
fn direct(mode: Mode, line: &str, needed: usize) -> Option<Command> {
    let given = line.split(' ').filter(|token| !token.is_empty()).count();
    if given < needed {
        return None;
    }
    let mut tokens = line.split(' ').filter(|token| !token.is_empty()).map(float);
    let [a, b, c] = [0; 3].map(|_: i32| tokens.next().unwrap_or(0.0));
    let mut command = Command::new(mode);
    match mode {
        Mode::Current => (command.d_a, command.q_a) = (a, b),
        Mode::VoltageDq => (command.d_v, command.q_v) = (a, b),
        Mode::VoltageFoc => {
            // The console counts radians, the registers half turns.
            let half_turn = std::f64::consts::PI;
            (command.theta, command.voltage, command.theta_rate) = (a / half_turn, b, c / half_turn);
        }
        Mode::Voltage => command.phase_v = [a, b, c],
        _ => command.pwm = [a, b, c],
    }
    Some(command)
}

/// The first `N` numbers of a line, and what follows.
fn numbers<const N: usize>(line: &str) -> Option<([f64; N], &str)> {
    let mut found = [0.0; N];
    let mut rest = line;
    for number in &mut found {
        let (token, after) = first_word(rest);
        if token.is_empty() {
            return None;
        }
        *number = float(token);
        rest = after;
    }
    Some((found, rest))
}
