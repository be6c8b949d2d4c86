//! Proposals that make a cycle fit: each is a robot file that holds what was promised, with its comments.
#![allow(clippy::unwrap_used)]

use khz_budget::{File, Inputs, TickPlan, Trial};
use khz_file::RobotConfig;

/// The commonest first robot: servos on one fdcanusb, everything left as it is.
fn first_robot(servos: usize) -> String {
    let mut text =
        "# mine\n[bus.main]\nlink = \"fdcanusb\" # the black one\npath = \"/dev/fdcanusb\"\n".to_owned();
    for id in 1..=servos {
        text += &format!("[[servo]]\nname = \"m{id}\"\nbus = \"main\"\nid = {id} # as delivered\n");
    }
    text
}

fn damiao(can_fd: bool) -> String {
    let mut text = format!(
        "[bus.can]\nlink = \"socketcan\"\ninterface = \"can0\"\n[servo_defaults]\nfamily = \"damiao\"\nbus = \"can\"\n\
         damiao = {{ model = \"4310\", can_fd = {can_fd} }}\n"
    );
    for id in 1..=4 {
        text += &format!("[[servo]]\nname = \"d{id}\"\nid = {id}\n");
    }
    text
}

/// Three servos on one classic bus, which their start-up frames fill.
fn robstride(link: &str) -> String {
    let mut text = format!(
        "[bus.can]\n{link}\n[servo_defaults]\nfamily = \"robstride\"\nbus = \"can\"\nrobstride = {{ model = \"RS02\" }}\n"
    );
    for id in 1..=3 {
        text += &format!("[[servo]]\nname = \"r{id}\"\nid = {id}\n");
    }
    text
}

fn fits(text: &str) -> bool {
    let robot = RobotConfig::parse(text, "proposal.toml").unwrap();
    TickPlan::of(&robot, Inputs::of(&robot)).predict().fits()
}

#[test]
fn three_moteus_on_one_fdcanusb_do_not_fit_and_every_cure_holds_what_it_says() {
    let text = first_robot(3);
    let file = File::read(&text, "robot.toml").unwrap();
    assert!(file.predict().deadline_missed);
    let cures = file.cures();
    let fitting = cures.iter().filter(|cure| cure.fits).count();
    assert!(fitting >= 3, "{cures:#?}");
    for key in ["loop.bus_deadline_us", "loop.rate_hz", "query.position", "2 buses"] {
        assert!(cures.iter().any(|cure| cure.what.contains(key)), "{key}: {cures:#?}");
    }
    assert!(fits(&file.fit(1000.0).unwrap().text));
}

#[test]
fn four_damiao_on_classic_can_are_late_and_can_fd_mends_it() {
    let text = damiao(false);
    let file = File::read(&text, "robot.toml").unwrap();
    assert!(!file.predict().fits());
    let cures = file.cures();
    let can_fd = cures.iter().find(|cure| cure.what.contains("damiao.can_fd")).unwrap();
    assert!(can_fd.fits && !can_fd.tight);
    assert!(File::read(&damiao(true), "robot.toml").unwrap().predict().fits());
}

#[test]
fn a_proposal_keeps_comments_and_fits_when_it_is_read_again() {
    for (servos, rate_hz) in [(3, 1000.0), (3, 1150.0), (2, 1400.0), (8, 400.0)] {
        let text = first_robot(servos);
        let fit = File::read(&text, "robot.toml").unwrap().fit(rate_hz).unwrap();
        assert!(fit.is_reached(), "{servos} at {rate_hz}: {}", fit.text());
        assert!(fits(&fit.text), "{}", fit.text);
        for comment in ["# mine", "# the black one", "# as delivered"] {
            assert!(fit.text.contains(comment), "{comment}: {}", fit.text);
        }
        let robot = RobotConfig::parse(&fit.text, "proposal.toml").unwrap();
        assert_eq!(robot.timing.rate_hz, rate_hz);
    }
}

