//! One servo's commands as bytes, and its states as numbers. Here the joint's angles meet the servo's.

use super::Settings;
use crate::{Doing, Fault, Mode, Mounting, PositionCommand, ServoCommand, ServoState};
use khz_wire::damiao::{KD, KP, Special, State, celsius, status};
use khz_wire::mit::Codes;

/// At most how many times a servo is commanded to switch on after a stop.
const ENABLES: u8 = 5;

/// Commands and states of one servo.
#[derive(Debug)]
pub struct Codec {
    settings: Settings,
    mounting: Mounting,
    /// What it said last; `None` before it has said anything.
    status: Option<u8>,
    /// It has not been on, nor told to damp, since it was last told to stop.
    may_enable: bool,
    /// How often it was commanded to switch on since then. Its answer may have been lost, so from the first on it may be on.
    enables: u8,
    /// The last frame told it to switch on, or nothing has been said since the stop.
    damp_next: bool,
    /// It was commanded to damp.
    damps: bool,
    /// Its watchdog is not what it was set to before the first tick.
    is_unset: bool,
}

impl Codec {
    pub fn new(settings: Settings, mounting: Mounting) -> Self {
        Self {
            settings,
            mounting,
            status: None,
            may_enable: true,
            enables: 0,
            damp_next: true,
            damps: false,
            is_unset: false,
        }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The bytes for this command. `None`: nothing may be commanded now, only asked. `may_enable`: it is known to
    /// have kept its power.
    pub fn encode(&mut self, command: &ServoCommand, may_enable: bool) -> Option<[u8; 8]> {
        self.damps = *command == ServoCommand::Damp;
        match command {
            ServoCommand::Stop => {
                (self.may_enable, self.enables, self.damp_next) = (true, 0, true);
                Some(Special::Disable.to_bytes())
            }
            ServoCommand::Damp => {
                self.may_enable = false;
                (self.status == Some(status::ENABLED) || self.enables > 0).then(|| self.damp())
            }
            ServoCommand::Position(_) if self.is_unset => None,
            ServoCommand::Position(target) if self.status == Some(status::ENABLED) => {
                Some(self.follow(target).beside_special_codes().to_bytes())
            }
            ServoCommand::Position(_) => {
                (may_enable && self.is_to_be_enabled(command)).then(|| self.switch_on())
            }
        }
    }

    /// It is off, and this command needs it on. Damping does not: a joint that is not driven needs no brake.
    pub fn is_to_be_enabled(&self, command: &ServoCommand) -> bool {
        let is_off = self.status == Some(status::DISABLED);
        is_off && self.may_enable && !self.is_unset && matches!(command, ServoCommand::Position(_))
    }

    /// No document says whether a motor that is switched on follows an old command. So it is commanded to damp before, and after as
    /// well: it may be on and its answer lost.
    fn switch_on(&mut self) -> [u8; 8] {
        let damp = self.damp_next || self.enables == ENABLES;
        self.damp_next = !damp;
        if damp {
            return self.damp();
        }
        self.enables += 1;
        Special::Enable.to_bytes()
    }

    fn damp(&self) -> [u8; 8] {
        let free = self.follow(&PositionCommand { kp_scale: 0.0, ..PositionCommand::hold(f64::NAN) });
        Codes { kd: KD.encode(self.settings.damping), ..free }.beside_special_codes().to_bytes()
    }

    fn follow(&self, target: &PositionCommand) -> Codes {
        let (Mounting { sign, .. }, settings) = (self.mounting, &self.settings);
        // Without a position gain the position means nothing; NaN is as 0.
        let position = self.mounting.to_servo(target.position);
        Codes {
            position: settings.position().encode(position),
            velocity: settings.velocity().encode(sign * target.velocity),
            kp: KP.encode(target.kp_scale * settings.kp),
            kd: KD.encode(target.kd_scale * settings.kd),
            torque: settings.torque().encode(sign * target.torque),
        }
    }

    /// Its watchdog was read. One that has lost its power has the watchdog, the control mode and the ranges that it was stored
    /// with, if any: it is not driven until it has been made ready again.
    pub fn watchdog_is(&mut self, as_set: bool) {
        self.is_unset |= !as_set;
    }

    /// The servo has said what it is doing.
    pub fn heard(&mut self, status: u8) {
        self.status = Some(status);
        if status != status::DISABLED {
            self.may_enable = false;
        }
    }

    /// Reads a state.
    pub fn decode(&mut self, said: &State, servo: &mut ServoState) {
        self.heard(said.status);
        let (Mounting { sign, .. }, settings) = (self.mounting, &self.settings);
        servo.position = self.mounting.to_joint(settings.position().measured(said.position));
        servo.velocity = sign * settings.velocity().measured(said.velocity);
        servo.torque = sign * settings.torque().measured(said.torque);
        servo.voltage = f64::NAN;
        servo.temperature = celsius(said.board).max(celsius(said.rotor));
        servo.doing = match said.status {
            _ if self.is_unset => Doing::Faulted,
            status::DISABLED => Doing::Off,
            status::ENABLED if self.damps => Doing::Damping,
            status::ENABLED => Doing::Following,
            _ => Doing::Faulted,
        };
        let name = status::name(said.status);
        servo.mode = Mode { number: said.status, name };
        servo.fault = match servo.doing {
            _ if self.is_unset => UNSET,
            Doing::Faulted => Fault { code: said.status.into(), text: name },
            _ => Fault::NONE,
        };
        servo.refused = None;
    }
}

/// Told of a servo that lost its power and so its settings; no servo says so itself.
const UNSET: Fault =
    Fault { code: 256, text: "its watchdog is no longer set: it has lost its power; start a new run" };

#[cfg(test)]
mod tests {
    use super::super::{DamiaoSettings, Model};
    use super::*;

