//! An emulated robot, tick by tick at 1 kHz, with every cause of a transition.

use khz_loop::supervisor::{Cause, Phase};
use khz_loop::tick::Machine;
use khz_loop::time::{Time, VirtualTime};

pub const MS: i64 = 1_000_000;

pub struct Rig {
    pub machine: Machine,
    pub time: VirtualTime,
    pub number: i64,
    pub causes: Vec<Cause>,
}

impl Rig {
    /// Made ready, armed, and ticked until it is under control.
    pub fn under_control(mut machine: Machine) -> Self {
        let mut time = VirtualTime::new(0);
        machine.make_ready(&mut time).unwrap();
        let mut rig = Self { machine, time, number: 0, causes: Vec::new() };
        while rig.machine.phase() != Phase::Active {
            rig.tick();
            assert!(rig.number < 2000, "{:?}", rig.causes);
        }
        rig
    }

    pub fn tick(&mut self) {
        self.time.wait_for_tick(self.number * MS);
        if self.number == 0 {
            self.machine.arm();
        }
        self.machine.tick(&mut self.time, self.number * MS, None);
        self.causes.extend(self.machine.transitions().iter().map(|change| change.cause));
        self.number += 1;
    }

    /// A tick under control that must not allocate.
    pub fn tick_without_heap(&mut self) {
        self.time.wait_for_tick(self.number * MS);
        let (machine, time) = (&mut self.machine, &mut self.time);
        let ((), heap) = khz_rt::alloc_trap::forbid(|| _ = machine.tick(time, self.number * MS, None));
        heap.assert_untouched();
        self.number += 1;
    }
}