#[test]
fn what_cannot_be_reached_says_the_nearest_and_that_fits() {
    for text in [first_robot(8), damiao(false), include_str!("../../../robots/arm.toml").to_owned()] {
        let file = File::read(&text, "robot.toml").unwrap();
        let fit = file.fit(5000.0).unwrap();
        assert!(!fit.is_reached() && fit.prediction.fits() && fit.rate_hz < 5000.0);
        // It was up to 5 % less than what does fit if it is asked for.
        assert!(!file.fit(fit.rate_hz + 2.0).unwrap().is_reached(), "{}", fit.text());
        assert!(fits(&fit.text) && fit.text().contains("the nearest is"), "{}", fit.text());
    }
}

#[test]
fn servos_are_moved_to_idle_buses_where_no_id_is_taken() {
    let text = first_robot(4).replace(
        "[[servo]]\nname = \"m1\"",
        "[bus.other]\nlink = \"fdcanusb\"\npath = \"/dev/other\"\n[[servo]]\nname = \"there\"\nbus = \"other\"\nid = 4\n[[servo]]\nname = \"m1\"",
    );
    let fit = File::read(&text, "robot.toml").unwrap().fit(1000.0).unwrap();
    assert!(fit.is_reached(), "{}", fit.text());
    let moved: Vec<_> = fit.edits.iter().filter(|edit| edit.key.starts_with("bus of")).collect();
    assert!(!moved.is_empty() && moved.iter().all(|edit| edit.then == "other" && edit.key != "bus of m4"));
}

#[test]
fn only_what_is_longer_is_shortened() {
    let text = format!(
        "{}query = {{ position = \"float\", torque = \"none\" }}\n[servo_defaults]\nquery = {{ velocity = \"int8\" }}\n",
        first_robot(3)
    );
    let fit = File::read(&text, "robot.toml").unwrap().fit(1200.0).unwrap();
    let robot = RobotConfig::parse(&fit.text, "proposal.toml").unwrap();
    let words = |index: usize| {
        let query = &robot.servos[index].query;
        [query.position, query.velocity, query.torque].map(|format| format.word())
    };
    assert_eq!(words(0), ["int16", "int8", "int16"], "{}", fit.text);
    assert_eq!(words(2), ["int16", "int8", "none"], "{}", fit.text);
}

#[test]
fn the_highest_rate_is_one_at_which_it_fits() {
    for text in [first_robot(3), damiao(false), include_str!("../../../robots/quadruped.toml").to_owned()] {
        let robot = RobotConfig::parse(&text, "robot.toml").unwrap();
        let mut plan = TickPlan::of(&robot, Inputs::of(&robot));
        let highest_hz = plan.predict().highest_rate_hz;
        for (share, expected) in [(0.999, true), (1.001, false)] {
            plan.period_ns = (1e9 / (highest_hz * share)) as i64;
            let fixed = plan.deadline_ns.is_some_and(|deadline_ns| deadline_ns >= plan.period_ns);
            assert_eq!(plan.predict().fits() && !fixed, expected, "{} at {share}", robot.name);
        }
    }
}

#[test]
fn three_robstride_on_one_bus_never_come_under_control_at_1_khz_and_no_file_says_so() {
    for link in ["link = \"emulated\"", "link = \"socketcan\"\ninterface = \"can0\""] {
        let text = robstride(link);
        let file = File::read(&text, "robot.toml").unwrap();
        // Under control they need 0.86 ms, commanded to stop 0.98 ms.
        let prediction = file.predict();
        assert!(prediction.start_cycle_ns > 950_000 && prediction.deadline_missed);
        assert!(
            prediction.replies_text().contains("before control after 9"),
            "{}",
            prediction.replies_text()
        );
        let fit = file.fit(1000.0).unwrap();
        assert!(!fit.is_reached() && fit.works(), "{}", fit.text());
        assert!(
            fit.text().contains("the nearest is") && fit.text().contains("no reply missed"),
            "{}",
            fit.text()
        );
        let nearest = RobotConfig::parse(&fit.text, "nearest.toml").unwrap();
        assert_eq!(Trial::of(&nearest).failure, None);
    }
}

