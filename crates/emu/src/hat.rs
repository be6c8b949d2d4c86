//! An emulated pi3hat: three SPI slaves in front of a [`World`] of five buses.
//!
//! Registers as mjbots/pi3hat `fw/can_bridge.h` and `fw/imu.h` have them; each transfer costs what
//! [`SpiCost`] gives. The radio finds no remote. Not there: the raw IMU register, the attitude filter's settling, and the
//! cancelling of unacknowledged frames.

mod radio;

use crate::world::World;
use khz_link::pi3hat::{Processor, Spi};
use khz_link::{ImuSample, Link, LinkError, Received};
use khz_wire::pi3hat::{
    Attitude, CanConfig, DeviceInfo, ErrorStatus, IMU_VERSION, INTERFACE_TYPE, ImuConfig, MAX_BLOB,
    Performance, Ready, decode_send, encode_receive_status, encode_received, register,
};
use khz_wire::time::SpiCost;
use radio::Radio;
use std::collections::VecDeque;

/// Frames each processor queues for the host; later ones are lost.
const QUEUE: usize = 32;

/// The hat with its devices.
pub struct Hat {
    world: World,
    version: u8,
    cost: SpiCost,
    queues: [VecDeque<Received>; 3],
    can: [CanConfig; 5],
    imu: ImuConfig,
    radio: Radio,
    next_sample_ns: i64,
    sample: Option<ImuSample>,
    transfers: u64,
    busy_ns: i64,
}

impl Hat {
    /// A hat of protocol version 3 or 4 in front of a machine; the machine's buses are JC1 to JC5.
    pub fn new(world: World, version: u8) -> Self {
        let mut can = [CanConfig::HOST_DEFAULT; 5];
        can[4] = CanConfig::PORT_5_DEFAULT;
        Self {
            world,
            version,
            cost: SpiCost::PI3HAT,
            queues: [(); 3].map(|()| VecDeque::with_capacity(QUEUE)),
            can,
            imu: ImuConfig::FIRMWARE_DEFAULT,
            radio: Radio::new(),
            next_sample_ns: i64::MIN,
            sample: None,
            transfers: 0,
            busy_ns: 0,
        }
    }

    /// The machine behind the hat.
    pub fn world(&mut self) -> &mut World {
        &mut self.world
    }

    /// Transfers so far, and the time they took together, ns.
    pub fn spent(&self) -> (u64, i64) {
        (self.transfers, self.busy_ns)
    }

    /// How a bus is set up, JC1 being 0.
    pub fn can(&self, channel: usize) -> Option<&CanConfig> {
        self.can.get(channel)
    }

    /// What happened by now: frames come in, the IMU is sampled.
    fn advance(&mut self, now_ns: i64) {
        self.radio.advance(now_ns);
        while let Ok(Some(received)) = self.world.receive(now_ns) {
            let queue = &mut self.queues[usize::from(received.channel / 2).min(2)];
            if queue.len() < QUEUE {
                queue.push_back(received);
            }
        }
        let Some(imu) = self.world.imu() else { return };
        if let Ok(Some(sample)) = imu.poll(now_ns) {
            self.sample = Some(sample);
        }
        if now_ns >= self.next_sample_ns {
            let period_ns = 1_000_000_000 / i64::from(self.imu.rate_hz.max(1));
            self.next_sample_ns = self.next_sample_ns.max(now_ns - period_ns) + period_ns;
            // An IMU that cannot be asked gives no sample, which the host sees.
            let _ = imu.request(now_ns);
        }
    }

    fn finish(&mut self, data: usize, now_ns: i64) -> i64 {
        let took_ns = self.cost.transaction_with_ns(data);
        self.transfers += 1;
        self.busy_ns += took_ns;
        now_ns + took_ns
    }

