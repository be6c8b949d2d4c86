use super::*;
use crate::PositionCommand;
use crate::carries::Quantity;
use crate::mit::Protocol as _;

fn settings(firmware: Firmware) -> Settings {
    let (firmware, torque_constant) = (Some(firmware), Some(0.1));
    Settings::of(&OdriveSettings { firmware, torque_constant, reduction: 6.0, ..OdriveSettings::default() })
}

fn driver() -> Driver {
    let settings = settings(Firmware::V06);
    let (mounting, family) = (Mounting::default(), &settings);
    Driver::of(&ServoPlan { servo: 0, id: 1, mounting, watchdog_s: 0.1, family })
}

fn sent_by(driver: &Driver) -> Vec<u8> {
    driver.before().iter().map(|frame| frame.id as u8 & 0x1f).collect()
}

fn beat(driver: &mut Driver, errors: u32, state: u8) -> Received {
    driver.sent(0);
    let beat = Heartbeat { errors, state, ..Heartbeat::default() };
    driver.receive(&odrive::frame(1, command::HEARTBEAT, &beat.to_bytes()))
}

fn codes(kp: f64, kd: f64) -> Codes {
    let drive = settings(Firmware::V06).drive;
    Codes { kp: drive.kp().encode(kp), kd: drive.kd().encode(kd), ..Codes::default() }
}

/// What is sent with these gains, all of it handed over.
fn follow(driver: &mut Driver, kp: f64, kd: f64) -> Vec<u8> {
    driver.frame(Message::Command(codes(kp, kd)));
    (0..driver.before().len()).for_each(|which| driver.sent_before(which));
    sent_by(driver)
        .into_iter()
        .filter(|code| [command::POS_GAIN, command::VEL_GAINS].contains(code))
        .collect()
}

#[test]
fn what_is_between_two_gains_is_never_stiffer_than_both() {
    use command::{POS_GAIN, VEL_GAINS};
    let mut driver = driver();
    // Nothing is known at first.
    (0..3).for_each(|_| _ = follow(&mut driver, 0.0, 1.0));
    // To follow, the velocity gain first; to damp, the position gain.
    for (kp, kd, [first, second]) in [(30.0, 0.5, [VEL_GAINS, POS_GAIN]), (0.0, 1.0, [POS_GAIN, VEL_GAINS])] {
        let sent = [0; 3].map(|_| follow(&mut driver, kp, kd));
        assert_eq!(sent, [vec![first], vec![second], vec![]], "{kp} {kd}");
    }
    assert_eq!(follow(&mut driver, 0.0, 1.0), [0_u8; 0], "only when they change");
}

#[test]
fn nothing_is_switched_on_that_was_not_set_up_or_has_not_replied() {
    let mut driver = driver();
    driver.frame(Message::Enable);
    assert!(!driver.is_driven && sent_by(&driver) == [command::AXIS_STATE]);
    beat(&mut driver, 0, state::IDLE);
    let mut sent = Vec::new();
    while !driver.is_driven && sent.len() < 20 {
        driver.frame(Message::Enable);
        sent.extend(sent_by(&driver));
        (0..driver.before().len()).for_each(|which| driver.sent_before(which));
    }
    use command::{AXIS_STATE, CONTROLLER_MODE, LIMITS, POS_GAIN, VEL_GAINS};
    assert_eq!(sent, [CONTROLLER_MODE, LIMITS, POS_GAIN, VEL_GAINS, AXIS_STATE]);
    // The first heartbeat may be older than that.
    beat(&mut driver, 0, state::IDLE);
    assert_eq!(driver.output, Output::Starting);
    beat(&mut driver, 0, state::CLOSED_LOOP);
    assert_eq!(driver.output, Output::On);
    driver.frame(Message::Enable);
    assert_eq!(driver.output, Output::On, "it has said so, and the next heartbeat is far");
    driver.frame(Message::Disable);
    beat(&mut driver, 0, state::CLOSED_LOOP);
    assert_eq!(driver.output, Output::Starting, "neither on nor off");
    beat(&mut driver, 0, state::IDLE);
    assert_eq!(driver.output, Output::Off);
}

#[test]
fn an_error_is_kept_while_it_is_driven_and_only_a_timeout_before_is_cleared() {
    let mut driver = driver();
    let watchdog = Line::V06.watchdog();
    for (errors, clears) in [(watchdog, true), (watchdog | 0x200, false)] {
        assert_eq!(beat(&mut driver, errors, state::IDLE), Received::Aside);
        let sent: Vec<_> = (0..8)
            .flat_map(|_| {
                driver.frame(Message::Disable);
                sent_by(&driver)
            })
            .collect();
        assert_eq!(sent.contains(&command::CLEAR_ERRORS), clears, "{errors:#x}");
    }
    driver.is_driven = true;
    let Received::Fault(fault) = beat(&mut driver, 0x200, state::IDLE) else { panic!() };
    assert_eq!((fault.code, fault.text), (0x200, "bus voltage too low"));
    driver.was_driven = true;
    beat(&mut driver, watchdog, state::IDLE);
    for _ in 0..8 {
        driver.frame(Message::Disable);
        assert!(!sent_by(&driver).contains(&command::CLEAR_ERRORS), "never by the loop");
    }
}

#[test]
fn zeros_and_no_numbers_are_no_position() {
    let settings = settings(Firmware::V05);
    for none in [[0.0, 0.0], [f32::NAN, 0.0], [0.0, f32::INFINITY]] {
        assert_eq!(settings.estimates(&floats(none)), None);
    }
    assert_eq!(settings.estimates(&[0; 4]), None, "cut short");
    let [position, _] = settings.estimates(&floats([6.0, 0.0])).unwrap();
    assert!((position - TAU).abs() < 1e-9, "one turn of the joint");
}

#[test]
fn a_position_gain_without_a_velocity_gain_cannot_be_sent() {
    let carries = settings(Firmware::V06).carries(&Mounting::default());
    let limp = PositionCommand { kd_scale: 0.0, ..PositionCommand::hold(0.1) };
    assert_eq!(carries.lack(true, &limp).map(|(quantity, ..)| quantity), Some(Quantity::KdScale));
    let free = PositionCommand { kp_scale: 0.0, ..limp };
    assert_eq!(carries.lack(false, &free), None);
}

#[test]
fn what_only_hosts_send_is_of_another() {
    let mut driver = driver();
    let moved = odrive::frame(1, command::INPUT_POS, &[0; 8]);
    assert_eq!(driver.receive(&moved), Received::Fault(INTRUDED));
    assert!(!driver.is_from(&odrive::ask(1, command::ESTIMATES)), "who asks says nothing");
}
