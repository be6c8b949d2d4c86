//! `khz bus send`: frames by hand, in the words of pi3hat_tool.

use super::open::{desk, robots};
use crate::cmd::output::{self, create};
use crate::cmd::{show, stop_on_signal};
use anyhow::{Context, Result, bail, ensure};
use khz_link::{ImuSample, LinkError, Received};
use khz_robot::desk::Desk;
use khz_rt::clock::now_ns;
use khz_wire::Frame;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Send frames and print the replies.
///
/// FRAME is `BUS,ID,DATA[,FLAGS]`, for example `1,8001,1300,r`: the bus counted from 1, identifier and data in hex. Flags: `r`, a reply
/// is expected; `f`, a classic CAN frame, as on links without CAN-FD; `t`, a remote frame, whose DATA is the number of bytes it
/// requests (none: 0). Replies are printed as `CAN 1,100,230000`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  khz bus send --link emulated 1,8001,1300,r       queries the firmware of servo 1
  khz bus send --link pi3hat --read-att
  khz bus send --link socketcan:can0 1,009,,rt     queries position and velocity of ODrive 0
  khz bus send --link slcan:/dev/ttyACM0 1,0000FD03,0000000000000000,rf       queries the identity of RobStride 3
  khz bus send --link socketcan:can0 1,8001,1300,r --run 1000")]
pub struct Args {
    /// A link: KIND:TARGET, a robot file, or `emulated`; repeatable.
    #[arg(long = "link", short, required = true, value_name = "LINK")]
    links: Vec<String>,
    /// The frames, all sent before waiting for any reply.
    #[arg(value_name = "FRAME", value_parser = parse)]
    frames: Vec<Order>,
    /// Read the attitude too.
    #[arg(long)]
    read_att: bool,
    /// How long to wait for replies, ms.
    #[arg(long, default_value_t = 20)]
    timeout_ms: u16,
    /// Send again and again, until Ctrl-C or this many times; prints the rate. After Ctrl-C outstanding replies are still received.
    #[arg(long, value_name = "TIMES")]
    run: Option<u64>,
    /// With --run: write the time each cycle took to this file, ns, one per line. It must not be there yet.
    #[arg(long, value_name = "FILE", requires = "run")]
    time_log: Option<PathBuf>,
    /// Overwrite that file if it is there.
    #[arg(long, requires = "time_log")]
    force: bool,
}

/// One frame to send.
#[derive(Clone, Debug, PartialEq)]
struct Order {
    /// Counted from 1.
    bus: usize,
    frame: Frame,
    reply: bool,
}

fn parse(text: &str) -> Result<Order, String> {
    let words: Vec<&str> = text.split(',').collect();
    let (bus, id, data, flags) = match words[..] {
        [bus, id, data] => (bus, id, data, ""),
        [bus, id, data, flags] => (bus, id, data, flags),
        _ => return Err("write BUS,ID,DATA[,FLAGS], for example 1,8001,1300,r".into()),
    };
    let bus = bus.parse().ok().filter(|bus| *bus > 0).ok_or(format!("{bus}: buses are counted from 1"))?;
    let id = u32::from_str_radix(id, 16).map_err(|_| format!("{id}: the identifier is no hex number"))?;
    let reply = flags.contains(['r', 'R']);
    if flags.contains('t') {
        let asked = if data.is_empty() { Some(0) } else { data.parse().ok() };
        let frame = asked.and_then(|len| Frame::remote(id, len));
        let frame =
            frame.ok_or("a remote frame has at most 29 bits of identifier, and asks for 0 to 8 bytes")?;
        return Ok(Order { bus, frame, reply });
    }
    if data.len() % 2 != 0 || !data.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(format!("{data}: the data is not pairs of hex digits"));
    }
    let byte = |i| u8::from_str_radix(&data[i..i + 2], 16).map_err(|error| error.to_string());
    let payload = (0..data.len()).step_by(2).map(byte).collect::<Result<Vec<_>, _>>()?;
    if flags.contains('f') {
        let frame = Frame::classic(id, &payload);
        let frame = frame.ok_or("a classic frame has at most 29 bits of identifier and 8 bytes of data")?;
        return Ok(Order { bus, frame, reply });
    }
    let mut frame = Frame::new(id, &payload).ok_or("at most 29 bits of identifier and 64 bytes of data")?;
    frame.pad();
    Ok(Order { bus, frame, reply })
}

/// Sends a frame; as a classic one if the link carries no CAN-FD.
fn hand_over(desk: &mut Desk, order: &Order) -> Result<()> {
    let sent =
        match (desk.send(order.bus - 1, &order.frame), Frame::classic(order.frame.id, order.frame.payload()))
        {
            (Err(LinkError::Unsupported), Some(classic)) if order.frame.fd => {
                desk.send(order.bus - 1, &classic)
            }
            (sent, _) => sent,
        };
    sent.with_context(|| format!("bus {}", order.bus))
}

