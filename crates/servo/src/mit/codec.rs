//! The commands to one servo, and its states as numbers. Here the joint's angles meet the servo's.

use super::drive::Scales;
use super::motion::Motion;
use super::{Drive, Message, Output, Reported};
use crate::{Doing, Fault, Mounting, PositionCommand, ServoCommand, ServoState, Track};
use khz_wire::mit::Codes;

/// At most how many times a servo is commanded to switch on after a stop.
const ENABLES: u8 = 5;

/// Registers are not as they were set.
pub const CHANGED: Fault = Fault {
    code: 256,
    text: "its registers have changed: it has lost its power, or another program has written them; start a new run",
};
/// It was silent, and nothing can be read that would show that it has kept its power.
pub const SILENT: Fault = Fault {
    code: 257,
    text: "it was silent: it may have lost its power, and with it its zero; start a new run",
};
/// Its velocities do not fit its positions.
pub const UNFIT: Fault = Fault {
    code: 258,
    text: "its velocities do not fit its positions: is its `model` right in the robot file?",
};
/// Its position has changed by more than its greatest velocity allows.
pub const JUMPED: Fault = Fault {
    code: 259,
    text: "its position has jumped: its zero is another, it has lost its power, or it has turned beyond the end of its range; start a new run",
};
/// It answers more than it is asked.
pub const INTRUDED: Fault = Fault {
    code: 260,
    text: "it answers more than it is asked: another program commands it, or another servo has its id; end that, and start a new run",
};
/// It exerts next to no torque although it is commanded to.
pub const LIMP: Fault = Fault {
    code: 261,
    text: "it exerts no torque although it is commanded to: another program or a fault of its own (heat, voltage) has switched it off, or it has lost its power; find out which, then start a new run",
};

/// A commanded torque below this share of the range shows nothing, …
const SHOWS: f64 = 0.1;
/// … nor does one if more than this share of the range is exerted, …
const EXERTED: f64 = 0.02;
/// … nor while the joint turns faster in the direction it is pushed in, rad/s: there the motor may have no torque left, …
const STILL: f64 = 0.2;
/// … nor for a shorter time, ns.
const LIMP_NS: i64 = 100_000_000;

/// Positions farther apart than this, ns, give no velocity.
const STOOD_NS: i64 = 250_000_000;

/// Commands and states of one servo.
#[derive(Debug)]
pub struct Codec {
    drive: Drive,
    scales: Scales,
    mounting: Mounting,
    /// The state of its output, as last reported; `None` before the first report.
    output: Option<Output>,
    /// Its last command.
    sent: Message,
    /// It has not been on, nor commanded to damp while it may have been, since it was last commanded to stop.
    may_enable: bool,
    /// How often it was commanded to switch on since then. Its answer may have been lost, so from the first on it may be on.
    enables: u8,
    /// Since then it has been set up, to be switched on after that.
    is_set_up: bool,
    /// The last frame switched it on, or nothing has been sent since the stop.
    damp_next: bool,
    /// The next stop may clear what its watchdog has left.
    may_clear: bool,
    /// It was commanded to damp.
    damps: bool,
    /// It was commanded to follow.
    follows: bool,
    /// The last damping frame was half a step above zero velocity.
    above: bool,
    /// Why it is not driven any more: no servo reports that itself.
    changed: Option<Fault>,
    /// It takes no command but to switch on and off.
    is_deaf: bool,
    motion: Motion,
    /// Where it was, as the servo has it.
    track: Track,
    /// The meaning of its velocity codes is undocumented: they are compared with its positions.
    is_compared: bool,
    /// When it last exerted next to no torque although it was commanded to, and for how long that has shown, ns.
    limp: Option<(i64, i64)>,
    /// Where the joint was when only its position was reported, rad, and when, ns.
    stood: (f64, i64),
}

impl Codec {
    pub fn new(drive: Drive, mounting: Mounting) -> Self {
        Self {
            scales: drive.scales(),
            drive,
            mounting,
            output: None,
            sent: Message::Ask,
            may_enable: true,
            enables: 0,
            is_set_up: false,
            damp_next: true,
            may_clear: false,
            damps: false,
            follows: false,
            above: false,
            changed: None,
            is_deaf: false,
            motion: Motion::default(),
            track: Track::default(),
            is_compared: false,
            limp: None,
            stood: (f64::NAN, i64::MIN),
        }
    }

