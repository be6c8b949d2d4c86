//! `khz emulate` on one side, `khz bus` on the other.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

fn khz(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_khz"));
    command.args(words);
    command
}

/// A `khz emulate` of the pan-tilt robot, with its one bus at `at`; ended when dropped.
struct Served {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Served {
    fn at(at: &str) -> Self {
        Self::of(concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/pan_tilt.toml"), at)
    }

    fn of(robot: &str, at: &str) -> Self {
        let mut child = khz(&["emulate", robot, "--at", at]).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line's bus and endpoint.
    fn endpoint(&mut self) -> (String, String) {
        let line = self.lines.next().unwrap().unwrap();
        let (bus, endpoint) = line.split_once(' ').unwrap();
        (bus.to_owned(), endpoint.to_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(output: &Output) -> String {
    String::from_utf8([&output.stdout[..], &output.stderr].concat()).unwrap()
}

#[test]
fn a_bus_is_served_over_udp() {
    let mut served = Served::at("main=udp:127.0.0.1:0");
    let (bus, address) = served.endpoint();
    assert_eq!(bus, "main");
    let link = format!("udp:{address}");
    let output =
        khz(&["bus", "scan", &link, "--last", "4", "--timeout-ms", "2000", "--json"]).output().unwrap();
    assert_eq!(text(&output).matches("\"firmware\"").count(), 2, "{output:?}");
}

/// It was refused with "this link carries classic CAN only", as the link knew the servos of the file alone.
#[test]
fn servos_over_udp_are_scanned_by_their_robot_file() {
    let mut served = Served::at("main=udp:127.0.0.1:0");
    let (_, address) = served.endpoint();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("robot.toml");
    let servo = "[[servo]]\nname = \"tilt\"\nbus = \"main\"\nid = 2\n";
    std::fs::write(&file, format!("[bus.main]\nlink = \"udp\"\naddress = {address:?}\n{servo}")).unwrap();
    let words = ["bus", "scan", file.to_str().unwrap(), "--last", "4", "--timeout-ms", "2000", "--json"];
    let output = khz(&words).output().unwrap();
    // One of them is not in the file.
    assert_eq!(text(&output).matches("\"firmware\"").count(), 2, "{output:?}");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn what_cannot_be_served_is_explained() {
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = format!("main=udp:{}", taken.local_addr().unwrap());
    for (at, message) in [
        ("main", "BUS=WHERE"),
        ("main=serial", "write terminal, slcan, "),
        ("legs=terminal", "no such bus; there are: main"),
        ("main=socketcan:no-such", "no such interface"),
        (&taken, "is the port free?"),
    ] {
        let output =
            khz(&["emulate", concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/pan_tilt.toml"), "--at", at])
                .output()
                .unwrap();
        assert!(text(&output).contains(message), "{at}: {}", text(&output));
        assert_eq!(output.status.code(), Some(2), "{at}: {}", text(&output));
    }
}

#[test]
fn the_help_says_how_a_client_connects_that_asks_for_serial_settings() {
    let output = khz(&["emulate", "--help"]).output().unwrap();
    for expected in ["TIOCGSERIAL", "--socketcan-iface", "file descriptor"] {
        assert!(text(&output).contains(expected), "{expected}: {}", text(&output));
    }
}

const LEG: &str = "[loop]\nrate_hz = 200\n[bus.leg]\nlink = \"emulated\"\n[servo_defaults]\nbus = \"leg\"\nfamily = \"robstride\"\n\
                   [[servo]]\nname = \"hip\"\nid = 1\nrobstride = { model = \"RS00\", velocity_range = 33, torque_range = 14 }\n\
                   [[servo]]\nname = \"knee\"\nid = 3\nrobstride = { model = \"RS02\" }\n";

/// At a wrong bit rate no servo replies, and only a guess was printed.
#[test]
fn a_scan_finds_the_bit_rate_of_the_servos() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("leg.toml").to_str().unwrap().to_owned();
    std::fs::write(&file, LEG.replace("\"emulated\"\n", "\"emulated\"\nnominal_bit_rate = 500000\n"))
        .unwrap();
    let mut served = Served::of(&file, "leg=slcan");
    let link = format!("slcan:{}", served.endpoint().1);
    // A reply takes some hundred microseconds; other processes may have the CPU meanwhile.
    let words = ["--family", "robstride", "--last", "3", "--timeout-ms", "500"];
    let scan = |link: &str| khz(&[&["bus", "scan", link], &words[..]].concat()).output().unwrap();
    let wrong = scan(&link);
    let message = String::from_utf8_lossy(&wrong.stderr).into_owned();
    let (expected, cure) = ("servos 1, 3 reply at 500000 bit/s", format!("`{link},bitrate=500000`"));
    assert!(
        wrong.status.code() == Some(1) && message.contains(expected) && message.contains(&cure),
        "{message}"
    );
    assert!(scan(&format!("{link},bitrate=500000")).status.success());
}

/// The low bits of the code became the status of a Damiao: 33 switched it on.
#[test]
fn a_fault_that_a_family_does_not_have_is_refused() {
    let robot = concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/openarm_like.toml");
    let output = khz(&["emulate", robot, "--fault", "fault=33"]).output().unwrap();
    assert!(
        output.status.code() == Some(2) && text(&output).contains("a Damiao has no fault 33"),
        "{output:?}"
    );
}

/// It was taken, and had no effect.
#[test]
fn a_fault_that_a_family_cannot_have_is_refused_with_those_it_can() {
    let robot = concat!(env!("CARGO_MANIFEST_DIR"), "/../../robots/so101.toml");
    let output = khz(&["emulate", robot, "--fault", "twice:gripper"]).output().unwrap();
    let out = text(&output);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        out.contains(
            "a Feetech has no such fault; it has silent, lying, stuck, asleep, stays_on, frozen, reboot, "
        ),
        "{out}"
    );
    assert!(!out.contains("unmeasured") && !out.contains("mode_mostly"), "{out}");
}

/// Their replies went out as CAN-FD's.
#[test]
fn classic_servos_behind_an_emulated_fdcanusb_reply() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("leg.toml").to_str().unwrap().to_owned();
    std::fs::write(&file, LEG).unwrap();
    let mut served = Served::of(&file, "leg=terminal");
    let link = format!("fdcanusb:{}", served.endpoint().1);
    let words = ["--family", "robstride", "--last", "3", "--timeout-ms", "500", "--json"];
    let output = khz(&[&["bus", "scan", &link], &words[..]].concat()).output().unwrap();
    assert_eq!(text(&output).matches("\"robstride\"").count(), 2, "{output:?}");
}

/// A scan switched them all off without a word; and a family beside a robot file was ignored.
#[test]
fn a_scan_says_what_it_does_to_servos() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("leg.toml").to_str().unwrap().to_owned();
    let cubemars = "[bus.leg]\nlink = \"emulated\"\n[[servo]]\nname = \"hip\"\nbus = \"leg\"\nid = 1\nfamily = \"cubemars\"\n\
                    cubemars = { model = \"AK80-9\", unwatched = true }\n";
    std::fs::write(&file, cubemars).unwrap();
    let scan = |more: &[&str]| {
        text(&khz(&[&["bus", "scan", &file, "--last", "2"], more].concat()).output().unwrap())
    };
    let message = scan(&[]);
    assert!(message.contains("note: each CubeMars that is asked switches its output off"), "{message}");
    let message = scan(&["--family", "cubemars"]);
    assert!(
        message.contains("leg.toml says which families its servos are of: leave `--family` out"),
        "{message}"
    );
}

/// A run reported that the servo did not answer, and advised to check its power and id.
#[test]
fn a_run_names_a_port_with_the_wrong_link_instead_of_its_silent_servo() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("leg.toml").to_str().unwrap().to_owned();
    std::fs::write(&file, LEG).unwrap();
    let mut served = Served::of(&file, "leg=slcan");
    let link = format!("link = \"fdcanusb\"\npath = {:?}", served.endpoint().1);
    std::fs::write(&file, LEG.replace("link = \"emulated\"", &link)).unwrap();
    let output = khz(&["run", &file, "--duration", "1s", "--no-report"]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = "the adapter answers as slcan, not as an fdcanusb: write `link = \"slcan\"`";
    assert!(output.status.code() == Some(2) && message.contains(expected), "{message}");
}

#[test]
fn robstride_servos_behind_slcan_are_asked_by_a_classic_frame_set_up_and_drafted() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(file("leg.toml"), LEG).unwrap();
    let mut served = Served::of(&file("leg.toml"), "leg=slcan");
    let (_, port) = served.endpoint();
    let link = format!("slcan:{port}");
    let asked = ["bus", "send", "--link", &link, "1,0000FD03,0000000000000000,r", "--timeout-ms", "2000"];
    let output = khz(&asked).output().unwrap();
    assert!(text(&output).starts_with("CAN 1,3FE,") && output.status.success(), "{output:?}");
    let refused = khz(&["bus", "scan", &link]).output().unwrap();
    assert!(text(&refused).contains("`--family robstride`"), "{refused:?}");
    let words = ["zero_sta=1", "--family", "robstride", "--store", "--yes", "--timeout-ms", "500"];
    let set = khz(&[&["bus", "set", &link, "3"], &words[..]].concat()).output().unwrap();
    assert!(text(&set).contains("servo 3: parameter 0x7029 (`zero_sta`) = 1, mode reset, stored"), "{set:?}");
    // By default a burst of queries has 20 ms.
    let words = ["new", "--from", &link, "--family", "robstride", "--timeout-ms", "500"];
    let new = khz(&[&words[..], &[&file("new.toml")]].concat()).output().unwrap();
    // The model is not known: the file is written, and refused until it is named.
    assert_eq!(new.status.code(), Some(1), "{new:?}");
    assert!(
        String::from_utf8_lossy(&new.stderr).contains("`servo[0].robstride.model` must be one of"),
        "{new:?}"
    );
    let draft = std::fs::read_to_string(file("new.toml")).unwrap();
    assert!(
        draft.contains(
            "# The first of these is written: model = \"RS00\", velocity_range = 33, torque_range = 14"
        ),
        "{draft}"
    );
    let named = draft.replace("model = \"?\"", "model = \"RS00\", velocity_range = 33, torque_range = 14");
    std::fs::write(file("new.toml"), named).unwrap();
    assert!(khz(&["check", &file("new.toml"), "--json"]).output().unwrap().status.success());
}