/// Exit code 1 if an expected reply did not come.
pub fn run(args: &Args) -> Result<ExitCode> {
    output::check_all(&args.time_log, &robots(&args.links), args.force)?;
    let mut desk = desk(&args.links)?;
    let most = desk.buses();
    ensure!(!args.frames.is_empty() || args.read_att, "nothing to do: give frames, or --read-att");
    if let Some(order) = args.frames.iter().find(|order| order.bus > most) {
        bail!("there is no bus {}; the links given have {most}", order.bus);
    }
    if let Some(times) = args.run {
        return run_again(&mut desk, args, times);
    }
    let missing = cycle(&mut desk, args, |bus, received| show(&line(bus, &received.frame)))?;
    if args.read_att {
        show(&attitude(&read_attitude(&mut desk, args)?))?;
    }
    Ok(if missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Sends all, awaits all replies; how many did not come.
fn cycle(
    desk: &mut Desk,
    args: &Args,
    mut each: impl FnMut(usize, &Received) -> Result<()>,
) -> Result<usize> {
    let timeout_ns = i64::from(args.timeout_ms) * 1_000_000;
    let half_duplex = args.frames.iter().any(|order| desk.is_half_duplex(order.bus - 1));
    let group = if half_duplex { 1 } else { args.frames.len().max(1) };
    let mut missing = 0;
    for orders in args.frames.chunks(group) {
        for order in orders {
            hand_over(desk, order)?;
        }
        desk.flush()?;
        let mut awaited = orders.iter().filter(|order| order.reply).count();
        if awaited > 0 {
            let mut outcome = Ok(());
            desk.receive_until(timeout_ns, |bus, received| {
                awaited = awaited.saturating_sub(1);
                outcome = each(bus, &received);
                awaited == 0 || outcome.is_err()
            });
            outcome?;
        }
        missing += awaited;
    }
    Ok(missing)
}

fn run_again(desk: &mut Desk, args: &Args, times: u64) -> Result<ExitCode> {
    let mut log = args.time_log.as_ref().map(|path| create(path, args.force)).transpose()?;
    let stop = stop_on_signal()?;
    let (mut made, mut missing) = (0_u64, 0);
    let started_ns = now_ns();
    while made < times && !stop.load(Ordering::Relaxed) {
        let cycle_ns = now_ns();
        missing += cycle(desk, args, |_, _| Ok(()))?;
        if let Some(log) = &mut log {
            writeln!(log, "{}", now_ns() - cycle_ns).context("writing the time log")?;
        }
        made += 1;
    }
    let hz = made as f64 * 1e9 / (now_ns() - started_ns).max(1) as f64;
    log.map_or(Ok(()), |mut log| log.flush()).context("writing the time log")?;
    show(&format!("{made} cycles, {hz:.1} Hz, {missing} replies missing\n"))?;
    Ok(if missing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn line(bus: usize, frame: &Frame) -> String {
    let mut text = format!("CAN {},{:X},", bus + 1, frame.id);
    if let Some(len) = frame.remote {
        let _ = write!(text, "R{len}");
    }
    frame.payload().iter().for_each(|byte| {
        let _ = write!(text, "{byte:02x}");
    });
    text + "\n"
}

fn read_attitude(desk: &mut Desk, args: &Args) -> Result<ImuSample> {
    let imu = desk.imu().context("none of the links has an IMU of its own")?;
    let until_ns = now_ns() + i64::from(args.timeout_ms.max(20)) * 1_000_000;
    imu.request(now_ns())?;
    loop {
        let looked_ns = now_ns();
        if let Some(sample) = imu.poll(looked_ns)? {
            return Ok(sample);
        }
        ensure!(looked_ns < until_ns, "the IMU did not answer");
    }
}

/// Roll, pitch, yaw as pi3hat_tool computes them.
fn attitude(sample: &ImuSample) -> String {
    let [w, x, y, z] = sample.attitude;
    let roll = (2.0 * (w * x + y * z)).atan2(1.0 - 2.0 * (x * x + y * y));
    let pitch = (2.0 * (w * y - z * x)).clamp(-1.0, 1.0).asin();
    let yaw = (2.0 * (w * z + x * y)).atan2(1.0 - 2.0 * (y * y + z * z));
    let [roll, pitch, yaw] = [roll, pitch, yaw].map(f64::to_degrees);
    let [dx, dy, dz] = sample.rate.map(f64::to_degrees);
    let [ax, ay, az] = sample.acceleration;
    format!(
        "ATT rpy=({roll:6.1},{pitch:6.1},{yaw:6.1}) dps=({dx:5.1},{dy:5.1},{dz:5.1}) a=({ax:4.1},{ay:4.1},{az:4.1})\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_those_of_pi3hat_tool() {
        let order = parse("4,8005,AAbb,R").unwrap();
        assert_eq!((order.bus, order.frame.id, order.reply), (4, 0x8005, true));
        assert_eq!(order.frame.payload(), [0xaa, 0xbb]);
        assert!(!parse("1,1,").unwrap().reply);
        let classic = parse("1,700fd03,00,rf").unwrap();
        assert_eq!((classic.frame.fd, classic.frame.extended, classic.reply), (false, true, true));
        assert!(parse("1,1,000000000000000000,f").is_err());
        let remote = parse("1,009,,rt").unwrap();
        assert_eq!((remote.frame, remote.reply), (Frame::remote(9, 0).unwrap(), true));
        assert_eq!(parse("1,9,8,t").unwrap().frame.remote, Some(8));
        assert!(parse("1,9,9,t").is_err());
        for bad in [
            "1,8001",
            "0,1,00",
            "1,g,00",
            "1,1,0",
            "1,1,0x",
            "1,20000000,00",
            "1,1,00,r,r",
            "x,1,00",
            "1,1,é",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn replies_are_those_of_pi3hat_tool() {
        let frame = Frame::new(0x500, &[0x21, 0, 0x0a]).unwrap();
        assert_eq!(line(3, &frame), "CAN 4,500,21000a\n");
    }
}