    /// The same; whether its velocities are compared with its positions.
    pub fn comparing(self, is_compared: bool) -> Self {
        Self { is_compared, ..self }
    }

    /// It is driven as it was set, as far as anybody knows.
    pub fn is_sound(&self) -> bool {
        self.changed.is_none()
    }

    /// What to send for this command. `may_enable`: it is known to have kept its power.
    pub fn encode(&mut self, command: &ServoCommand, may_enable: bool) -> Message {
        self.damps = *command == ServoCommand::Damp;
        self.follows = matches!(command, ServoCommand::Position(_));
        self.sent = self.choose(command, may_enable);
        self.sent
    }

    fn choose(&mut self, command: &ServoCommand, may_enable: bool) -> Message {
        let is_on = self.output == Some(Output::On);
        match command {
            ServoCommand::Stop => self.switch_off(),
            _ if self.is_deaf => self.switch_off(),
            ServoCommand::Damp => {
                // One that is only being set up has nothing to damp, and is switched on after a moment without its replies, too.
                (self.may_enable, self.may_clear) =
                    (self.may_enable && self.is_set_up && self.enables == 0, false);
                self.damp_or_ask()
            }
            ServoCommand::Position(_) if self.is_broken() => self.damp_or_ask(),
            // It has not received the last stop, or another host has switched it on.
            ServoCommand::Position(_) if is_on && self.enables == 0 => self.switch_off(),
            ServoCommand::Position(target) if is_on => Message::Command(self.follow(target)),
            ServoCommand::Position(_) if may_enable && self.is_to_be_enabled(command) => self.switch_on(),
            // It may be switching on. To ask a CyberGear or a CubeMars is to switch it off.
            ServoCommand::Position(_) if self.enables > 0 && self.is_to_be_enabled(command) => {
                Message::Command(self.damp(1.0))
            }
            ServoCommand::Position(_) => Message::Ask,
        }
    }

    /// It is off, and this command needs it on. Damping does not: a joint that is not driven needs no brake.
    pub fn is_to_be_enabled(&self, command: &ServoCommand) -> bool {
        let is_off = matches!(self.output, Some(Output::Off | Output::Starting));
        is_off && self.may_enable && self.changed.is_none() && matches!(command, ServoCommand::Position(_))
    }

    fn is_broken(&self) -> bool {
        self.changed.is_some()
            || matches!(self.output, Some(Output::TimedOut | Output::Faulted | Output::Astray))
    }

    /// What only asks would keep the last command of one that is on alive.
    fn damp_or_ask(&mut self) -> Message {
        let may_be_on = matches!(self.output, Some(Output::On | Output::Astray)) || self.enables > 0;
        if may_be_on { Message::Command(self.damp(1.0)) } else { Message::Ask }
    }

    fn switch_off(&mut self) -> Message {
        (self.may_enable, self.enables, self.is_set_up, self.damp_next) = (true, 0, false, true);
        let clears =
            std::mem::take(&mut self.may_clear) && self.output == Some(Output::TimedOut) && self.is_sound();
        if clears { Message::Clear } else { Message::Disable }
    }

    /// No document states whether a servo that is switched on follows an old command. So it is commanded to damp before, and after as
    /// well: it may be on and its answer lost.
    fn switch_on(&mut self) -> Message {
        self.may_clear = false;
        let damp = self.damp_next || self.enables == ENABLES;
        self.damp_next = !damp;
        if damp {
            return Message::Command(self.damp(1.0));
        }
        self.enables += 1;
        Message::Enable
    }

    /// What was made of [`Message::Enable`] only sets it up, and is not counted.
    pub fn was_not_switched_on(&mut self) {
        (self.enables, self.is_set_up) = (self.enables.saturating_sub(1), true);
    }

    /// The codes that damp with this share of the gain for it. No code is 0: those in the middle are half a step below and above
    /// it. They take turns, velocity and torque against each other, or the joint would creep.
    pub fn damp(&mut self, share: f64) -> Codes {
        self.above = !self.above;
        let (drive, scales) = (&self.drive, &self.scales);
        let (velocity, torque) = (scales.velocity.encode(0.0), scales.torque.encode(0.0));
        Codes {
            position: scales.position.encode(0.0),
            velocity: velocity + u32::from(self.above),
            kp: scales.kp.encode(0.0),
            kd: scales.kd.encode(share * drive.damping),
            torque: torque + u32::from(!self.above),
        }
    }

