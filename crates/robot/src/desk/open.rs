//! Links as a command line names them.

use super::Desk;
use crate::assemble::{Devices, open_links_as};
use khz_emu::hat::Hat;
use khz_emu::{BusConfig, WireKind, World};
use khz_file::RobotConfig;
use khz_file::links::{Around, LinkConfig, LinkKind};
use khz_link::pi3hat::{Options, Pi3hat, Pi3hatConfig, Spi, Spidev};
use khz_link::{Link, Role};
use khz_servo::{Family, FamilyName, family};
use khz_wire::Frame;
use khz_wire::serial::Packets;
use std::borrow::Cow;

/// The baud rate that most arms of Dynamixel and Feetech servos are set to.
const USUAL_BAUD: u32 = 1_000_000;

/// A pi3hat that is emulated in this process.
const EMULATED_HAT: &str = "emulated:pi3hat";

/// Whether the word names a robot file.
pub fn is_robot_file(word: &str) -> bool {
    // A path without an ending; that of a device is not one, nor that behind the kind of a link.
    let is_path =
        word.contains('/') && !word.starts_with("/dev/") && !word.split('/').any(|part| part.contains(':'));
    word.ends_with(".toml") || is_path
}

impl Desk {
    /// Opens links as a command line names them: `KIND:TARGET`, a robot file, `emulated`, `pi3hat` or `emulated:pi3hat`.
    /// Buses are counted over all of them.
    ///
    /// # Errors
    /// What is no link, or cannot be opened, with what to do.
    pub fn open(words: &[impl AsRef<str>]) -> Result<Self, String> {
        Self::open_as(Role::Host, words)
    }

    /// The same, for another role.
    ///
    /// # Errors
    /// As [`Desk::open`].
    pub fn open_as(role: Role, words: &[impl AsRef<str>]) -> Result<Self, String> {
        let mut desk = Self { links: Vec::new(), buses: Vec::new(), servos: Vec::new() };
        words.iter().try_for_each(|word| desk.open_one(role, word.as_ref()))?;
        Ok(desk)
    }

    /// As [`Desk::open`], and scans ask for servos of these families only, on buses without known servos: of one family on
    /// all, or of one for each word.
    ///
    /// # Errors
    /// As [`Desk::open`], or there are several families, and not as many as words, or families although all words are robot files.
    pub fn open_for(families: &[FamilyName], words: &[impl AsRef<str>]) -> Result<Self, String> {
        if families.len() > 1 && families.len() != words.len() {
            let (links, families) = (words.len(), families.len());
            return Err(format!(
                "{families} families for {links} links: give `--family` once, or once for each link, in their order"
            ));
        }
        if let ([_, ..], [word, ..]) = (families, words)
            && words.iter().all(|word| is_robot_file(word.as_ref()))
        {
            let word = word.as_ref();
            return Err(format!("{word} says which families its servos are of: leave `--family` out"));
        }
        let mut desk = Self { links: Vec::new(), buses: Vec::new(), servos: Vec::new() };
        for (number, word) in words.iter().enumerate() {
            let family = families.get(number).or(families.first()).copied();
            desk.open_one(Role::Host, &on_line(word.as_ref(), family)?)?;
            // What was expected of the links before stays.
            family.into_iter().for_each(|family| desk.expect(family));
        }
        Ok(desk)
    }

    fn open_one(&mut self, role: Role, word: &str) -> Result<(), String> {
        if is_robot_file(word) {
            let robot = RobotConfig::load(word).map_err(|error| error.to_string())?;
            // A scan asks for ids that are not in the file, too.
            let links = open_links_as(role, Devices::All, &robot, |world| Box::new(world))
                .map_err(|error| error.to_string())?;
            self.add(&robot, links);
            return Ok(());
        }
        self.add_link(word, open_link(role, word)?, &carried(word));
        Ok(())
    }
}

