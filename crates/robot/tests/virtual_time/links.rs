//! The settings of a bus in a robot file reach its link.

use khz_file::RobotConfig;
use khz_link::Link;
use khz_loop::ServoCommand;
use khz_loop::supervisor::Cause;
use khz_loop::time::Receive;
use khz_robot::assemble;
use khz_wire::udp::{Datagram, DatagramKind, Header, Sensors, Writer};
use khz_wire::{Address, Frame};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::net::UdpSocket;
use std::os::fd::OwnedFd;

/// The other end of a serial port, and the port's name.
fn terminal() -> (OwnedFd, String) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    (master, name)
}

/// A thread of the kernel delivers the bytes of these adapters; a spinning real-time thread kept it off the CPU.
#[test]
fn a_loop_on_a_serial_adapter_leaves_the_kernel_a_cpu() {
    let receive = |wait: &str, bus: &str| {
        let servo = "[[servo]]\nname = \"hip\"\nbus = \"legs\"\nid = 1\n";
        let file = format!("[loop]\n{wait}\n[bus.legs]\n{bus}\n{servo}");
        RobotConfig::parse(&file, "robot.toml").unwrap().receive()
    };
    let fdcanusb = "link = \"fdcanusb\"\npath = \"/dev/ttyACM0\"";
    assert_eq!(receive("", fdcanusb), Receive::Poll);
    assert_eq!(receive("receive = \"spin\"", fdcanusb), Receive::Spin);
    assert_eq!(receive("", "link = \"emulated\""), Receive::Spin);
    let rs485 = |driver: &str| format!("link = \"rs485\"\npath = \"/dev/ttyAMA0\"\n{driver}");
    assert_eq!(receive("", &rs485("")), Receive::Poll);
    // This process looks at the registers itself.
    assert_eq!(receive("", &rs485("driver = \"pl011\"")), Receive::Spin);
}

/// Opens the one bus of a robot file with these settings.
fn open(settings: &str) -> Result<Box<dyn Link>, String> {
    let file = format!("[bus.legs]\n{settings}\n[[servo]]\nname = \"hip\"\nbus = \"legs\"\nid = 1\n");
    let robot = RobotConfig::parse(&file, "robot.toml").unwrap();
    let mut opened =
        assemble::open_links(&robot, |world| Box::new(world)).map_err(|error| error.to_string())?;
    Ok(opened.links.remove(0))
}

#[test]
fn bit_rate_switch_is_the_files() {
    for (value, line) in [(true, "can send 8001 1100 BF *"), (false, "can send 8001 1100 bF *")] {
        let (master, path) = terminal();
        let mut link =
            open(&format!("link = \"fdcanusb\"\npath = \"{path}\"\nbit_rate_switch = {value}")).unwrap();
        link.send(0, &Address::request(&Frame::new(0x8001, &[0x11, 0]).unwrap()), 0).unwrap();
        link.flush(0).unwrap();
        let mut received = [0; 64];
        let len = rustix::io::read(&master, &mut received).unwrap();
        assert!(received[..len].starts_with(line.as_bytes()));
    }
}

#[test]
fn checksums_are_the_files_and_on_where_it_says_nothing() {
    for (setting, line) in [
        ("", "can send 8001 1100 BF *16\n"),
        ("checksum = true", "can send 8001 1100 BF *16\n"),
        ("checksum = false", "can send 8001 1100 BF\n"),
    ] {
        let (master, path) = terminal();
        let mut link = open(&format!("link = \"fdcanusb\"\npath = \"{path}\"\n{setting}")).unwrap();
        link.send(0, &Address::request(&Frame::new(0x8001, &[0x11, 0]).unwrap()), 0).unwrap();
        link.flush(0).unwrap();
        let mut received = [0; 64];
        let len = rustix::io::read(&master, &mut received).unwrap();
        assert_eq!(std::str::from_utf8(&received[..len]).unwrap(), line, "{setting}");
    }
}

#[test]
fn a_device_whose_address_ends_in_255_is_asked_alone() {
    // The loopback network is 127.0.0.0/8: this is no broadcast address.
    let device = UdpSocket::bind("127.0.0.255:0").unwrap();
    let address = device.local_addr().unwrap();
    let mut link = open(&format!("link = \"udp\"\naddress = \"{address}\"")).unwrap();
    link.send(0, &Address::request(&Frame::new(0x8001, &[0x11, 0]).unwrap()), 0).unwrap();
    link.flush(0).unwrap();
    let mut received = [0; 64];
    let len = device.recv(&mut received).unwrap();
    assert_eq!(Datagram::parse(&received[..len]).unwrap().header.kind, DatagramKind::Request);
}