    /// The codes that make it follow, if it is on.
    pub fn follow(&self, target: &PositionCommand) -> Codes {
        let (Mounting { sign, .. }, drive, scales) = (self.mounting, &self.drive, &self.scales);
        // Without a position gain the position means nothing; NaN is as 0.
        let position = self.mounting.to_servo(target.position);
        Codes {
            position: scales.position.encode(position),
            velocity: scales.velocity.encode(sign * target.velocity),
            kp: scales.kp.encode(target.kp_scale * drive.kp),
            kd: scales.kd.encode(target.kd_scale * drive.kd),
            torque: scales.torque.encode(sign * target.torque),
        }
    }

    /// It is not what it was before the first tick, and is not driven until it has been made ready again.
    pub fn has_changed(&mut self, why: Fault) {
        self.changed.get_or_insert(why);
    }

    /// The next stop, if it is the next command, may clear what its watchdog has left: no other fault, and of no servo that is not driven
    /// any more.
    pub fn may_clear_timeout(&mut self) {
        self.may_clear = true;
    }

    /// Nor does it take commands any more.
    pub fn is_deaf(&mut self) {
        self.is_deaf = true;
    }

    /// The servo has reported the state of its output. `newest`: in reply to its last command.
    pub fn output_reported(&mut self, output: Output, newest: bool) {
        let output = match (output, self.sent) {
            (Output::AsCommanded, Message::Enable) if newest => Output::On,
            (Output::AsCommanded, Message::Disable) if newest => Output::Off,
            (Output::AsCommanded, _) => self.output.unwrap_or(Output::Off),
            (output, _) => output,
        };
        self.output = Some(output);
        if !matches!(output, Output::Off | Output::Starting) {
            self.may_enable = false;
        }
    }

    /// Reads a state of the time that `servo` has.
    pub fn decode(&mut self, reported: &Reported, newest: bool, servo: &mut ServoState) {
        let velocity = self.scales.velocity.measured(reported.velocity);
        self.read(reported, velocity, newest, servo);
    }

    /// The same for a position alone, reported at this time. False: it is the first for a while, so that there is no velocity, and nothing is
    /// read.
    pub fn decode_position(
        &mut self,
        reported: &Reported,
        at_ns: i64,
        newest: bool,
        servo: &mut ServoState,
    ) -> bool {
        let position = self.scales.position.measured(reported.position);
        let (before, before_ns) = std::mem::replace(&mut self.stood, (position, at_ns));
        let since_ns = at_ns.saturating_sub(before_ns);
        if !(1..STOOD_NS).contains(&since_ns) {
            return false;
        }
        servo.at_ns = at_ns;
        self.read(reported, f64::NAN, newest, servo);
        (servo.velocity, servo.torque) = ((position - before) / (since_ns as f64 * 1e-9), f64::NAN);
        servo.velocity *= self.mounting.sign;
        true
    }

    fn read(&mut self, reported: &Reported, velocity: f64, newest: bool, servo: &mut ServoState) {
        self.output_reported(reported.output, newest);
        let (Mounting { sign, .. }, scales) = (self.mounting, &self.scales);
        let position = scales.position.measured(reported.position);
        let torque = scales.torque.measured(reported.torque);
        servo.position = self.mounting.to_joint(position);
        servo.velocity = sign * velocity;
        servo.torque = sign * torque;
        servo.voltage = f64::NAN;
        servo.temperature = reported.celsius;
        self.compare(servo.at_ns, position, velocity);
        if reported.output == Output::AsCommanded {
            self.look_whether_limp(servo.at_ns, [position, velocity, torque]);
        }
        let is_broken = self.is_broken();
        servo.doing = match self.output {
            // Whatever else is wrong with it: its output is not off yet.
            Some(Output::On | Output::Astray) if is_broken && self.sent == Message::Disable => Doing::Other,
            _ if is_broken => Doing::Faulted,
            Some(Output::On) if self.damps => Doing::Damping,
            // It is switched off before it follows.
            Some(Output::On) if self.follows && self.enables == 0 => Doing::Starting,
            Some(Output::On) => Doing::Following,
            Some(Output::Starting) => Doing::Starting,
            _ => Doing::Off,
        };
        servo.mode = reported.mode;
        servo.fault = self.changed.unwrap_or(reported.fault);
        servo.refused = None;
    }