/// A serial line as its family needs it, with what the word for it does not say of protocol and rate.
///
/// # Errors
/// It has the protocol of another family.
fn on_line(word: &str, family: Option<FamilyName>) -> Result<Cow<'_, str>, String> {
    let (Some(LinkConfig::Rs485(_)), Some(family @ (FamilyName::Dynamixel | FamilyName::Feetech))) =
        (LinkConfig::by_hand(word), family)
    else {
        return Ok(word.into());
    };
    let mut word = word.to_owned();
    if !word.contains(",baud=") {
        word += &format!(",baud={USUAL_BAUD}");
    }
    if !word.contains(",protocol=") {
        word += &format!(",protocol={family}");
    } else if !word.contains(&format!(",protocol={family}")) {
        return Err(format!("{word}: `--family {family}` needs `protocol={family}`"));
    }
    Ok(word.into())
}

/// The families a link carries; none: all of them.
fn carried(word: &str) -> Vec<Family> {
    let Some(link) = LinkConfig::by_hand(word) else { return vec![Family::default()] };
    match link.bus().emulated().wire {
        WireKind::Rs485 { packets: Packets::Dynamixel, .. } => Family::named(FamilyName::Dynamixel),
        WireKind::Rs485 { packets: Packets::Feetech, .. } => Family::named(FamilyName::Feetech),
        _ if link.bus().moteus_only().is_none() => Vec::new(),
        _ => vec![Family::default()],
    }
}

