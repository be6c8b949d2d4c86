//! The host's side of a family against the emulated servo of that family.

use khz_emu::{BusConfig, ServoConfig, WireKind, World, WorldConfig};
use khz_link::Link;
use khz_servo::{Family, Mounting, ServoCommand, ServoPlan, ServoState, Taken, family, moteus};

#[test]
fn a_moteus_answers_every_form_of_query_with_all_values() {
    let bus = BusConfig { wire: WireKind::Instant, ..BusConfig::CAN_FD };
    let config = WorldConfig { buses: vec![bus], servos: vec![ServoConfig::new(0, 1)], imu: None, seed: 1 };
    let mut world = World::new(&config).unwrap();
    let family = Family::Moteus(moteus::Settings::default());
    let plan = ServoPlan { servo: 0, id: 1, mounting: Mounting::default(), watchdog_s: 0.1, family };
    let mut servos = family::on_bus(&[plan]).remove(0);
    // While replies are missing every query that can be distinguished from the others takes another form.
    let mut replies = Vec::new();
    for number in 0..600 {
        let now_ns = number * 1_000_000;
        servos.begin(&[ServoCommand::Stop]);
        world.send(0, servos.request(0, 0).unwrap().frame, now_ns).unwrap();
        servos.sent(0, 0, now_ns);
        replies.push((now_ns, world.receive(now_ns + 900_000).unwrap().unwrap()));
    }
    let mut known = 0;
    for (at_ns, reply) in replies {
        let mut states = [ServoState::UNKNOWN];
        if let Taken::State { servo: 0, sent_ns, .. } = servos.take(&reply.frame, &mut states) {
            let [state] = states;
            assert_eq!(sent_ns, at_ns);
            assert!(state.position.is_finite() && state.voltage > 20.0 && state.temperature > 10.0);
            known += 1;
        }
    }
    // Seven orders of the reads and forty registers that mark a query.
    assert!(known >= 40, "{known}");
}