    /// What a register reads; nothing where it has nothing.
    fn content(&mut self, of: Processor, address: u8, out: &mut [u8; 128], now_ns: i64) -> usize {
        let queue = &mut self.queues[of as usize];
        let is_aux = of == Processor::Aux;
        let mut put = |bytes: &[u8]| {
            out[..bytes.len()].copy_from_slice(bytes);
            bytes.len()
        };
        match address {
            register::PROTOCOL_VERSION => put(&[self.version]),
            register::INTERFACE_TYPE => put(&[INTERFACE_TYPE]),
            register::RECEIVE_STATUS => {
                let mut sizes = [0; 6];
                for (size, waiting) in sizes.iter_mut().zip(queue.iter()) {
                    *size = waiting.frame.payload().len() as u8 + 5;
                }
                put(&encode_receive_status(sizes))
            }
            register::RECEIVE_FRAME => {
                let mut blob = [0; MAX_BLOB];
                let Some(Received { channel, frame, .. }) = queue.pop_front() else { return 0 };
                let len = encode_received(channel % 2, &frame, &mut blob).unwrap_or(0);
                put(&blob[..len])
            }
            register::READ_CAN_CONFIG | 8 if self.version >= 3 => {
                let channel = of as usize * 2 + usize::from(address - register::READ_CAN_CONFIG);
                let config = self.can.get(channel).map(CanConfig::encode);
                config.map_or(0, |config| put(&config[..CanConfig::len(self.version)]))
            }
            register::ERROR_STATUS => put(&ErrorStatus::encode([ErrorStatus::default(); 2])),
            register::DEVICE_INFO => {
                put(&DeviceInfo { git_hash: [0; 20], dirty: false, serial: [of as u8 + 1; 12] }.encode())
            }
            // A figure like a real one's: no firmware runs here.
            register::PERFORMANCE => put(&Performance { average: 300, minimum: 250 }.encode()),
            register::IMU_VERSION if is_aux => put(&[IMU_VERSION]),
            register::READ_IMU_CONFIG if is_aux => put(&self.imu.encode()),
            register::READY if is_aux => {
                put(&Ready { can: !queue.is_empty(), imu: self.sample.is_some(), rf: 0 }.encode())
            }
            register::ATTITUDE if is_aux => {
                self.sample.take().map_or(0, |sample| put(&attitude(&sample).encode()))
            }
            _ if is_aux => {
                self.radio.content(address, now_ns).map_or(0, |(content, len)| put(&content[..len]))
            }
            _ => 0,
        }
    }

    fn take(&mut self, of: Processor, address: u8, bytes: &[u8], done_ns: i64) {
        let first = of as usize * 2;
        match address {
            register::SEND_LONG_ID | register::SEND_SHORT_ID => {
                let port = usize::from(bytes.first().is_some_and(|first| first >> 7 == 1));
                let Some(config) = self.can.get(first + port) else { return };
                if let Some((port, frame)) = decode_send(address, bytes, config) {
                    // A full queue drops silently, as the firmware's does.
                    let _ = self.world.send(first as u8 + port, &frame, done_ns);
                }
            }
            register::WRITE_CAN_CONFIG | 10 if bytes.len() == CanConfig::len(self.version) => {
                let channel = first + usize::from(address - register::WRITE_CAN_CONFIG);
                if let (Some(slot), Some(config)) = (self.can.get_mut(channel), CanConfig::decode(bytes)) {
                    *slot = config;
                }
            }
            register::WRITE_IMU_CONFIG if bytes.len() == 16 && of == Processor::Aux => {
                self.imu = ImuConfig::decode(bytes).unwrap_or(self.imu);
                self.sample = None;
            }
            _ if of == Processor::Aux => self.radio.take(address, bytes),
            _ => {}
        }
    }
}

/// From our axes to the hat's (x forward, y right, z down; °/s).
fn attitude(sample: &ImuSample) -> Attitude {
    let turned = |[x, y, z]: [f64; 3]| [x, -y, -z].map(|value| value as f32);
    let [w, x, y, z] = sample.attitude;
    Attitude {
        attitude: [w, x, -y, -z].map(|value| value as f32),
        rate_dps: turned(sample.rate.map(f64::to_degrees)),
        acceleration: turned(sample.acceleration),
        ..Attitude::default()
    }
}

