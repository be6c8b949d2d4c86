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
    /// It was told to follow.
    follows: bool,
    /// The last damping frame was half a step above zero velocity.
    above: bool,
    /// It is not set as it was before the first tick.
    is_changed: bool,
    /// Its control mode is another: it takes no command but the special codes.
    is_deaf: bool,
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
            follows: false,
            above: false,
            is_changed: false,
            is_deaf: false,
        }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The bytes for this command. `None`: nothing may be commanded now, only asked. `may_enable`: it is known to
    /// have kept its power.
    pub fn encode(&mut self, command: &ServoCommand, may_enable: bool) -> Option<[u8; 8]> {
        self.damps = *command == ServoCommand::Damp;
        self.follows = matches!(command, ServoCommand::Position(_));
        let is_on = self.status == Some(status::ENABLED);
        match command {
            ServoCommand::Stop => Some(self.switch_off()),
            _ if self.is_deaf => Some(self.switch_off()),
            ServoCommand::Damp => {
                self.may_enable = false;
                self.may_be_on().then(|| self.damp(1.0))
            }
            ServoCommand::Position(_) if self.is_changed => self.may_be_on().then(|| self.damp(1.0)),
            // It has not heard the last stop, or somebody else has switched it on.
            ServoCommand::Position(_) if is_on && self.enables == 0 => Some(self.switch_off()),
            ServoCommand::Position(target) if is_on => Some(self.follow(target)),
            ServoCommand::Position(_) => {
                (may_enable && self.is_to_be_enabled(command)).then(|| self.switch_on())
            }
        }
    }

    /// It is off, and this command needs it on. Damping does not: a joint that is not driven needs no brake.
    pub fn is_to_be_enabled(&self, command: &ServoCommand) -> bool {
        let is_off = self.status == Some(status::DISABLED);
        is_off && self.may_enable && !self.is_changed && matches!(command, ServoCommand::Position(_))
    }

    fn may_be_on(&self) -> bool {
        self.status == Some(status::ENABLED) || self.enables > 0
    }

    fn switch_off(&mut self) -> [u8; 8] {
        (self.may_enable, self.enables, self.damp_next) = (true, 0, true);
        Special::Disable.to_bytes()
    }

    /// No document says whether a motor that is switched on follows an old command. So it is commanded to damp before, and after as
    /// well: it may be on and its answer lost.
    fn switch_on(&mut self) -> [u8; 8] {
        let damp = self.damp_next || self.enables == ENABLES;
        self.damp_next = !damp;
        if damp {
            return self.damp(1.0);
        }
        self.enables += 1;
        Special::Enable.to_bytes()
    }

    /// The frame that damps with this share of the gain for it. No code is 0: those in the middle are half a step below and above
    /// it. They take turns, velocity and torque against each other, or the joint would creep.
    pub fn damp(&mut self, share: f64) -> [u8; 8] {
        self.above = !self.above;
        let (velocity, torque) = (self.settings.velocity().encode(0.0), self.settings.torque().encode(0.0));
        let codes = Codes {
            position: self.settings.position().encode(0.0),
            velocity: velocity + u16::from(self.above),
            kp: KP.encode(0.0),
            kd: KD.encode(share * self.settings.damping),
            torque: torque + u16::from(!self.above),
        };
        codes.to_bytes()
    }

    /// The frame that makes it follow, if it is on.
    pub fn follow(&self, target: &PositionCommand) -> [u8; 8] {
        let (Mounting { sign, .. }, settings) = (self.mounting, &self.settings);
        // Without a position gain the position means nothing; NaN is as 0.
        let position = self.mounting.to_servo(target.position);
        let codes = Codes {
            position: settings.position().encode(position),
            velocity: settings.velocity().encode(sign * target.velocity),
            kp: KP.encode(target.kp_scale * settings.kp),
            kd: KD.encode(target.kd_scale * settings.kd),
            torque: settings.torque().encode(sign * target.torque),
        };
        codes.beside_special_codes().to_bytes()
    }

    /// It is not set as it was before the first tick: it has lost its power, or somebody else has written its registers. It
    /// is not driven until it has been made ready again. `is_deaf`: the control mode is another.
    pub fn has_changed(&mut self, is_deaf: bool) {
        self.is_changed = true;
        self.is_deaf |= is_deaf;
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
            _ if self.is_changed => Doing::Faulted,
            status::DISABLED => Doing::Off,
            status::ENABLED if self.damps => Doing::Damping,
            // It is switched off before it follows.
            status::ENABLED if self.follows && self.enables == 0 => Doing::Starting,
            status::ENABLED => Doing::Following,
            _ => Doing::Faulted,
        };
        let name = status::name(said.status);
        servo.mode = Mode { number: said.status, name };
        servo.fault = match servo.doing {
            _ if self.is_changed => CHANGED,
            Doing::Faulted => Fault { code: said.status.into(), text: name },
            _ => Fault::NONE,
        };
        servo.refused = None;
    }
}

