//! What is sent to and requested from a servo before it may be driven: it is off, it is the servo that the robot file has, nothing is wrong with
//! it, and it is set as it will be driven. All that is written is read back.

use super::{DynamixelMode, NUMBERED, Settings};
use crate::exchange::{Exchange, ReplyCheck};
use khz_wire::Frame;
use khz_wire::dynamixel::{self, Status, address as at, error, hardware_error, item};

/// The error for a servo that does not answer.
const IF_SILENT: &str = "check its power, its id, that its baud rate is that of the bus (`khz bus scan` tries others), and its `status_return_level`";

/// So much of what is written goes into one packet.
const CHUNK: usize = 40;

/// The exchanges in their order.
pub fn dialogue(settings: &Settings, id: u8, watchdog: u8) -> Vec<Exchange> {
    let servo = Servo { settings, id };
    let block = settings.block();
    let first = at::INDIRECT;
    let indirect: Vec<u8> = settings.layout().flat_map(u16::to_le_bytes).collect();
    let bytes = |gains: &[u16]| gains.iter().flat_map(|gain| gain.to_le_bytes()).collect::<Vec<_>>();
    let profile: Vec<u8> = settings.profile.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut exchanges = vec![
        servo.answers(),
        servo.model(),
        servo.write(at::TORQUE_ENABLE, &[0]),
        servo.has(
            at::TORQUE_ENABLE,
            &[0],
            "it is on although it was told to switch off: another program drives it",
        ),
        servo.is_well(),
        servo.is_set(at::RETURN_DELAY_TIME, settings.return_delay),
        servo.is_set(at::DRIVE_MODE, 0),
        servo.is_alone(),
        servo.starts_off(),
        servo.goes_to(at::PWM_LIMIT, settings.most[2]),
    ];
    match settings.mode {
        DynamixelMode::Position => exchanges.push(servo.turns_whole()),
        DynamixelMode::Velocity => exchanges.push(servo.goes_to(at::VELOCITY_LIMIT, settings.most[0])),
        DynamixelMode::Current | DynamixelMode::CurrentPosition => {
            exchanges.push(servo.goes_to(at::CURRENT_LIMIT, settings.most[1]));
        }
        DynamixelMode::Pwm | DynamixelMode::ExtendedPosition => {}
    }
    let mut set = |address: u16, data: &[u8]| {
        exchanges.push(servo.write(address, data));
        exchanges.push(servo.has(
            address,
            data,
            "it does not keep what is written: another program writes it, too",
        ));
    };
    // A watchdog that has acted refuses goals until it is cleared by 0.
    set(at::BUS_WATCHDOG, &[0]);
    // The mode before what it resets.
    set(at::OPERATING_MODE, &[settings.mode.number()]);
    match settings.mode {
        DynamixelMode::Velocity => {
            set(at::VELOCITY_I_GAIN, &bytes(&settings.velocity_gains));
            set(at::GOAL_VELOCITY, &[0; 4]);
        }
        // It begins with all it has.
        DynamixelMode::Current => set(at::GOAL_CURRENT, &[0; 2]),
        DynamixelMode::Pwm => set(at::GOAL_PWM, &[0; 2]),
        _ => set(at::POSITION_D_GAIN, &bytes(&settings.gains)),
    }
    // What another program has left of it would weaken the servo in silence.
    if settings.mode != DynamixelMode::Pwm {
        set(at::GOAL_PWM, &settings.most[2].to_le_bytes());
    }
    set(at::PROFILE_ACCELERATION, &profile);
    for (place, part) in indirect.chunks(CHUNK).enumerate() {
        set(first + (place * CHUNK) as u16, part);
    }
    set(at::BUS_WATCHDOG, &[watchdog]);
    exchanges.push(servo.block(block));
    exchanges
}

struct Servo<'a> {
    settings: &'a Settings,
    id: u8,
}