#[test]
fn the_imu_may_be_in_a_device_of_any_udp_bus() {
    for with_imu in 0..2 {
        let devices = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let mut file = "[imu]\nlink = \"udp\"\n".to_owned();
        for (at, device) in devices.iter().enumerate() {
            let address = device.local_addr().unwrap();
            file += &format!("[bus.b{at}]\nlink = \"udp\"\naddress = \"{address}\"\n");
            file += &format!("[[servo]]\nname = \"s{at}\"\nbus = \"b{at}\"\nid = 1\n");
        }
        let robot = RobotConfig::parse(&file, "robot.toml").unwrap();
        let mut opened = assemble::open_links(&robot, |_| unreachable!("nothing here is emulated")).unwrap();
        let (mut cycle, mut state) = (assemble::cycle(&robot, &opened), assemble::state(&robot));
        cycle.begin(&[ServoCommand::Stop; 2], 1_000_000);
        cycle.send(&mut opened.links, 0);

        let mut buffer = [0; 1024];
        let (len, host) = devices[with_imu].recv_from(&mut buffer).unwrap();
        let sequence = Datagram::parse(&buffer[..len]).unwrap().header.sequence;
        let reading = Sensors { attitude: [1.0, 0.0, 0.0, 0.0], rate: [0.5; 3], acceleration: [0.0; 3] };
        let mut reply = Writer::new(Header { kind: DatagramKind::Reply, sequence }, &mut buffer).unwrap();
        reply.push(0, &reading.to_frame().unwrap()).unwrap();
        devices[with_imu].send_to(reply.written(), host).unwrap();

        cycle.receive(&mut opened.links, 0);
        cycle.receive_imu(&mut opened.links, &mut state, 0);
        assert_eq!(state.imu.unwrap().sample.rate, [0.5; 3], "bus {with_imu}");
        assert!(!cycle.end(&mut state).imu_missed);
    }
}

#[test]
fn a_link_that_is_down_is_named_by_its_buses() {
    let bus = |name: &str, link: &str| {
        format!("[bus.{name}]\n{link}\n[[servo]]\nname = \"{name}_1\"\nbus = \"{name}\"\nid = 1\n")
    };
    let file: String = [
        bus("head", "link = \"udp\"\naddress = \"127.0.0.1:9\""),
        bus("left", "link = \"emulated\""),
        bus("tail", "link = \"udp\"\naddress = \"127.0.0.1:10\""),
        bus("right", "link = \"emulated\""),
    ]
    .concat();
    let robot = RobotConfig::parse(&file, "robot.toml").unwrap();
    let machine = assemble::machine(&robot, assemble::controller(&robot.controller)).unwrap();
    assert_eq!(machine.buses().places, [(1, 0), (0, 1), (2, 0), (0, 3)]);
    let text = |link| machine.explained(Cause::BusDown { link }, None).to_string();
    assert_eq!(machine.links().len(), 3);
    assert_eq!(text(0), "the link of buses left, right is down");
    assert_eq!([text(1), text(2)], ["bus head is down", "bus tail is down"]);
}

#[test]
fn of_emulated_buses_only_the_rs485_one_is_asked_one_by_one() {
    let servos = (1..=6).map(|id| {
        let bus = if id > 3 { "arm" } else { "legs" };
        format!("[[servo]]\nname = \"s{id}\"\nbus = \"{bus}\"\nid = {id}\n")
    });
    let servos: String = servos.collect();
    // With faults the machine is behind a wrapper.
    for faults in ["", "[bus.legs.faults]\nevents = [{ at_s = 60.0, kind = \"bus_off\" }]\n"] {
        let buses = "[bus.legs]\nlink = \"emulated\"\n[bus.arm]\nlink = \"emulated\"\nwire = \"rs485\"\n";
        let robot = RobotConfig::parse(&format!("{buses}{faults}{servos}"), "robot.toml").unwrap();
        let mut opened = assemble::open_links(&robot, |world| Box::new(world)).unwrap();
        let mut cycle = assemble::cycle(&robot, &opened);
        cycle.begin(&[ServoCommand::default(); 6], 1_000_000);
        cycle.send(&mut opened.links, 0);
        assert_eq!([0, 1].map(|bus| opened.links[0].half_duplex(bus)), [false, true]);
        assert_eq!([0, 1].map(|bus| opened.links[0].counters(bus).sent), [3, 1], "{faults}");
    }
}

#[test]
fn direction_is_the_files() {
    // A pseudo terminal's driver cannot switch.
    for (direction, opens) in [("auto", true), ("adapter", true), ("kernel", false)] {
        let (_master, path) = terminal();
        let opened = open(&format!("link = \"rs485\"\npath = \"{path}\"\ndirection = \"{direction}\""));
        assert_eq!(opened.is_ok(), opens, "{direction}");
        if let Err(error) = opened {
            assert!(
                error.starts_with(&format!("bus legs: {path}: ")) && error.contains("TIOCSRS485"),
                "{error}"
            );
        }
    }
}

#[test]
fn the_pl011_is_offered_where_there_is_one() {
    let (_master, path) = terminal();
    let error =
        open(&format!("link = \"rs485\"\npath = \"{path}\"\ndriver = \"pl011\"")).map(|_| ()).unwrap_err();
    assert!(error.contains("no PL011 UART") && error.contains("driver = \"tty\""), "{error}");
}