#[test]
fn a_trial_says_why_a_file_does_not_work() {
    let mut robot = RobotConfig::parse(&robstride("link = \"emulated\""), "robot.toml").unwrap();
    robot.timing.bus_deadline_us = Some(924.0);
    let failure = Trial::of(&robot).failure.unwrap();
    assert!(
        failure.contains("does not come under control") && failure.contains("during start-up"),
        "{failure}"
    );
    robot.timing.rate_hz = 500.0;
    robot.timing.bus_deadline_us = Some(1500.0);
    assert_eq!(Trial::of(&robot).failure, None);
}

#[test]
fn every_fit_is_what_the_robot_does_in_virtual_time() {
    let damiao =
        |can_fd| damiao(can_fd).replace("link = \"socketcan\"\ninterface = \"can0\"", "link = \"emulated\"");
    let files = [
        damiao(false),
        damiao(true),
        robstride("link = \"emulated\""),
        include_str!("../../../robots/openarm_like.toml").to_owned(),
        include_str!("../../../robots/mixed.toml").to_owned(),
        include_str!("../../../robots/arm.toml").to_owned(),
        include_str!("../../../robots/pan_tilt.toml").to_owned(),
    ];
    for text in files {
        let fit = File::read(&text, "robot.toml").unwrap().fit(1000.0).unwrap();
        assert!(fit.works(), "{}", fit.text());
        let (prediction, trial) = (&fit.prediction, fit.trial.as_ref().unwrap());
        let pairs =
            [(prediction.cycle_ns, trial.cycle_ns), (prediction.start_cycle_ns, trial.start_cycle_ns)];
        for (predicted_ns, measured_ns) in pairs {
            let error = predicted_ns as f64 / measured_ns as f64 - 1.0;
            assert!(error.abs() < 0.05, "{predicted_ns} {measured_ns}: {}", fit.text());
        }
    }
}

#[test]
fn what_faults_delay_replies_by_is_predicted() {
    let predicted = |faults: &str| {
        let file = format!("{}\n{faults}", "link = \"emulated\"");
        File::read(&robstride(&file), "robot.toml").unwrap().predict()
    };
    let (calm, delayed) = (predicted(""), predicted("faults = { delay_us = 300, jitter_us = 100 }"));
    assert_eq!(delayed.cycle_ns - calm.cycle_ns, 350_000);
    assert_eq!(delayed.longest_cycle_ns - calm.longest_cycle_ns, 400_000);
    assert!(
        delayed.assumptions.iter().any(|assumption| assumption.contains("`faults`")),
        "{:?}",
        delayed.assumptions
    );
}

/// Two of three servos on RS485 whose replies are later than a third of the cycle were predicted to be given up, and 98 Hz to be
/// possible.
#[test]
fn a_reply_that_is_late_on_rs485_holds_up_the_next_query() {
    let predicted_us = |delay_us: u32| {
        let mut text = format!(
            "[loop]\nrate_hz = 200\n[bus.main]\nlink = \"emulated\"\nwire = \"rs485\"\nfaults = {{ delay_us = {delay_us} }}\n"
        );
        (1..=3).for_each(|id| text += &format!("[[servo]]\nname = \"s{id}\"\nbus = \"main\"\nid = {id}\n"));
        File::read(&text, "robot.toml").unwrap().predict().cycle_ns / 1_000
    };
    assert_eq!(predicted_us(300) - predicted_us(0), 900, "each of the three is waited for");
    assert_eq!(predicted_us(2_400) - predicted_us(2_000), 1_200);
}

