//! A machine on the bench, in virtual time.

use khz_emu::{BusConfig, ServoConfig, World, WorldConfig};
use khz_link::{Link, Received};
use khz_wire::{Address, Frame};

pub const MS: i64 = 1_000_000;

/// A world with the time in hand.
pub struct Bench {
    pub world: World,
    pub now_ns: i64,
}

impl Bench {
    /// Servos 1 to `count` on one bus.
    pub fn new(bus: BusConfig, count: u8) -> Self {
        Self::of(bus, (1..=count).map(|id| ServoConfig::new(0, id)).collect())
    }

    pub fn of(bus: BusConfig, servos: Vec<ServoConfig>) -> Self {
        let config = WorldConfig { buses: vec![bus], servos, imu: None, seed: 1 };
        Self { world: World::new(&config).unwrap(), now_ns: 5_000_000_000 }
    }

    /// One servo that costs no time, configured.
    pub fn servo(settings: &[(&str, &str)]) -> Self {
        let servo = settings.iter().fold(ServoConfig::new(0, 1), |servo, (name, v)| servo.with(name, v));
        Self::of(BusConfig::INSTANT, vec![servo])
    }

    /// Queues a payload for a servo, as hex digits.
    pub fn send(&mut self, id: u8, reply: bool, hex: &str) {
        self.send_frame(Frame::new(Address::to(id, reply).id(), &bytes(hex)).unwrap());
    }

    pub fn send_frame(&mut self, mut frame: Frame) {
        frame.pad();
        self.world.send(0, &frame, self.now_ns).unwrap();
    }

    /// Everything that has come by now.
    pub fn received(&mut self) -> Vec<Received> {
        std::iter::from_fn(|| self.world.receive(self.now_ns).unwrap()).collect()
    }

    /// Lets time pass.
    pub fn wait_ms(&mut self, ms: i64) {
        self.now_ns += ms * MS;
        self.world.advance(self.now_ns);
    }

    /// Runs until something comes; it.
    pub fn next(&mut self) -> Option<Received> {
        loop {
            if let Some(received) = self.world.receive(self.now_ns).unwrap() {
                return Some(received);
            }
            let next_ns = self.world.next_event_ns()?;
            self.now_ns = next_ns.max(self.now_ns + 1);
        }
    }

    /// Asks and gives the payload of the answer as hex digits without padding; "-" if there is none.
    pub fn ask(&mut self, hex: &str) -> String {
        self.send(1, true, hex);
        self.next().map_or("-".into(), |received| unpadded(received.frame.payload()))
    }

    /// Sends without a query.
    pub fn command(&mut self, hex: &str) {
        self.send(1, false, hex);
        self.world.advance(self.now_ns);
    }

    /// Reads one register as a float.
    pub fn float(&mut self, register: u16) -> f32 {
        let mut payload = vec![0x1d];
        payload.extend(varuint(register));
        let frame = Frame::new(Address::to(1, true).id(), &payload).unwrap();
        self.send_frame(frame);
        let received = self.next().expect("a reply");
        let at = payload.len();
        let bytes = received.frame.payload()[at..at + 4].try_into().unwrap();
        f32::from_le_bytes(bytes)
    }

    /// Mode and fault.
    pub fn state(&mut self) -> (i32, i32) {
        (self.float(0x000) as i32, self.float(0x00f) as i32)
    }
}

pub fn varuint(number: u16) -> Vec<u8> {
    if number < 0x80 { vec![number as u8] } else { vec![number as u8 | 0x80, (number >> 7) as u8] }
}

pub fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Without the padding that a reply as long as this one got.
fn unpadded(payload: &[u8]) -> String {
    let end = payload.iter().rposition(|&byte| byte != 0x50).map_or(0, |last| last + 1);
    hex(&payload[..end])
}