    fn codec(model: Model, kp: f64, kd: f64) -> Codec {
        let file = DamiaoSettings { model: Some(model), kp, kd, ..DamiaoSettings::default() };
        let mut codec = Codec::new(Settings::of(&file, 1), Mounting::default());
        codec.heard(status::DISABLED);
        codec.encode(&ServoCommand::Stop, true);
        codec
    }

    fn running(kp: f64, kd: f64) -> Codec {
        let mut codec = codec(Model::Dm4310, kp, kd);
        codec.heard(status::ENABLED);
        codec
    }

    fn hold(position: f64) -> ServoCommand {
        ServoCommand::Position(PositionCommand::hold(position))
    }

    fn state(status: u8) -> State {
        State { id: 1, status, position: 0x851e, velocity: 0x7ff, torque: 0x7ff, board: 30, rotor: 31 }
    }

    #[test]
    fn it_is_enabled_once_after_a_stop_and_never_again() {
        let mut codec = codec(Model::Dm4310, 5.0, 0.5);
        // Damped before, and after, as long as nobody hears that it is on.
        let sent: Vec<_> = (0..30).map(|_| codec.encode(&hold(0.5), true).unwrap()).collect();
        let enables = sent.iter().filter(|bytes| **bytes == Special::Enable.to_bytes()).count();
        assert_eq!((enables, sent[1]), (5, Special::Enable.to_bytes()));
        assert_eq!([sent[0], sent[2], sent[29]], [codec.damp(); 3]);
        codec.heard(status::ENABLED);
        assert_eq!(Special::from_bytes(codec.encode(&hold(0.5), true).unwrap()), None);
        // It has lost its power: what follows must not drive it, not even to damp.
        codec.heard(status::DISABLED);
        assert_eq!(codec.encode(&hold(0.5), true), None);
        assert_eq!(codec.encode(&ServoCommand::Stop, true), Some(Special::Disable.to_bytes()));
        assert_eq!(codec.encode(&hold(0.5), true), Some(codec.damp()));
        assert_eq!(codec.encode(&hold(0.5), false), None, "it may have lost its power");
        assert_eq!(codec.encode(&hold(0.5), true), Some(Special::Enable.to_bytes()));
    }

    #[test]
    fn no_command_of_the_loop_clears_a_fault() {
        for status in [status::BOARD_TOO_WARM, status::LOST_COMMUNICATION, 15, 7] {
            let mut codec = running(5.0, 0.5);
            codec.heard(status);
            assert_eq!(codec.encode(&hold(0.5), true), None);
            assert_eq!(codec.encode(&ServoCommand::Stop, true), Some(Special::Disable.to_bytes()));
        }
    }

    #[test]
    fn damping_switches_nothing_on() {
        let mut codec = codec(Model::Dm4310, 5.0, 0.5);
        assert_eq!(codec.encode(&ServoCommand::Damp, true), None);
        assert_eq!(codec.encode(&hold(0.5), true), None, "nor does what comes after it");
    }