    /// Whether what it reports is plausible.
    fn compare(&mut self, at_ns: i64, position: f64, velocity: f64) {
        let [furthest, fastest, _] = self.drive.ranges;
        if self.track.jumps(at_ns, [position, velocity], [fastest, furthest]) {
            self.has_changed(JUMPED);
        }
        if self.is_compared && !self.motion.fits(at_ns, position, velocity) {
            self.has_changed(UNFIT);
        }
    }

    /// One that does not report whether its output is on shows it by its torque: that of its last command.
    fn look_whether_limp(&mut self, at_ns: i64, [position, velocity, torque]: [f64; 3]) {
        let Message::Command(codes) = self.sent else { return };
        let (drive, scales) = (&self.drive, &self.scales);
        let wanted = scales.kp.decode(codes.kp) * (scales.position.decode(codes.position) - position)
            + scales.kd.decode(codes.kd) * (scales.velocity.decode(codes.velocity) - velocity)
            + scales.torque.decode(codes.torque);
        let exerts_nothing = self.output == Some(Output::On)
            && wanted.abs().min(drive.ranges[2]) > SHOWS * drive.ranges[2]
            && torque.abs() < EXERTED * drive.ranges[2];
        let shows = velocity.abs() < STILL || velocity * wanted < 0.0;
        let before = self.limp.filter(|_| exerts_nothing);
        let for_ns = before
            .map_or(0, |(last_ns, for_ns)| for_ns + if shows { at_ns.saturating_sub(last_ns) } else { 0 });
        self.limp = exerts_nothing.then_some((at_ns, for_ns));
        if for_ns > LIMP_NS {
            self.has_changed(LIMP);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;

    const DRIVE: Drive =
        Drive { kp: 5.0, kd: 0.5, damping: 1.0, ranges: [12.5, 30.0, 10.0], most: [500.0, 5.0], bits: 12 };

    fn codec(drive: Drive) -> Codec {
        let mut codec = Codec::new(drive, Mounting::default());
        codec.output_reported(Output::Off, true);
        codec.encode(&ServoCommand::Stop, true);
        codec
    }

    fn running() -> Codec {
        let mut codec = codec(DRIVE);
        codec.enables = 1;
        codec.output_reported(Output::On, true);
        codec
    }

    /// What is sent makes a servo damp, and nothing else.
    fn damps(message: Message) -> bool {
        let Message::Command(Codes { velocity, kp, kd, .. }) = message else { return false };
        matches!(velocity, 0x7ff | 0x800) && kp == 0 && kd == DRIVE.kd().encode(1.0)
    }

    fn hold(position: f64) -> ServoCommand {
        ServoCommand::Position(PositionCommand::hold(position))
    }

    fn reported(output: Output) -> Reported {
        Reported {
            output,
            mode: Mode::UNKNOWN,
            fault: Fault::NONE,
            position: 0x851e,
            velocity: 0x7ff,
            torque: 0x7ff,
            celsius: 31.0,
        }
    }

    #[test]
    fn it_is_enabled_once_after_a_stop_and_never_again() {
        let mut codec = codec(DRIVE);
        // Damped before, and after, until it reports that it is on.
        let sent: Vec<_> = (0..30).map(|_| codec.encode(&hold(0.5), true)).collect();
        let enables = sent.iter().filter(|message| **message == Message::Enable).count();
        assert_eq!((enables, sent[1]), (5, Message::Enable));
        assert!([sent[0], sent[2], sent[29]].into_iter().all(damps));
        codec.output_reported(Output::On, true);
        assert!(matches!(codec.encode(&hold(0.5), true), Message::Command(_)));
        codec.output_reported(Output::Off, true);
        assert_eq!(codec.encode(&hold(0.5), true), Message::Ask, "somebody has switched it off");
        assert_eq!(codec.encode(&ServoCommand::Stop, true), Message::Disable);
        codec.encode(&hold(0.5), true);
        assert_eq!(codec.encode(&hold(0.5), true), Message::Enable);
    }

    #[test]
    fn one_that_may_have_lost_its_power_is_not_enabled() {
        let mut codec = codec(DRIVE);
        assert_eq!(codec.encode(&hold(0.5), false), Message::Ask);
    }

    /// To ask some is to switch them off again.
    #[test]
    fn one_that_may_be_switching_on_is_damped_until_it_is_known_to_have_kept_its_power() {
        let mut codec = codec(DRIVE);
        let sent = [true, true, false, false].map(|may_enable| codec.encode(&hold(0.5), may_enable));
        assert!(sent[1] == Message::Enable && [sent[0], sent[2], sent[3]].into_iter().all(damps), "{sent:?}");
    }

    #[test]
    fn no_command_of_the_loop_clears_a_fault() {
        let mut codec = running();
        codec.output_reported(Output::Faulted, true);
        assert!(damps(codec.encode(&hold(0.5), true)), "its output may be on");
        assert_eq!(codec.encode(&ServoCommand::Stop, true), Message::Disable);
        assert_eq!(codec.encode(&hold(0.5), true), Message::Ask);
    }

    #[test]
    fn a_stop_clears_what_a_watchdog_has_left_if_it_may_and_nothing_else() {
        let last_sent = |output, may_clear: bool, commands: &[ServoCommand]| {
            let mut codec = running();
            codec.output_reported(output, true);
            if may_clear {
                codec.may_clear_timeout();
            }
            commands.iter().map(|command| codec.encode(command, true)).last()
        };
        let stop = [ServoCommand::Stop];
        assert_eq!(last_sent(Output::TimedOut, true, &stop), Some(Message::Clear));
        assert_eq!(
            last_sent(Output::TimedOut, true, &[ServoCommand::Stop; 2]),
            Some(Message::Disable),
            "once"
        );
        assert_eq!(last_sent(Output::TimedOut, false, &stop), Some(Message::Disable));
        assert_eq!(
            last_sent(Output::TimedOut, true, &[ServoCommand::Damp, ServoCommand::Stop]),
            Some(Message::Disable)
        );
        for output in [Output::Faulted, Output::Astray, Output::On, Output::Off] {
            assert_eq!(last_sent(output, true, &stop), Some(Message::Disable), "{output:?}");
        }
        let mut changed = running();
        changed.output_reported(Output::TimedOut, true);
        changed.has_changed(CHANGED);
        changed.may_clear_timeout();
        assert_eq!(changed.encode(&ServoCommand::Stop, true), Message::Disable);
    }

    #[test]
    fn one_whose_watchdog_was_cleared_is_damped_before_and_after_it_is_switched_on() {
        let mut codec = running();
        codec.output_reported(Output::TimedOut, true);
        assert!(damps(codec.encode(&ServoCommand::Damp, true)));
        codec.may_clear_timeout();
        assert_eq!(codec.encode(&ServoCommand::Stop, true), Message::Clear);
        codec.output_reported(Output::Off, true);
        assert_eq!(
            codec.encode(&hold(0.5), false),
            Message::Ask,
            "not before it is known to have kept its power"
        );
        assert!(damps(codec.encode(&hold(0.5), true)));
        assert_eq!(codec.encode(&hold(0.5), true), Message::Enable);
        assert!(damps(codec.encode(&hold(0.5), true)));
    }

    #[test]
    fn damping_switches_nothing_on() {
        let mut codec = codec(DRIVE);
        assert_eq!(codec.encode(&ServoCommand::Damp, true), Message::Ask);
        assert_eq!(codec.encode(&hold(0.5), true), Message::Ask, "nor does what comes after it");
    }

    #[test]
    fn one_that_may_be_on_is_damped_whatever_was_received() {
        let mut codec = codec(DRIVE);
        codec.encode(&hold(0.5), true);
        assert_eq!(codec.encode(&hold(0.5), true), Message::Enable);
        assert!(damps(codec.encode(&ServoCommand::Damp, false)));
    }

    #[test]
    fn one_that_is_on_although_it_was_not_switched_on_is_switched_off_and_not_driven() {
        let mut codec = codec(DRIVE);
        codec.output_reported(Output::On, true);
        let mut servo = ServoState::UNKNOWN;
        codec.decode(&reported(Output::On), true, &mut servo);
        assert!(servo.doing.is_on(), "the robot is not armed with it");
        assert_eq!(codec.encode(&hold(0.5), true), Message::Disable);
        codec.decode(&reported(Output::On), true, &mut servo);
        assert_eq!(servo.doing, Doing::Starting);
        assert_eq!(codec.encode(&hold(0.5), true), Message::Disable);
        codec.output_reported(Output::Off, true);
        assert!(damps(codec.encode(&hold(0.5), true)));
        assert_eq!(codec.encode(&hold(0.5), true), Message::Enable);
    }

    #[test]
    fn one_whose_registers_have_changed_is_damped_and_not_driven() {
        let mut codec = running();
        codec.has_changed(CHANGED);
        assert!(damps(codec.encode(&hold(0.5), true)), "what only asks would keep its last command alive");
        assert!(damps(codec.encode(&ServoCommand::Damp, true)));
        let mut servo = ServoState::UNKNOWN;
        codec.decode(&reported(Output::On), true, &mut servo);
        assert_eq!((servo.doing, servo.fault.code), (Doing::Faulted, 256));
        codec.is_deaf();
        for command in [hold(0.5), ServoCommand::Damp] {
            assert_eq!(codec.encode(&command, true), Message::Disable, "nothing else is heard");
        }
    }

    /// It counted as one that had switched itself off, so a run ended well with a servo that reported in every reply that it was on.
    #[test]
    fn one_with_a_fault_that_says_that_it_is_on_is_not_off() {
        let mut changed = running();
        changed.has_changed(JUMPED);
        for (mut codec, output) in [(changed, Output::On), (running(), Output::Astray)] {
            let mut servo = ServoState::UNKNOWN;
            for (command, doing) in [(hold(0.5), Doing::Faulted), (ServoCommand::Stop, Doing::Other)] {
                codec.encode(&command, true);
                codec.decode(&reported(output), true, &mut servo);
                assert_eq!(servo.doing, doing, "{output:?}");
            }
            codec.decode(&reported(Output::Faulted), true, &mut servo);
            assert_eq!(servo.doing, Doing::Faulted, "off by now");
        }
    }

    #[test]
    fn before_its_first_reply_nothing_is_commanded() {
        let mut codec = Codec::new(DRIVE, Mounting::default());
        assert_eq!(codec.encode(&hold(0.0), true), Message::Ask);
        assert_eq!(codec.encode(&ServoCommand::Stop, true), Message::Disable);
    }

    #[test]
    fn one_that_does_not_say_what_it_does_is_as_it_was_commanded_if_it_has_answered_that() {
        let mut codec = Codec::new(DRIVE, Mounting::default());
        codec.encode(&ServoCommand::Stop, true);
        codec.output_reported(Output::AsCommanded, true);
        codec.encode(&hold(0.5), true);
        codec.output_reported(Output::AsCommanded, true);
        assert_eq!(codec.encode(&hold(0.5), true), Message::Enable);
        // The answer to something older is no evidence of it.
        codec.output_reported(Output::AsCommanded, false);
        assert!(damps(codec.encode(&hold(0.5), true)));
        assert_eq!(codec.encode(&hold(0.5), true), Message::Enable);
        codec.output_reported(Output::AsCommanded, true);
        assert!(matches!(codec.encode(&hold(0.5), true), Message::Command(codes) if codes.kp > 0));
    }

    #[test]
    fn damping_has_no_position_gain_and_stands_still_on_average() {
        for (most, bits) in [([12.5, 280.0, 1.0], 12), ([12.5, 20.0, 200.0], 12), ([12.57, 44.0, 17.0], 16)] {
            let drive = Drive { ranges: most, bits, ..DRIVE };
            let mut codec = codec(drive.clone());
            codec.output_reported(Output::On, true);
            codec.enables = 1;
            let sent = [0; 2].map(|_| codec.encode(&ServoCommand::Damp, true));
            let [Message::Command(one), Message::Command(other)] = sent else { panic!() };
            assert_eq!((one.kp, other.kd), (0, drive.kd().encode(1.0)));
            let (velocity, torque) = (drive.velocity(), drive.torque());
            assert!((velocity.decode(one.velocity) + velocity.decode(other.velocity)).abs() < 1e-9);
            assert!((torque.decode(one.torque) + torque.decode(other.torque)).abs() < 1e-9);
        }
    }

    #[test]
    fn a_mirrored_joint_is_mirrored_both_ways() {
        let mut codec = Codec::new(DRIVE, Mounting { sign: -1.0, offset: 0.25 });
        let target = PositionCommand { velocity: 1.0, torque: 2.0, ..PositionCommand::hold(-0.25) };
        let codes = codec.follow(&target);
        assert!((DRIVE.position().decode(codes.position) - 0.5).abs() < 0.001);
        assert!((DRIVE.velocity().decode(codes.velocity) + 1.0).abs() < 0.02);
        assert!((DRIVE.torque().decode(codes.torque) + 2.0).abs() < 0.01);
        let mut servo = ServoState::UNKNOWN;
        codec.decode(&reported(Output::On), true, &mut servo);
        assert!((servo.position + 0.25).abs() < 0.001);
        codec.decode(&Reported { position: 0xffff, ..reported(Output::On) }, true, &mut servo);
        assert_eq!(servo.position, f64::NEG_INFINITY);
    }

    #[test]
    fn a_position_that_has_gone_round_is_no_position() {
        let (mut codec, mut servo) = (running(), ServoState::UNKNOWN);
        codec.encode(&hold(0.5), true);
        for position in [0xfff0, 0x0010] {
            assert_eq!(servo.fault, Fault::NONE);
            codec.decode(&Reported { position, ..reported(Output::On) }, true, &mut servo);
        }
        assert_eq!((servo.fault, servo.doing), (JUMPED, Doing::Faulted));
        assert!(damps(codec.encode(&hold(0.5), true)));
    }

    #[test]
    fn a_zero_that_another_host_sets_is_no_motion() {
        let (mut codec, mut servo) = (running(), ServoState::UNKNOWN);
        for tick in 0..100_u16 {
            servo.at_ns = i64::from(tick) * 1_000_000;
            // 20 rad/s, and at half time the zero is another.
            let position = f64::from(tick) * 0.02 - if tick >= 50 { 0.9 } else { 0.0 };
            let position = DRIVE.position().encode(position);
            let velocity = DRIVE.velocity().encode(20.0);
            codec.decode(&Reported { position, velocity, ..reported(Output::On) }, true, &mut servo);
            assert_eq!(servo.fault, if tick >= 50 { JUMPED } else { Fault::NONE }, "{tick}");
        }
    }

    #[test]
    fn one_that_exerts_no_torque_and_does_not_say_that_it_is_off_is_found_out() {
        for (torque, expected) in [(0.0, LIMP), (5.0, Fault::NONE)] {
            let mut codec = Codec::new(Drive { kp: 20.0, ..DRIVE }, Mounting::default());
            let mut servo = ServoState::UNKNOWN;
            let mut state =
                Reported { torque: DRIVE.torque().encode(torque), ..reported(Output::AsCommanded) };
            for tick in 0..300_i64 {
                servo.at_ns = tick * 1_000_000;
                // Half a radian away: 10 N·m, half of them because of friction.
                let command = if tick == 0 { ServoCommand::Stop } else { hold(0.0) };
                codec.encode(&command, true);
                state.position = 0x851e;
                codec.decode(&state, true, &mut servo);
            }
            assert_eq!(servo.fault, expected);
        }
    }

    /// The run went on while its joint swung freely: it never stood still for long enough.
    #[test]
    fn one_that_swings_without_torque_is_found_out_but_not_one_that_has_none_left() {
        let fault = |velocity: fn(f64) -> f64| {
            let mut codec = Codec::new(Drive { kp: 20.0, ..DRIVE }, Mounting::default());
            let (mut servo, mut position) = (ServoState::UNKNOWN, 0.0);
            for tick in 0..1000_i64 {
                servo.at_ns = tick * 1_000_000;
                let command = if tick == 0 { ServoCommand::Stop } else { hold(10.0) };
                codec.encode(&command, true);
                let speed = velocity(tick as f64 * 1e-3);
                position += speed * 1e-3;
                let [position, velocity] =
                    [DRIVE.position().encode(position), DRIVE.velocity().encode(speed)];
                let torque = DRIVE.torque().encode(0.0);
                codec.decode(
                    &Reported { position, velocity, torque, ..reported(Output::AsCommanded) },
                    true,
                    &mut servo,
                );
            }
            servo.fault
        };
        assert_eq!(fault(|s| 3.0 * (5.0 * s).cos()), LIMP);
        assert_eq!(fault(|_| 3.0), Fault::NONE, "as fast as its supply lets it turn");
    }

    #[test]
    fn velocities_of_another_model_end_in_damping() {
        let (mut codec, mut servo) = (running(), ServoState::UNKNOWN);
        codec.is_compared = true;
        for tick in 0..400_u16 {
            servo.at_ns = i64::from(tick) * 1_000_000;
            // 2 rad/s, reported as 4.
            let position = DRIVE.position().encode(f64::from(tick) * 0.002);
            let velocity = DRIVE.velocity().encode(4.0);
            codec.decode(&Reported { position, velocity, ..reported(Output::On) }, true, &mut servo);
        }
        assert_eq!(servo.fault, UNFIT);
        assert!(damps(codec.encode(&hold(0.5), true)));
    }
}