/// The link that a user may have meant who left out its kind.
fn meant(word: &str) -> Option<String> {
    let is_numbered = |prefix: &&str| {
        let number = word.strip_prefix(*prefix);
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    match word {
        _ if ["can", "vcan", "slcan"].iter().any(is_numbered) => Some("socketcan"),
        _ if word.starts_with("/dev/tty") || word.starts_with("/dev/serial/") || word == "/dev/fdcanusb" => {
            Some("fdcanusb")
        }
        _ => None,
    }
    .map(|kind| format!("{kind}:{word}"))
}

fn open_link(role: Role, word: &str) -> Result<Box<dyn Link>, String> {
    if word == EMULATED_HAT {
        let hat = Pi3hat::open(hat_spi(word)?, &Options::default(), replier, khz_rt::now_ns());
        return Ok(Box::new(hat.map_err(|error| error.to_string())?));
    }
    let Some(link) = LinkConfig::by_hand(word) else {
        return Err(match meant(word) {
            Some(link) => format!("{word}: not a link; did you mean {link}?"),
            None => format!(
                "{word}: not a link; write {}, {EMULATED_HAT}, or a robot file (.toml)",
                LinkKind::usages()
            ),
        });
    };
    let mut emulated =
        || -> Result<Box<dyn Link>, String> { Ok(Box::new(world(&RobotConfig::quadruped().world())?)) };
    link.bus().open(Around {
        role,
        ids: None,
        speaks_fd: None,
        sharing: Vec::new(),
        pi3hat: Pi3hatConfig::default(),
        imu_mounting: None,
        replier: Box::new(replier),
        emulated: &mut emulated,
    })
}

/// A link that a command line names may have any devices.
fn replier(_: u8, frame: &Frame) -> Option<u8> {
    family::replier(frame)
}

fn world(config: &khz_emu::WorldConfig) -> Result<World, String> {
    World::new(config).map_err(|error| error.to_string())
}

/// The SPI of the hat that a word names: `pi3hat`, that of a robot file, or `emulated:pi3hat`.
///
/// # Errors
/// What is no hat, or cannot be opened, with what to do.
pub fn hat_spi(word: &str) -> Result<Box<dyn Spi>, String> {
    let hat = match word {
        "pi3hat" => Pi3hatConfig::default(),
        EMULATED_HAT => {
            let mut devices = RobotConfig::quadruped().world();
            devices.buses.resize(5, BusConfig::CAN_FD);
            return Ok(Box::new(Hat::new(world(&devices)?, 4)));
        }
        file if is_robot_file(file) => {
            let robot = RobotConfig::load(file).map_err(|error| error.to_string())?;
            robot.pi3hat.unwrap_or_default()
        }
        _ => {
            return Err(format!(
                "{word}: not a pi3hat; write pi3hat, a robot file (.toml) with a hat, or {EMULATED_HAT}"
            ));
        }
    };
    Ok(Box::new(Spidev::open(&hat).map_err(|error| error.to_string())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desk::{DeskError, Elsewhere, Found, Scan, Setting};
    use khz_file::draft;
    use khz_link::LinkError;
    use khz_link::slcan::Slcan;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    /// A link with the devices of a robot file, which the desk does not know.
    fn unknown(text: &str) -> Desk {
        let robot = RobotConfig::parse(text, "devices.toml").unwrap();
        let mut desk = Desk { links: Vec::new(), buses: Vec::new(), servos: Vec::new() };
        desk.add_link("link", Box::new(world(&robot.world()).unwrap()), &[]);
        desk
    }

    /// The robot file of what was found on this one link.
    fn of_found(word: &str, found: &[Found]) -> Result<String, String> {
        draft::of_found(&[word.to_owned()], &[(0, 0)], found)
    }

    /// The file with the first model that is suggested in place of each that has to be named.
    fn named(text: &str) -> String {
        let mut suggested = "";
        let mut lines = Vec::new();
        for each in text.lines() {
            if let Some((_, models)) = each.split_once("by its ranges it is ") {
                suggested = models.split(' ').next().unwrap();
            }
            lines.push(each.replace("\"?\"", &format!("\"{suggested}\"")));
        }
        lines.join("\n")
    }

    const EVERYBODY: Scan = Scan { last: u8::MAX, timeout_ns: 20_000_000, together: false };

    fn damiao(can_fd: bool) -> String {
        let text = include_str!("../../../../robots/openarm_like.toml");
        text.replace("can_fd = true", &format!("can_fd = {can_fd}"))
    }

    #[test]
    fn unknown_motors_are_found_on_can_and_can_fd_and_make_a_robot_file() {
        for can_fd in [false, true] {
            let found = unknown(&damiao(can_fd)).scan(0, &EVERYBODY).unwrap();
            let ids: Vec<_> = found.iter().map(|found| (found.family.name(), found.answer.id)).collect();
            assert_eq!(ids, (1..=7).map(|id| (FamilyName::Damiao, id)).collect::<Vec<_>>());
            let text = of_found("socketcan:can0", &found).unwrap();
            // A 4340 and a 4340P have the same ranges: which it is has to be written.
            assert!(
                RobotConfig::parse(&text, "new.toml").is_err() && text.contains("is 4340 or 4340P"),
                "{text}"
            );
            let text = named(&text);
            let robot =
                RobotConfig::parse(&text, "new.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
            let models: Vec<_> = robot.servos.iter().filter_map(|servo| servo.damiao.model).collect();
            assert_eq!(
                models.iter().map(|model| model.word()).collect::<Vec<_>>()[..3],
                ["8009", "8009", "4340"]
            );
            assert!(robot.servos.iter().all(|servo| servo.damiao.can_fd == can_fd), "{text}");
            assert_eq!(robot.buses[0].link.endpoint(), "can0");
        }
    }

    /// Only queries to those from which heartbeats came are sent to their bus.
    #[test]
    fn odrives_are_found_by_what_they_send_and_report_their_errors() {
        for (firmware, expected) in [("0.6", "0.6.11 (board 5.2.0)"), ("0.5", "0.5")] {
            let text = format!(
                "[bus.main]\nlink = \"emulated\"\nwire = \"can\"\n[servo_defaults]\nbus = \"main\"\nfamily = \"odrive\"\n\
                 odrive = {{ firmware = \"{firmware}\", torque_constant = 0.1 }}\nwatchdog_s = 0.3\n\
                 [[servo]]\nname = \"a\"\nid = 0\n[[servo]]\nname = \"b\"\nid = 5\n"
            );
            let found = unknown(&text).scan(0, &EVERYBODY).unwrap();
            let ids: Vec<_> = found.iter().map(|found| (found.family.name(), found.answer.id)).collect();
            assert_eq!(ids, [0, 5].map(|id| (FamilyName::Odrive, id)), "{firmware}");
            assert_eq!(found[0].answer.identity.firmware.as_deref(), Some(expected));
            assert_eq!(found[0].answer.mode.map(|mode| mode.name), Some("idle"));
            let text = of_found("socketcan:can0", &found).unwrap();
            assert!(
                text.contains(&format!("firmware = \"{firmware}\"")) && text.contains("id = 0"),
                "{text}"
            );
            // Stopped by hand, it reports why; cleared, 0.6 still reports what it was. Its watchdog is late.
            let mut desk = unknown(&text_of(firmware));
            desk.send(0, &khz_wire::Frame::classic(0x022, &[]).unwrap()).unwrap();
            desk.flush().unwrap();
            let found = desk.scan(0, &EVERYBODY).unwrap();
            let fault = found[0].answer.fault.unwrap();
            assert_eq!(fault.text, "stopped by hand: emergency stop requested", "{found:?}");
            let disarmed = found[0].answer.disarmed_by.map(|fault| fault.text);
            assert_eq!(disarmed.is_some(), firmware == "0.6");
        }
    }

    fn text_of(firmware: &str) -> String {
        format!(
            "[bus.main]\nlink = \"emulated\"\nwire = \"can\"\n[[servo]]\nbus = \"main\"\nname = \"a\"\nid = 1\nfamily = \"odrive\"\n\
             odrive = {{ firmware = \"{firmware}\", torque_constant = 0.1, unwatched = true }}\n"
        )
    }

    #[test]
    fn damiao_requests_are_not_sent_where_a_moteus_may_have_been_left_out() {
        let few = Scan { last: 20, ..EVERYBODY };
        assert!(unknown(&damiao(false)).scan(0, &few).unwrap().is_empty());
        let mut desk = unknown(&damiao(false));
        desk.expect(FamilyName::Damiao);
        assert_eq!(desk.scan(0, &few).unwrap().len(), 7);
    }

    /// Devices at one bit rate behind an adapter that has another.
    struct AtRate {
        world: World,
        devices: Box<dyn Fn(&World) -> u32 + Send>,
        adapter: u32,
    }

    impl Link for AtRate {
        khz_link::forward_link!(it => it.world; capabilities, half_duplex, begin_cycle, receive, next_event_ns, counters);

        fn send(
            &mut self,
            channel: u8,
            request: &khz_wire::Request<'_>,
            now_ns: i64,
        ) -> Result<(), LinkError> {
            if self.adapter == (self.devices)(&self.world) {
                self.world.send(channel, request.frame, now_ns)
            } else {
                Ok(())
            }
        }

        fn set_bit_rate(&mut self, rate: Option<u32>) -> Result<(), LinkError> {
            self.adapter = rate.unwrap_or(1_000_000);
            if self.adapter == 250_000 { Err(LinkError::Unsupported) } else { Ok(()) }
        }
    }

    /// It was only reported that the bit rate may be wrong.
    #[test]
    fn a_wrong_bit_rate_is_found_and_the_links_own_set_again() {
        let few = Scan { last: 3, ..EVERYBODY };
        let at = |devices| {
            let robot = RobotConfig::parse(include_str!("../../../../robots/leg3.toml"), "leg.toml").unwrap();
            let link = AtRate {
                world: world(&robot.world()).unwrap(),
                devices: Box::new(move |_| devices),
                adapter: 1_000_000,
            };
            let mut desk = Desk { links: Vec::new(), buses: Vec::new(), servos: Vec::new() };
            desk.add_link("slcan:/dev/ttyACM0", Box::new(link), &[]);
            assert_eq!(desk.scan(0, &few).unwrap(), []);
            let elsewhere = desk.elsewhere(0, &few).unwrap();
            assert_eq!(desk.scan(0, &few).unwrap(), [], "its own bit rate again");
            (elsewhere, desk)
        };
        let (elsewhere, desk) = at(500_000);
        let Elsewhere::At(500_000, found) = elsewhere else { panic!("{elsewhere:?}") };
        assert_eq!(found.iter().map(|found| found.answer.id).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(desk.rate_advice(0, Some(500_000)).contains("slcan:/dev/ttyACM0,bitrate=500000"));
        assert_eq!(at(250_000).0, Elsewhere::NoReply);
        let mut fixed = unknown(include_str!("../../../../robots/leg3.toml"));
        assert_eq!(fixed.elsewhere(0, &few).unwrap(), Elsewhere::NotTried);
    }

    /// It was reported that the servo did not reply, without the rate at which it then was.
    #[test]
    fn the_baud_rate_of_a_dynamixel_is_read_back_at_the_new_one_and_a_scan_finds_it_there() {
        let text = "[bus.main]\nlink = \"emulated\"\nwire = \"dynamixel\"\nbaud = 1000000\n[emulation]\nsupply_v = 5\n[[servo]]\nbus = \"main\"\n\
                    name = \"a\"\nid = 1\nfamily = \"dynamixel\"\ndynamixel = { model = \"XL330-M288\", torque_constant = 1 }";
        let robot = RobotConfig::parse(text, "line.toml").unwrap();
        let rate = |world: &World| {
            let servo = world.servos()[0].as_any().downcast_ref::<khz_emu::dynamixel::Servo>().unwrap();
            khz_wire::dynamixel::BAUDS[servo.register(khz_wire::dynamixel::address::BAUD_RATE) as usize]
        };
        let link = AtRate { world: robot.emulate().unwrap(), devices: Box::new(rate), adapter: 1_000_000 };
        let mut desk = Desk { links: Vec::new(), buses: Vec::new(), servos: Vec::new() };
        let word = "rs485:/dev/ttyUSB0,baud=1000000,protocol=dynamixel";
        desk.add_link(word, Box::new(link), &Family::named(FamilyName::Dynamixel));
        let servo = desk.named("1", None, 20_000_000).unwrap();
        let register = servo.servo.family.by_hand().register("baud_rate").unwrap();
        let answer = desk.set(&servo, Setting::Register(register, 6.0), false, 20_000_000).unwrap();
        assert_eq!(answer.registers[&register], 6.0);
        assert_eq!(desk.scan(0, &EVERYBODY).unwrap(), [], "the link has its own rate");
        let Elsewhere::At(4_000_000, found) = desk.elsewhere(0, &EVERYBODY).unwrap() else {
            panic!("not found")
        };
        assert_eq!(found[0].answer.id, 1);
        assert!(desk.rate_advice(0, Some(4_000_000)).contains("baud=4000000"));
    }

    /// `khz bus set rs485:/dev/ttyUSB0 1 … --family dynamixel`, which a run prints as a cure, asked by the protocol of moteus.
    #[test]
    fn a_serial_line_speaks_as_its_family_does() {
        let line = |word, family| on_line(word, Some(family)).unwrap().into_owned();
        assert_eq!(
            line("rs485:/dev/ttyUSB0", FamilyName::Dynamixel),
            "rs485:/dev/ttyUSB0,baud=1000000,protocol=dynamixel"
        );
        for (word, family) in [
            ("rs485:/dev/ttyUSB0", FamilyName::Moteus),
            ("rs485:/dev/ttyUSB0,baud=57600,protocol=dynamixel", FamilyName::Dynamixel),
            ("socketcan:can0", FamilyName::Feetech),
        ] {
            assert_eq!(line(word, family), word);
        }
        // With the rate alone it asked by the protocol of moteus, too.
        let with_rate = line("rs485:/dev/ttyUSB0,baud=57600", FamilyName::Feetech);
        assert_eq!(with_rate, "rs485:/dev/ttyUSB0,baud=57600,protocol=feetech");
        let other = on_line("rs485:/dev/ttyUSB0,protocol=feetech", Some(FamilyName::Dynamixel)).unwrap_err();
        assert!(other.ends_with("`--family dynamixel` needs `protocol=dynamixel`"), "{other}");
    }

    /// A bus without known servos behind an adapter for classic CAN, and the adapter's end of the line.
    fn classic() -> (Desk, UnixStream) {
        let (ours, adapter) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        adapter.set_nonblocking(true).unwrap();
        let mut desk = Desk { links: Vec::new(), buses: Vec::new(), servos: Vec::new() };
        desk.add_link("slcan:/dev/ttyACM0", Box::new(Slcan::from_fd(ours.into(), false)), &[]);
        (desk, adapter)
    }

    fn sent(mut adapter: UnixStream) -> String {
        let mut sent = Vec::new();
        // Its end is that no more has come.
        let _ = adapter.read_to_end(&mut sent);
        String::from_utf8(sent).unwrap()
    }

    #[test]
    fn a_bus_that_cannot_carry_moteus_queries_is_asked_only_for_the_family_given_and_the_error_names_all() {
        let quick = Scan { timeout_ns: 1_000_000, ..EVERYBODY };
        let (mut desk, adapter) = classic();
        let error = desk.scan(0, &quick).unwrap_err().to_string();
        assert!(
            ["robstride", "damiao", "cubemars"]
                .iter()
                .all(|family| error.contains(&format!("--family {family}"))),
            "{error}"
        );
        assert!(error.contains(",data=5000000"), "{error}");
        assert_eq!(sent(adapter), "");
        let (mut desk, adapter) = classic();
        desk.expect(FamilyName::Moteus);
        assert!(matches!(desk.scan(0, &quick), Err(DeskError::NotCarried { .. })));
        assert_eq!(sent(adapter), "");
        // On a bus of CubeMars servos no other family is asked for: to them a request of another family may be a command.
        let (mut desk, adapter) = classic();
        desk.expect(FamilyName::Cubemars);
        assert_eq!(desk.scan(0, &quick).unwrap(), []);
        let asked = sent(adapter);
        assert!(
            asked.contains("t0018FFFFFFFFFFFFFFFD") && !asked.contains("t7FF") && !asked.contains('T'),
            "{asked}"
        );
        // Nor does CAN-FD, which this bus does not carry either, hide what it does.
        let (mut desk, adapter) = classic();
        desk.expect(FamilyName::Damiao);
        assert_eq!(desk.scan(0, &quick).unwrap(), []);
        assert!(sent(adapter).contains("t7FF8"));
    }

    #[test]
    fn the_bit_rate_of_the_data_phase_goes_into_the_robot_file() {
        let found = unknown(include_str!("../../../../robots/leg3.toml")).scan(0, &EVERYBODY).unwrap();
        for (word, rate) in [
            ("slcan:/dev/ttyACM0,bitrate=500000,data=5000000", Some(5_000_000)),
            ("slcan:/dev/ttyACM0", None),
        ] {
            let text = of_found(word, &found).unwrap();
            assert!(text.contains("path = \"/dev/ttyACM0\"\n"), "{text}");
            let line = rate.map(|rate| format!("data_bit_rate = {rate}\n"));
            assert_eq!(text.contains("data_bit_rate"), line.is_some(), "{text}");
            assert_eq!(text.contains("nominal_bit_rate = 500000\n"), line.is_some(), "{text}");
            assert!(line.is_none_or(|line| text.contains(&line)), "{text}");
        }
    }

    /// Of two adapters one could be asked for moteus servos, or the other for RobStride servos, and not both.
    #[test]
    fn each_link_can_have_a_family_of_its_own() {
        let open = |families: &[FamilyName]| Desk::open_for(families, &["emulated", "emulated"]);
        let asked = |desk: &Desk, bus: usize| desk.buses[bus].families.first().map(Family::name);
        let both = open(&[FamilyName::Moteus, FamilyName::Robstride]).unwrap();
        let last = both.buses() - 1;
        assert_eq!(
            [0, last].map(|bus| asked(&both, bus)),
            [Some(FamilyName::Moteus), Some(FamilyName::Robstride)]
        );
        let one = open(&[FamilyName::Damiao]).unwrap();
        assert_eq!([0, last].map(|bus| asked(&one, bus)), [Some(FamilyName::Damiao); 2]);
        let three = open(&[FamilyName::Damiao; 3]).err().unwrap();
        assert!(three.contains("3 families for 2 links"), "{three}");
    }

    #[test]
    fn moteus_found_make_a_robot_file() {
        let found = unknown(include_str!("../../../../robots/leg3.toml")).scan(0, &EVERYBODY).unwrap();
        let text = of_found("fdcanusb:/dev/ttyACM0", &found).unwrap();
        let robot = RobotConfig::parse(&text, "new.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!((robot.servos.len(), robot.buses[0].link.endpoint()), (3, "/dev/ttyACM0".to_owned()));
        assert!(of_found("robot.toml", &found).is_err());
    }

    #[test]
    fn robstride_found_make_a_robot_file_that_is_refused_until_their_models_are_named() {
        let text = "[bus.main]\nlink = \"emulated\"\n[servo_defaults]\nbus = \"main\"\nfamily = \"robstride\"\n\
                    [[servo]]\nname = \"a\"\nid = 1\nrobstride = { model = \"RS02\" }\n\
                    [[servo]]\nname = \"b\"\nid = 2\nrobstride = { model = \"RS00\", velocity_range = 33, torque_range = 14 }\n\
                    [[servo]]\nname = \"c\"\nid = 3\nrobstride = { model = \"RS03\", velocity_range = 20 }\n";
        let mut desk = unknown(text);
        desk.expect(FamilyName::Robstride);
        let found = desk.scan(0, &EVERYBODY).unwrap();
        let text = of_found("slcan:/dev/ttyACM0", &found).unwrap();
        assert_eq!(text.matches("# NAME `model`").count(), 3, "{text}");
        // A guess is not written as true: the file is refused until each model is named.
        let refused = RobotConfig::parse(&text, "new.toml").unwrap_err().to_string();
        assert_eq!(refused.matches("robstride = { model = \"?\"").count(), 3, "{refused}");
        let named = text.replace("model = \"?\"", "model = \"RS02\"");
        let robot = RobotConfig::parse(&named, "new.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(robot.servos.len(), 3);
    }

    #[test]
    fn two_servos_with_one_id_are_seen_in_a_scan() {
        for text in [
            "family = \"robstride\"\nrobstride.model = \"RS02\"\n",
            "family = \"damiao\"\ndamiao.model = \"4310\"\n",
            "",
        ] {
            let servo = |id| format!("[[servo]]\nname = \"s{id}\"\nbus = \"main\"\nid = {id}\n{text}");
            let text = format!("[bus.main]\nlink = \"emulated\"\n{}{}", servo(3), servo(4));
            let robot = RobotConfig::parse(&text, "twins.toml").unwrap();
            for id in [3, 4] {
                let mut config = robot.world();
                config.servos[1].id = id;
                let mut desk = Desk { links: Vec::new(), buses: Vec::new(), servos: Vec::new() };
                desk.add_link("link", Box::new(world(&config).unwrap()), &[]);
                desk.expect(robot.servos[0].family);
                let found = desk.scan(0, &EVERYBODY).unwrap();
                let twins: Vec<_> = found.iter().filter_map(Found::twins).collect();
                assert_eq!(twins.len(), usize::from(id == 3), "{found:?}");
                assert!(twins.iter().all(|twins| twins.starts_with("2 servos answer to id 3")), "{twins:?}");
            }
        }
    }

    #[test]
    fn what_may_have_been_meant_is_reported() {
        assert_eq!(meant("can0").as_deref(), Some("socketcan:can0"));
        assert_eq!(meant("/dev/ttyACM0").as_deref(), Some("fdcanusb:/dev/ttyACM0"));
        assert_eq!(["can", "candle", "nope"].map(meant), [None, None, None]);
    }
}