#[test]
fn check_and_budget_name_one_bus_deadline() {
    let text =
        robstride("link = \"emulated\"").replace("[bus.can]", "[loop]\nbus_deadline_us = 880\n[bus.can]");
    let text = File::read(&text, "robot.toml").unwrap().predict().replies_text();
    assert!(text.contains("20 µs before the bus deadline of 880 µs"), "{text}");
}

/// From 1,100 Hz on a CyberGear was asked for its state while it switched on, which commands it to stop.
#[test]
fn what_is_predicted_to_fit_comes_under_control() {
    for family in [
        "family = \"robstride\"\nrobstride = { model = \"CyberGear\" }",
        "family = \"robstride\"\nrobstride = { model = \"RS02\" }",
        "family = \"cubemars\"\ncubemars = { model = \"AK80-9\", unwatched = true, kp = 30, kd = 1 }",
        "family = \"damiao\"\ndamiao = { model = \"4310\" }",
        "family = \"rmd\"\nrmd = { model = \"X8\", protocol = \"V4.4\", reply_delay_us = 100 }",
    ] {
        for (servos, rate_hz) in
            (1..=3).flat_map(|servos| (9..=30).map(move |step| (servos, 100.0 * f64::from(step))))
        {
            let mut text = format!(
                "[loop]\nrate_hz = {rate_hz}\n[bus.can]\nlink = \"emulated\"\n[servo_defaults]\nbus = \"can\"\n{family}\n"
            );
            (1..=servos).for_each(|id| text += &format!("[[servo]]\nname = \"s{id}\"\nid = {id}\n"));
            let file = File::read(&text, "robot.toml").unwrap();
            let robot = RobotConfig::parse(&text, "robot.toml").unwrap();
            if !file.predict().fits() {
                continue;
            }
            let failure = Trial::of(&robot).failure;
            assert_eq!(failure, None, "{servos} servos at {rate_hz} Hz: {family}");
        }
    }
}

/// One question has room for 60 servos: of 61 the last was predicted to be asked for nothing.
#[test]
fn a_second_question_to_servos_of_one_layout_is_counted() {
    let questions = |servos: usize| {
        let mut text = "[loop]\nrate_hz = 20\n[bus.main]\nlink = \"emulated\"\nwire = \"dynamixel\"\nbaud = 1_000_000\n[servo_defaults]\n\
             bus = \"main\"\nfamily = \"dynamixel\"\ndynamixel = { model = \"XL330-M288\", torque_constant = 0.35 }\n"
            .to_owned();
        (1..=servos).for_each(|id| text += &format!("[[servo]]\nname = \"s{id}\"\nid = {id}\n"));
        let robot = RobotConfig::parse(&text, "robot.toml").unwrap();
        let plan = TickPlan::of(&robot, Inputs::VIRTUAL);
        let is_asked = |asked: &&Vec<khz_wire::Frame>| !asked.is_empty();
        plan.lines[0]
            .exchanges
            .iter()
            .filter_map(|exchange| exchange.shared.as_ref())
            .filter(is_asked)
            .count()
    };
    assert_eq!([60, 61].map(questions), [1, 2]);
}

/// `servo.count=6` of a robot with six servos was predicted to make its cycle a third shorter: the question to all was missing.
#[test]
fn what_servos_that_are_asked_together_would_take_is_not_guessed() {
    let text = include_str!("../../../robots/so101.toml");
    let file = File::read(text, "so101.toml").unwrap();
    let robot = RobotConfig::parse(text, "so101.toml").unwrap();
    let mut plan = TickPlan::of(&robot, Inputs::of(&robot));
    for change in ["servo.count=6", "bus.count=2", "command.bytes=8"] {
        let error = khz_budget::apply(&mut plan, change).unwrap_err().to_string();
        assert!(error.contains("a copy of the file"), "{error}");
    }
    assert!(file.cures().iter().all(|cure| !cure.what.contains("buses like")));
}