/// Told of a servo that is not set as it was; no servo says so itself.
const CHANGED: Fault = Fault {
    code: 256,
    text: "its registers have changed: it has lost its power, or another program has written them; start a new run",
};

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
        codec.enables = 1;
        codec.heard(status::ENABLED);
        codec
    }

    /// The bytes are those of a frame that damps.
    fn damps(bytes: [u8; 8]) -> bool {
        let Codes { velocity, kp, kd, .. } = Codes::from_bytes(bytes);
        matches!(velocity, 0x7ff | 0x800) && kp == 0 && kd == KD.encode(1.0)
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
        assert!([sent[0], sent[2], sent[29]].into_iter().all(damps));
        codec.heard(status::ENABLED);
        assert_eq!(Special::from_bytes(codec.encode(&hold(0.5), true).unwrap()), None);
        // It has lost its power: what follows must not drive it, not even to damp.
        codec.heard(status::DISABLED);
        assert_eq!(codec.encode(&hold(0.5), true), None);
        assert_eq!(codec.encode(&ServoCommand::Stop, true), Some(Special::Disable.to_bytes()));
        assert!(codec.encode(&hold(0.5), true).is_some_and(damps));
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
        assert!(codec.encode(&ServoCommand::Damp, false).is_some_and(damps));
    }

    #[test]
    fn one_that_is_on_although_nobody_switched_it_on_is_switched_off_and_not_driven() {
        let mut codec = codec(Model::Dm4310, 5.0, 0.5);
        codec.heard(status::ENABLED);
        let mut servo = ServoState::UNKNOWN;
        codec.decode(&state(1), &mut servo);
        assert!(servo.doing.is_on(), "the robot is not armed with it");
        assert_eq!(codec.encode(&hold(0.5), true), Some(Special::Disable.to_bytes()));
        codec.decode(&state(1), &mut servo);
        assert_eq!(servo.doing, Doing::Starting);
        assert_eq!(codec.encode(&hold(0.5), true), Some(Special::Disable.to_bytes()));
        codec.heard(status::DISABLED);
        assert!(codec.encode(&hold(0.5), true).is_some_and(damps));
        assert_eq!(codec.encode(&hold(0.5), true), Some(Special::Enable.to_bytes()));
    }

    #[test]
    fn one_whose_registers_have_changed_is_damped_and_not_driven() {
        let mut codec = running(5.0, 0.5);
        codec.has_changed(false);
        assert!(
            codec.encode(&hold(0.5), true).is_some_and(damps),
            "what only asks would keep its last command alive"
        );
        assert!(codec.encode(&ServoCommand::Damp, true).is_some_and(damps));
        let mut servo = ServoState::UNKNOWN;
        codec.decode(&state(1), &mut servo);
        assert_eq!((servo.doing, servo.fault.code), (Doing::Faulted, 256));
        codec.has_changed(true);
        for command in [hold(0.5), ServoCommand::Damp] {
            assert_eq!(
                codec.encode(&command, true),
                Some(Special::Disable.to_bytes()),
                "nothing else is heard"
            );
        }
    }

    #[test]
    fn before_it_has_been_heard_nothing_is_commanded() {
        let mut codec = Codec::new(Settings::of(&DamiaoSettings::default(), 1), Mounting::default());
        assert_eq!(codec.encode(&hold(0.0), true), None);
        assert_eq!(codec.encode(&ServoCommand::Stop, true), Some(Special::Disable.to_bytes()));
    }

    #[test]
    fn damping_has_no_position_gain_and_stands_still_on_average() {
        for model in [Model::Dm4310, Model::H3510, Model::Dm10010] {
            let mut codec = codec(model, 50.0, 0.5);
            codec.heard(status::ENABLED);
            codec.enables = 1;
            let (velocity, torque) = (codec.settings.velocity(), codec.settings.torque());
            let frames = [0; 2].map(|_| codec.encode(&ServoCommand::Damp, true).unwrap());
            // kp 0, kd 1 of 5: the clients' damping frame, but for half a step.
            assert_eq!(frames[1], [0x7f, 0xff, 0x7f, 0xf0, 0, 0x33, 0x38, 0]);
            let codes = frames.map(Codes::from_bytes);
            let sum = |scale: khz_wire::mit::Scale, code: fn(&Codes) -> u16| -> f64 {
                codes.iter().map(|codes| scale.decode(code(codes))).sum()
            };
            assert!(sum(velocity, |codes| codes.velocity).abs() < 1e-9);
            assert!(sum(torque, |codes| codes.torque).abs() < 1e-9);
        }
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
        let target = PositionCommand { velocity: 1.0, torque: 2.0, ..PositionCommand::hold(-0.25) };
        let bytes = codec.follow(&target);
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
