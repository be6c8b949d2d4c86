//! Servos that misbehave, against the real program: devices in a process of their own, each family on the wire it speaks, and `khz run`
//! that must not believe them. Nothing is timed.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Process, stderr, stdout};
use khz_file::config::{FamilyName, in_file, usual_servo};
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

/// A family: the servo in a robot file, where its devices are served, and the link to them.
struct Stand {
    servo: String,
    at: &'static str,
    link: fn(&str) -> String,
    /// How long the machine may stand still. ODrive and RMD are left alone for as long before a run.
    watchdog_s: f64,
}

const FDCANUSB: Stand = Stand {
    servo: String::new(),
    at: "terminal",
    link: |path| format!("link = \"fdcanusb\"\npath = {path:?}"),
    watchdog_s: 30.0,
};
const UDP: Stand = Stand {
    servo: String::new(),
    at: "udp:127.0.0.1:0",
    link: |at| format!("link = \"udp\"\naddress = {at:?}"),
    watchdog_s: 30.0,
};

/// Every family whose gains travel with its commands, on the adapter that carries them.
fn on_can() -> impl Iterator<Item = (FamilyName, Stand)> {
    let sends_gains = |name: &&FamilyName| in_file(**name).facts().sends_gains;
    FamilyName::ALL.iter().filter(sends_gains).map(|&name| {
        let is_left_alone = matches!(name, FamilyName::Odrive | FamilyName::Rmd);
        let stand = Stand {
            servo: usual_servo(name, ", kp = 30, kd = 1"),
            at: "slcan",
            link: |path| format!("link = \"slcan\"\npath = {path:?}"),
            watchdog_s: if is_left_alone { 6.0 } else { 30.0 },
        };
        (name, stand)
    })
}

impl Stand {
    /// The robot file; lenient in what a busy machine may do, in nothing that a servo may do.
    fn robot(&self, link: &str) -> String {
        format!(
            "[loop]\nrate_hz = 200\npolicy = \"other\"\nlock_memory = false\n[bus.main]\n{link}\n[log]\nenabled = false\n\
             [servo_defaults]\nwatchdog_s = {:?}\n[supervisor]\nanswer_s = 60\ndamping_s = 0.3\noverruns = 100000\n\
             missed_replies = 100000\nstale_ms = 3000\ncontroller_slow = 100000\n\
             reactions = {{ stale = \"warn\", overruns = \"warn\" }}\n\
             [[servo]]\nname = \"joint\"\nbus = \"main\"\nid = 1\nlimits = {{ position = [-1.0, 1.0], velocity = 4.0 }}\n{}",
            self.watchdog_s, self.servo
        )
    }