impl Servo<'_> {
    fn exchange(
        &self,
        what: String,
        frame: Frame,
        judge: impl Fn(&Status<'_>) -> ReplyCheck + Send + 'static,
    ) -> Exchange {
        let id = self.id;
        Exchange {
            what,
            if_silent: IF_SILENT,
            quiet_ns: 0,
            frame,
            judge: Box::new(move |frame: &Frame| match Status::parse(frame) {
                Some(status) if status.id == id => judge(&status),
                _ => ReplyCheck::Unrelated,
            }),
        }
    }

    /// It answers writes, too; the register shows if it answers reads only.
    fn answers(&self) -> Exchange {
        self.exchange("say what it answers".to_owned(), dynamixel::read(self.id, at::STATUS_RETURN_LEVEL, 1), |status| match status.data {
            [2] => ReplyCheck::Good,
            [level] => ReplyCheck::Wrong(format!(
                "its `status_return_level` is {level}: it does not answer what is written. Restart it, or write 2"
            )),
            _ => ReplyCheck::Unrelated,
        })
    }

    fn model(&self) -> Exchange {
        let (expected, fast) = (self.settings.model, self.settings.fast);
        self.exchange("tell its model".to_owned(), dynamixel::ping(self.id), move |status| {
            let &[low, high, firmware] = status.data else { return ReplyCheck::Unrelated };
            let number = u16::from_le_bytes([low, high]);
            let name = dynamixel::Model::numbered(number).map_or("a model nobody here knows", |model| model.name);
            match expected.map(|model| model.facts()) {
                Some(model) if model.number != number => {
                    ReplyCheck::Wrong(format!("it is {name} (number {number}), not {}: correct `dynamixel.model`", model.name))
                }
                Some(model) if firmware < model.watchdog_from => {
                    ReplyCheck::Wrong(format!("its firmware {firmware} has no watchdog, which begins with {}: update it", model.watchdog_from))
                }
                Some(model) if fast && !model.is_fast(firmware) => {
                    ReplyCheck::Wrong(format!("its firmware {firmware} does not answer fast reads: update it, or write `dynamixel.fast = false`"))
                }
                _ => ReplyCheck::Good,
            }
        })
    }

    fn is_well(&self) -> Exchange {
        let frame = dynamixel::read(self.id, at::HARDWARE_ERROR_STATUS, 1);
        self.exchange("tell its errors".to_owned(), frame, |status| match status.data {
            [0] => ReplyCheck::Good,
            [bits] => ReplyCheck::Wrong(format!(
                "it has a hardware error: {}. Remove the cause, then switch its power off and on",
                hardware_error(*bits)
            )),
            _ => ReplyCheck::Unrelated,
        })
    }

    /// A setting that it keeps: who uses it decides, not the run.
    fn is_set(&self, address: u16, value: u8) -> Exchange {
        let (id, name) = (self.id, item(address).map_or("register", |item| item.name));
        self.exchange(format!("tell its `{name}`"), dynamixel::read(id, address, 1), move |status| match status.data {
            [reported] if *reported == value => ReplyCheck::Good,
            [reported] => ReplyCheck::Wrong(format!(
                "its `{name}` is {reported}, not {value}: type `khz bus set LINK {id} {name}={value} --family dynamixel`"
            )),
            _ => ReplyCheck::Unrelated,
        })
    }

    /// With a second id it obeys the commands to another servo.
    fn is_alone(&self) -> Exchange {
        const NONE: u8 = 253;
        let id = self.id;
        let frame = dynamixel::read(id, at::SECONDARY_ID, 1);
        self.exchange("tell its `secondary_id`".to_owned(), frame, move |status| match status.data {
            &[other] if other >= NONE => ReplyCheck::Good,
            [other] => ReplyCheck::Wrong(format!(
                "its `secondary_id` is {other}: it obeys what that servo is told, too. Type `khz bus set LINK {id} secondary_id=255 --family \
                 dynamixel`"
            )),
            _ => ReplyCheck::Unrelated,
        })
    }

    /// It could begin with its torque on, or with what was set for another program, as soon as it has power: also in the middle of a run. Old
    /// firmware has no such setting.
    fn starts_off(&self) -> Exchange {
        let id = self.id;
        let frame = dynamixel::read(id, at::STARTUP_CONFIGURATION, 1);
        self.exchange("tell its `startup_configuration`".to_owned(), frame, move |status| match status.data {
            [0] => ReplyCheck::Good,
            [] if status.error != 0 => ReplyCheck::Good,
            [set] => ReplyCheck::Wrong(format!(
                "its `startup_configuration` is {set}, not 0: whenever it gets power it {}. Type `khz bus set LINK {id} startup_configuration=0 \
                 --family dynamixel`",
                if set & 1 != 0 { "switches its torque on" } else { "begins with what was saved for another program" }
            )),
            _ => ReplyCheck::Unrelated,
        })
    }

    /// It refuses goals beyond its own limits in silence.
    fn turns_whole(&self) -> Exchange {
        let id = self.id;
        self.exchange("tell its limits".to_owned(), dynamixel::read(id, at::MAX_POSITION_LIMIT, 8), move |status| {
            let Some((most, least)) = status.data.split_first_chunk::<4>() else { return ReplyCheck::Unrelated };
            if (i32::from_le_bytes(*most), least) == (4095, &[0; 4][..]) {
                return ReplyCheck::Good;
            }
            ReplyCheck::Wrong(format!(
                "it has position limits of its own: it would refuse goals beyond them and report no error. Type `khz bus set LINK {id} min_position_limit=0 \
                 --family dynamixel`, and the same with `max_position_limit=4095`; the robot file limits its joint"
            ))
        })
    }

    /// It refuses goals beyond a limit of its own in silence; that of its duty limits its torque in every mode.
    fn goes_to(&self, limit: u16, most: u16) -> Exchange {
        let id = self.id;
        let would = if limit == at::PWM_LIMIT { "be weaker" } else { "refuse greater goals" };
        let (name, size) = item(limit).map_or(("limit", 2), |item| (item.name, item.size));
        self.exchange(format!("tell its `{name}`"), dynamixel::read(id, limit, size.into()), move |status| {
            let reported = match *status.data {
                [a, b] => u32::from(u16::from_le_bytes([a, b])),
                [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
                _ => return ReplyCheck::Unrelated,
            };
            if reported >= most.into() {
                return ReplyCheck::Good;
            }
            ReplyCheck::Wrong(format!(
                "its `{name}` is {reported}, but the run uses up to {most}: it would {would} and report no error. Write \
                 `dynamixel.{name} = {reported}`, or type `khz bus set LINK {id} {name}={most} --family dynamixel`"
            ))
        })
    }

    fn write(&self, address: u16, data: &[u8]) -> Exchange {
        // Never too much: see `CHUNK`.
        let frame = dynamixel::write(self.id, address, data).unwrap_or_else(|| dynamixel::ping(self.id));
        let name =
            item(address).map_or_else(|| format!("register {address}"), |item| format!("`{}`", item.name));
        self.exchange(format!("take its {name}"), frame, move |status| match status.error {
            0 => ReplyCheck::Good,
            number => ReplyCheck::Wrong(format!("it refuses its {name}: {}", error::name(number))),
        })
    }

    fn has(&self, address: u16, data: &[u8], otherwise: &'static str) -> Exchange {
        let (data, len) = (data.to_vec(), data.len() as u16);
        let name =
            item(address).map_or_else(|| format!("register {address}"), |item| format!("`{}`", item.name));
        self.exchange(format!("tell its {name}"), dynamixel::read(self.id, address, len), move |status| {
            match status.data {
                reported if *reported == data[..] => ReplyCheck::Good,
                reported if reported.len() == data.len() => ReplyCheck::Wrong(otherwise.to_owned()),
                _ => ReplyCheck::Unrelated,
            }
        })
    }

    /// What is read in each cycle can be.
    fn block(&self, address: u16) -> Exchange {
        let frame = dynamixel::read(self.id, address, NUMBERED);
        self.exchange("tell what it measures".to_owned(), frame, |status| match status.data.len() {
            len if len == usize::from(NUMBERED) => ReplyCheck::Good,
            _ => ReplyCheck::Wrong(format!("it refuses its indirect data: {}", error::name(status.error))),
        })
    }
}
