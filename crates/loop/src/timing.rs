//! `[loop]`: how the loop keeps time.

use crate::time::Receive;
use khz_rt::{Overrun, Policy, Setup, Wake};
use khz_settings::{nanoseconds, section, words};

words! {
    /// Where the controller runs.
    Mode {
        /// In the tick, after the replies.
        Inline = "inline",
        /// On its own thread during the next tick's bus cycle: twice the compute time, one tick of delay.
        Pipelined = "pipelined",
    }
}

words! {
    /// Which clock the loop runs by.
    Clock {
        /// The computer's.
        Real = "real",
        /// None: simulated time advances as fast as the CPU allows, for emulated devices. The run is repeatable and
        /// says nothing about the computer's timing; the settings of the loop's thread have no effect.
        Virtual = "virtual",
    }
}

section! {
    /// `[loop]`: the loop's clock and thread.
    LoopConfig {
        /// Ticks per second.
        rate_hz: f64 = 1000.0, "Hz", 1.0 => 10_000.0;
        /// Which clock the loop runs by.
        clock: Clock = Clock::Real, "";
        /// Where the controller runs.
        mode: Mode = Mode::Inline, "";
        /// The latest end of a tick's bus cycle, counted from the tick's start; replies count until 20 µs before.
        /// Must be shorter than the period; without the key it is 80 % of the period. It is later by what encoding the
        /// commands takes beyond 20 µs, up to half of what is left of the period.
        bus_deadline_us: Option<f64> = None, "µs", 50.0 => 1_000_000.0;
        /// How the loop waits for the start of a tick.
        wake: Wake = Wake::Hybrid, "";
        /// Bus of the frame that paces the loop, on any link but a pi3hat: an external clock source sends one frame
        /// per period, and a tick starts when the frame arrives. Frames that arrive more than 5 % too often start no
        /// tick. Without the key the timer starts the ticks.
        pace_bus: Option<String> = None, "";
        /// Identifier of that frame.
        pace_id: Option<u32> = None, "", 0 => 0x1fff_ffff;
        /// How much later than expected the frame may arrive before the timer starts the tick; without the key half a
        /// period.
        pace_patience_us: Option<f64> = None, "µs", 0.0 => 1_000_000.0;
        /// How the loop waits for replies. Without the key it polls where a bus is on a serial port (fdcanusb, slcan, rs485 with
        /// `driver = "tty"`), because a thread of the kernel delivers their bytes, which a spinning real-time thread can keep
        /// off its CPU; else it spins. For emulated devices in this process it always spins.
        receive: Option<Receive> = None, "";
        /// What happens after a tick that took longer than a period.
        overrun: Overrun = Overrun::Skip, "";
        /// A tick that ends this much later than ticks usually do is late: counted, and explained in the report.
        /// Without the key it is a tenth of the period.
        late_us: Option<f64> = None, "µs", 1.0 => 1_000_000.0;
        /// Scheduling policy of the loop's thread.
        policy: Policy = Policy::Fifo, "";
        /// Real-time priority, for `fifo` and `rr`; 99 belongs to the kernel.
        priority: u8 = 80, "", 1 => 98;
        /// CPU that the loop's thread is pinned to. Without the key it may move.
        cpu: Option<u32> = None, "", 0 => 1023;
        /// Keep all memory of the process in RAM, so that no page fault delays a tick.
        lock_memory: bool = true, "";
        /// Refuse to run if any of the above is not granted, instead of running and reporting it.
        strict: bool = false, "";
    }
}

/// The bus deadline where the file has none: 80 % of the period.
pub const fn usual_deadline_ns(period_ns: i64) -> i64 {
    period_ns / 10 * 8
}

fn of_us(us: f64) -> i64 {
    nanoseconds(us, 1e3)
}

impl LoopConfig {
    /// The period, rounded to whole nanoseconds.
    pub fn period_ns(&self) -> i64 {
        (1e9 / self.rate_hz).round() as i64
    }

    /// How much later than expected the frame that paces the loop may come.
    pub fn pace_patience_ns(&self) -> i64 {
        self.pace_patience_us.map_or(self.period_ns() / 2, of_us)
    }

    /// The same where a frame paces the loop; `None`: the timer does.
    pub fn frame_patience_ns(&self) -> Option<i64> {
        self.pace_bus.as_ref().map(|_| self.pace_patience_ns())
    }

    /// From how much over the usual end on a tick is late.
    pub fn late_ns(&self) -> i64 {
        self.late_us.map_or(self.period_ns() / 10, of_us)
    }

    /// When a tick's bus cycle has ended at the latest, from the tick's start.
    pub fn bus_deadline_ns(&self) -> i64 {
        let given = self.bus_deadline_us.map(of_us);
        given.unwrap_or_else(|| usual_deadline_ns(self.period_ns()))
    }

    /// How the kernel is to treat the loop's thread.
    pub fn thread(&self) -> Setup {
        Setup {
            policy: self.policy,
            priority: self.priority,
            cpu: self.cpu.map(|cpu| cpu as usize),
            period_ns: self.period_ns(),
            lock_memory: self.lock_memory,
            strict: self.strict,
            ..Setup::default()
        }
    }

    /// The same for a thread below the loop's that is free to move: the loop's CPU is the loop's.
    pub fn thread_below(&self) -> Setup {
        let of_loop = self.thread();
        let priority = of_loop.priority.saturating_sub(1).max(1);
        Setup { priority, cpu: None, lock_memory: false, stay_awake: false, strict: false, ..of_loop }
    }
}