    /// What the real program makes of a servo with this fault, which begins when it first follows a command.
    fn run(&self, fault: &str, duration: &str) -> Output {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let devices = folder.join("devices.toml");
        std::fs::write(&devices, self.robot("link = \"emulated\"")).unwrap();
        let mut khz = Command::new(env!("CARGO_BIN_EXE_khz"));
        khz.args([
            "emulate",
            devices.to_str().unwrap(),
            "--at",
            &format!("main={}", self.at),
            "--fault",
            fault,
        ]);
        let mut served = Process(khz.stdout(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(served.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let endpoint = line.trim().strip_prefix("main ").unwrap();
        let robot = folder.join("robot.toml");
        std::fs::write(&robot, self.robot(&(self.link)(endpoint))).unwrap();
        let mut khz = Command::new(env!("CARGO_BIN_EXE_khz"));
        khz.args(["run", robot.to_str().unwrap(), "--duration", duration, "--json", "--no-report"]);
        begun(&mut khz)
    }

    /// The run comes down, and reports why; on a machine so busy that most replies come late that may take a while.
    fn finds(&self, fault: &str, why: &str) {
        self.ends("600s", fault, why, 1);
    }

    /// It does no harm, and the run goes on to its end.
    fn bears(&self, fault: &str) {
        self.ends("3s", fault, "", 0);
    }

    fn ends(&self, duration: &str, fault: &str, why: &str, code: i32) {
        let ran = self.run(fault, duration);
        let (out, ended) = (stdout(&ran), ran.status.code());
        let is_it = out.contains(why) && ended == Some(code);
        let is_it = is_it || stood_still(&out, fault);
        assert!(is_it, "{}{fault}: no \"{why}\", {ended:?}: {out}\n{}", self.servo, stderr(&ran));
    }
}

/// What it makes of a run that begins. The devices' process may not get a CPU for longer than is waited for an answer before a run, and no
/// servo has a fault yet then: it is begun again until they answer.
fn begun(khz: &mut Command) -> Output {
    for _ in 0..20 {
        let ran = khz.output().unwrap();
        let refused = stderr(&ran);
        let is_silent = ["it did not answer when asked to", "it sends no heartbeat within"];
        if ran.status.code() != Some(2) || !is_silent.iter().any(|why| refused.contains(why)) {
            return ran;
        }
    }
    panic!("the devices never answered")
}

/// The machine stood still for so long that of this servo the rest cannot be judged, and the run says so: one of which nothing can be read, or
/// whose heartbeats stayed away, may have lost its power; one that jumped was on its way back, faster than it may be, when it was next
/// seen; one that was being switched on was not seen to be; one that was off was not heard often enough. The run itself has to have measured the silence.
fn stood_still(json: &str, fault: &str) -> bool {
    let Ok(run) = serde_json::from_str::<serde_json::Value>(json) else { return false };
    let of = |figure: &serde_json::Value| figure.as_u64().unwrap();
    let silent = of(&run["servos"][0]["missed_in_a_row"]).max(of(&run["skipped_in_a_row"]));
    let ends_with = |why: &str| run["end"].as_str().is_some_and(|end| end.contains(why));
    let may_be_off = ends_with("it was silent") || ends_with("it sends no heartbeats any more");
    let may_be_on = ends_with("although it is commanded otherwise");
    let is_back = fault.starts_with("jump") && ends_with("rad/s, limit");
    let was_off = ends_with("did not say often enough that it is off");
    // When its time was over.
    let held_up = ends_with("the loop was held up for");
    silent >= 4 && (may_be_off || may_be_on || is_back || held_up)
        || was_off && of(&run["outside"]["missed_replies"]) > 0
}

#[test]
fn an_honest_servo_of_every_family_is_driven() {
    for stand in [FDCANUSB, UDP].into_iter().chain(on_can().map(|(_, stand)| stand)) {
        stand.bears("slow=100");
    }
}

#[test]
fn a_servo_that_answers_twice_is_found() {
    for stand in [FDCANUSB, UDP] {
        stand.finds("twice", "two replies to one query");
    }
    for (_, stand) in on_can() {
        stand.finds("twice", "answers more than it is asked");
    }
}

#[test]
fn a_servo_whose_values_are_no_numbers_is_found() {
    for stand in [FDCANUSB, UDP] {
        stand.finds("lying", "not a number");
    }
    for (_, stand) in on_can() {
        stand.finds("lying", "beyond what its replies carry");
    }
}

/// What the supervisor did not notice, or noticed and called a success.
#[test]
fn a_servo_in_another_mode_than_commanded_is_found() {
    for stand in [FDCANUSB, UDP] {
        for mode in [5, 15, 77] {
            stand.finds(&format!("mode={mode}"), "although it is commanded otherwise");
        }
    }
    // It sounds obedient in every fifth reply.
    UDP.finds("mode_mostly=15", "although it is commanded otherwise");
}

#[test]
fn a_servo_that_stays_on_ends_in_no_success() {
    let reporting = on_can().filter(|(name, _)| in_file(*name).facts().reports_on).map(|(_, stand)| stand);
    for stand in [FDCANUSB, UDP].into_iter().chain(reporting) {
        // Reported on, or no reply at all: a machine that is busy may miss the replies. It shows at the end of a run.
        stand.ends("3s", "stays_on", "cut its power", 1);
    }
}

#[test]
fn a_position_that_jumps_is_found() {
    for stand in [FDCANUSB, UDP].into_iter().chain(on_can().map(|(_, stand)| stand)) {
        stand.finds("jump=0.6", "jumped");
    }
}

#[test]
fn a_temperature_that_is_no_number_is_found() {
    for stand in [FDCANUSB, UDP] {
        stand.finds("unmeasured", "reports no number");
    }
}