    #[test]
    fn one_that_may_be_on_is_damped_whatever_was_heard() {
        let mut codec = codec(Model::Dm4310, 5.0, 0.5);
        codec.encode(&hold(0.5), true);
        assert_eq!(codec.encode(&hold(0.5), true), Some(Special::Enable.to_bytes()));
        assert_eq!(codec.encode(&ServoCommand::Damp, false), Some(codec.damp()));
    }

    #[test]
    fn one_whose_watchdog_is_not_set_is_damped_but_not_driven() {
        let mut codec = running(5.0, 0.5);
        codec.watchdog_is(false);
        assert_eq!(codec.encode(&hold(0.5), true), None);
        assert_eq!(codec.encode(&ServoCommand::Damp, true), Some(codec.damp()));
        let mut servo = ServoState::UNKNOWN;
        codec.decode(&state(1), &mut servo);
        assert_eq!((servo.doing, servo.fault.code), (Doing::Faulted, 256));
    }

    #[test]
    fn before_it_has_been_heard_nothing_is_commanded() {
        let mut codec = Codec::new(Settings::of(&DamiaoSettings::default(), 1), Mounting::default());
        assert_eq!(codec.encode(&hold(0.0), true), None);
        assert_eq!(codec.encode(&ServoCommand::Stop, true), Some(Special::Disable.to_bytes()));
    }

    #[test]
    fn damping_has_no_position_gain() {
        let mut codec = running(50.0, 0.5);
        // kp 0, kd 1 of 5: the clients' damping frame.
        assert_eq!(
            codec.encode(&ServoCommand::Damp, true),
            Some([0x7f, 0xff, 0x7f, 0xf0, 0, 0x33, 0x37, 0xff])
        );
    }

    #[test]
    fn every_status_has_a_meaning_and_only_faults_have_a_code() {
        for number in 0..16 {
            let (mut codec, mut servo) = (running(5.0, 0.5), ServoState::UNKNOWN);
            codec.decode(&state(number), &mut servo);
            let expected = match number {
                0 => Doing::Off,
                1 => Doing::Following,
                _ => Doing::Faulted,
            };
            assert_eq!(servo.doing, expected);
            assert_eq!(servo.fault.code == 0, number < 2, "{number}");
            assert!((servo.position - 0.5).abs() < 0.001 && servo.temperature == 31.0);
        }
    }

    #[test]
    fn a_mirrored_joint_is_mirrored_both_ways() {
        let settings = running(5.0, 0.5).settings.clone();
        let mut codec = Codec::new(settings, Mounting { sign: -1.0, offset: 0.25 });
        codec.heard(status::ENABLED);
        let target = PositionCommand { velocity: 1.0, torque: 2.0, ..PositionCommand::hold(-0.25) };
        let bytes = codec.encode(&ServoCommand::Position(target), true).unwrap();
        let codes = Codes::from_bytes(bytes);
        assert!((codec.settings.position().decode(codes.position) - 0.5).abs() < 0.001);
        assert!((codec.settings.velocity().decode(codes.velocity) + 1.0).abs() < 0.02);
        assert!((codec.settings.torque().decode(codes.torque) + 2.0).abs() < 0.01);
        let mut servo = ServoState::UNKNOWN;
        codec.decode(&state(1), &mut servo);
        assert!((servo.position + 0.25).abs() < 0.001);
        codec.decode(&State { position: 0xffff, ..state(1) }, &mut servo);
        assert_eq!(servo.position, f64::NEG_INFINITY);
    }

    #[test]
    fn everything_at_its_greatest_is_no_special_code() {
        let mut codec = running(500.0, 5.0);
        for torque in [9.98, 9.985, 9.99, 9.995, 10.0] {
            let target = PositionCommand { velocity: 30.0, torque, ..PositionCommand::hold(12.5) };
            let bytes = codec.encode(&ServoCommand::Position(target), true).unwrap();
            assert_ne!(bytes[..7], [0xff; 7], "{torque}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_command_is_a_special_code(
            parts in [-1e9..1e9_f64, -1e9..1e9, -1e9..1e9, -10.0..10.0, -10.0..10.0],
            gains in (0.0..500.0_f64, 0.0..5.0_f64),
        ) {
            let [position, velocity, torque, kp_scale, kd_scale] = parts;
            let mut codec = running(gains.0, gains.1);
            let target = PositionCommand { position, velocity, torque, kp_scale, kd_scale, max_torque: f64::NAN };
            let bytes = codec.encode(&ServoCommand::Position(target), true).unwrap();
            proptest::prop_assert_ne!(&bytes[..7], &[0xff; 7]);
        }
    }
}