impl Spi for Hat {
    fn read(&mut self, of: Processor, register: u8, into: &mut [u8], now_ns: i64) -> Result<i64, LinkError> {
        self.advance(now_ns);
        let mut content = [0; 128];
        let len = self.content(of, register, &mut content, now_ns).min(into.len());
        into.fill(0);
        into[..len].copy_from_slice(&content[..len]);
        Ok(self.finish(into.len(), now_ns))
    }

    fn write(&mut self, to: Processor, register: u8, bytes: &[u8], now_ns: i64) -> Result<i64, LinkError> {
        let done_ns = self.finish(bytes.len(), now_ns);
        self.advance(done_ns);
        self.take(to, register, bytes, done_ns);
        Ok(done_ns)
    }

    fn settle(&mut self, ns: i64, now_ns: i64) -> i64 {
        now_ns + ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{BusConfig, ImuConfig as EmulatedImu};
    use crate::family::ServoConfig;
    use crate::machine::WorldConfig;
    use khz_link::Imu;
    use khz_link::pi3hat::{Options, Pi3hat};
    use khz_wire::{Address, Frame};

    fn link(version: u8) -> Pi3hat<Hat> {
        let servos = (0..5).map(|bus| ServoConfig::new(bus, bus as u8 + 1)).collect();
        let imu = Some(EmulatedImu::default());
        let config = WorldConfig { buses: vec![BusConfig::CAN_FD; 5], servos, imu, ..WorldConfig::default() };
        let hat = Hat::new(World::new(&config).unwrap(), version);
        Pi3hat::open(hat, &Options::default(), replier, 0).unwrap()
    }

    fn replier(_: u8, frame: &Frame) -> Option<u8> {
        Address::replier(frame)
    }

    fn query(id: u8) -> Frame {
        Frame::new(Address::to(id, true).id(), &[0x11, 0]).unwrap()
    }

    #[test]
    fn opening_configures_every_bus_and_the_imu() {
        for version in [2, 3, 4] {
            let mut link = link(version);
            let expected = if version == 2 { CanConfig::PORT_5_DEFAULT } else { CanConfig::HOST_DEFAULT };
            assert_eq!(link.spi().can(4), Some(&expected));
            assert_eq!(link.spi().imu, ImuConfig::HOST_DEFAULT);
        }
    }

    #[test]
    fn the_radio_answers_as_the_original_library_asks_at_its_start() {
        let config = WorldConfig { buses: vec![BusConfig::CAN_FD; 5], ..WorldConfig::default() };
        let mut hat = Hat::new(World::new(&config).unwrap(), 4);
        let read = |hat: &mut Hat, of, register, len: usize, now_ms: i64| {
            let mut into = vec![0xaa; len];
            hat.read(of, register, &mut into, now_ms * 1_000_000).unwrap();
            into
        };
        let aux = Processor::Aux;
        // The version must be this one; the id is written unless it is already there, and must read back.
        assert_eq!(read(&mut hat, aux, 48, 1, 1000), [0x10]);
        assert_eq!(read(&mut hat, aux, 49, 4, 1001), [0x45, 0x30, 0, 0]);
        hat.write(aux, 50, &5678_u32.to_le_bytes(), 1_002_000_000).unwrap();
        assert_eq!(read(&mut hat, aux, 49, 4, 1012), 5678_u32.to_le_bytes());
        // Too short to be an id.
        hat.write(aux, 50, &[1, 2], 1_013_000_000).unwrap();
        assert_eq!(read(&mut hat, aux, 49, 4, 1023), 5678_u32.to_le_bytes());
        // Nothing is received: no slot has changed, and there has been no lock for 500 ms.
        assert_eq!(read(&mut hat, aux, 52, 8, 1500), [0, 0, 0, 0, 0xf4, 1, 0, 0]);
        assert_eq!(read(&mut hat, aux, 64, 21, 1501), [0; 21]);
        assert_eq!(read(&mut hat, Processor::Can1, 48, 1, 1502), [0], "the other processors have no radio");
    }

    #[test]
    fn a_hat_of_another_time_is_refused() {
        let world = || World::new(&WorldConfig { buses: vec![BusConfig::CAN_FD; 5], ..Default::default() });
        for (version, message) in [(0, "does not answer"), (1, "version 1"), (5, "version 5")] {
            let opened = Pi3hat::open(Hat::new(world().unwrap(), version), &Options::default(), replier, 0);
            let error = opened.map(|_| ()).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        }
    }

    #[test]
    fn every_bus_answers_and_the_attitude_is_read_meanwhile() {
        let mut link = link(4);
        let mut now_ns = 10_000_000;
        (0..5)
            .for_each(|channel| link.send(channel, &Address::request(&query(channel + 1)), now_ns).unwrap());
        link.flush(now_ns).unwrap();
        link.request(now_ns).unwrap();
        let (mut channels, mut sample) = (Vec::new(), None);
        while channels.len() < 5 || sample.is_none() {
            now_ns = now_ns.max(link.next_event_ns().unwrap());
            sample = sample.or(link.poll(now_ns).unwrap());
            while let Some(received) = link.receive(now_ns).unwrap() {
                assert_eq!(Address::from_id(received.frame.id).source, received.channel + 1);
                channels.push(received.channel);
            }
        }
        channels.sort_unstable();
        assert_eq!(channels, [0, 1, 2, 3, 4]);
        let [w, x, y, z] = sample.unwrap().attitude;
        assert!(w > 0.99 && (w * w + x * x + y * y + z * z - 1.0).abs() < 1e-6);
    }

    #[test]
    fn late_frames_do_not_count_as_the_next_cycles_replies() {
        let mut link = link(4);
        link.send(0, &Address::request(&query(1)), 10_000_000).unwrap();
        link.flush(10_000_000).unwrap();
        // The reply is not asked for before the next burst.
        link.send(0, &Address::request(&query(1)), 20_000_000).unwrap();
        link.flush(20_000_000).unwrap();
        assert_eq!(received_ids(&mut link, 20_000_000, 21_000_000), [0x100, 0x100]);
    }

    /// The identifiers of what a host receives that waits until `until_ns`.
    fn received_ids(link: &mut Pi3hat<Hat>, mut now_ns: i64, until_ns: i64) -> Vec<u32> {
        let mut ids = Vec::new();
        while now_ns < until_ns {
            ids.extend(
                std::iter::from_fn(|| link.receive(now_ns).unwrap()).map(|received| received.frame.id),
            );
            now_ns = link.next_event_ns().unwrap().max(now_ns + 500);
        }
        ids
    }

    /// Something a device sends by itself, waiting in the hat.
    fn send_by_itself(link: &mut Pi3hat<Hat>, channel: u8, id: u32) {
        let frame = Frame::new(id, &[0x50; 2]).unwrap();
        let processor = usize::from(channel / 2);
        link.spi().queues[processor].push_back(Received { channel, at_ns: 0, frame });
    }

    /// Takes what has come until all servos in `ids` have answered, as a bus cycle does; when they have.
    fn collect(link: &mut Pi3hat<Hat>, ids: &[u8], mut now_ns: i64) -> i64 {
        let mut left = ids.to_vec();
        while !left.is_empty() {
            now_ns = now_ns.max(link.next_event_ns().unwrap());
            while let Some(received) = link.receive(now_ns).unwrap() {
                left.retain(|id| *id != Address::from_id(received.frame.id).source);
            }
        }
        now_ns
    }

    #[test]
    fn frames_that_answer_no_query_do_not_end_the_wait_for_replies() {
        let mut link = link(4);
        link.send(0, &Address::request(&query(1)), 10_000_000).unwrap();
        link.flush(10_000_000).unwrap();
        // From an unknown sender, from another bus of the same processor, for another host, and a query.
        for (channel, id) in [(0, 0x600), (1, 0x100), (0, 0x102), (0, 0x8100)] {
            send_by_itself(&mut link, channel, id);
        }
        let (first_ns, last_ns) = (10_000_000, 10_500_000);
        assert_eq!(received_ids(&mut link, first_ns, last_ns), [0x600, 0x100, 0x102, 0x8100, 0x100]);
    }

    #[test]
    fn a_reply_behind_one_that_came_twice_is_received_in_the_same_cycle() {
        let mut link = link(4);
        link.send(0, &Address::request(&query(1)), 10_000_000).unwrap();
        // The second copy of an older reply: it came after the last look of its cycle.
        send_by_itself(&mut link, 0, 0x100);
        link.flush(10_000_000).unwrap();
        assert_eq!(received_ids(&mut link, 10_000_000, 10_400_000), [0x100, 0x100]);
    }

    #[test]
    fn a_host_that_has_every_reply_costs_no_further_transfer() {
        let mut link = link(4);
        let mut now_ns = 10_000_000;
        for _ in 0..3 {
            let (before, _) = link.spi().spent();
            // The cycle before it begins.
            assert_eq!(link.receive(now_ns), Ok(None));
            (0..3).for_each(|channel| {
                link.send(channel, &Address::request(&query(channel + 1)), now_ns).unwrap()
            });
            link.flush(now_ns).unwrap();
            // By then all have answered: one status each of two processors.
            now_ns = collect(&mut link, &[1, 2, 3], now_ns + 500_000);
            assert_eq!(link.receive(now_ns), Ok(None));
            assert_eq!(link.spi().spent().0 - before, 3 + 2 + 3);
            now_ns += 500_000;
        }
    }

    #[test]
    fn a_host_that_listens_receives_frames_without_a_query_on_every_bus() {
        let mut link = link(4);
        for channel in 0..5 {
            (0..7).for_each(|n| send_by_itself(&mut link, channel, 0x700 + u32::from(channel) * 16 + n));
        }
        let mut ids = received_ids(&mut link, 10_000_000, 20_000_000);
        ids.sort_unstable();
        let all = (0..5).flat_map(|channel| (0..7).map(move |n| 0x700 + channel * 16 + n));
        assert_eq!(ids, all.collect::<Vec<_>>());
        // Silence is listened to with few transfers: a look at each processor in a millisecond.
        let (before, _) = link.spi().spent();
        received_ids(&mut link, 20_000_000, 120_000_000);
        let looks = link.spi().spent().0 - before;
        assert!((250..350).contains(&looks), "{looks}");
    }

    #[test]
    fn every_answer_to_a_broadcast_is_received() {
        let config = WorldConfig {
            buses: vec![BusConfig::CAN_FD; 5],
            servos: (1..=9).map(|id| ServoConfig::new(0, id)).collect(),
            ..WorldConfig::default()
        };
        let hat = Hat::new(World::new(&config).unwrap(), 4);
        let mut link = Pi3hat::open(hat, &Options::default(), replier, 0).unwrap();
        link.send(0, &Address::request(&query(khz_wire::address::BROADCAST)), 10_000_000).unwrap();
        link.flush(10_000_000).unwrap();
        let mut ids = received_ids(&mut link, 10_000_000, 15_000_000);
        ids.sort_unstable();
        assert_eq!(ids, (1..=9).map(|id| id << 8).collect::<Vec<u32>>());
    }

    #[test]
    fn each_processor_reports_what_it_runs() {
        let about = link(4).about().unwrap();
        assert_eq!(about.len(), 6, "{about:?}");
        assert_eq!(about[2], format!("CAN2: {} clean {}", "00".repeat(20), "02".repeat(12)));
        assert_eq!(about[5], "AUX: average:300 min:250");
    }

    #[test]
    fn transfers_cost_what_the_model_says() {
        let mut link = link(4);
        let (transfers, busy_ns) = link.spi().spent();
        link.send(0, &Address::request(&query(1)), 10_000_000).unwrap();
        link.flush(10_000_000).unwrap();
        let (after, busy_after_ns) = link.spi().spent();
        // Size byte, two bytes of identifier, two of data, and the address.
        assert_eq!((after - transfers, busy_after_ns - busy_ns), (1, 9_000 + 800 * 6));
    }
}
