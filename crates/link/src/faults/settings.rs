//! Faults in a robot file.

use super::{Direction, Fault, FaultEffect};
use khz_settings::{nanoseconds, section, words};

/// A frame that is overtaken by none leaves after this time, ns.
const OVERTAKEN_WITHIN_NS: i64 = 1_000_000;

section! {
    /// `[bus.NAME.faults]`: injected faults. All of them follow the seed of `[emulation]`, so a run can be
    /// repeated.
    FaultsConfig {
        /// Share of frames lost.
        loss: f64 = 0.0, "", 0.0 => 1.0;
        /// Share of frames that arrive twice.
        duplicate: f64 = 0.0, "", 0.0 => 1.0;
        /// Share of frames with a flipped bit. The checksum of the bus catches it, so that the frame is lost, and counted as damaged if it
        /// was a reply. An emulated bus with `wire = "instant"` has no checksum: there the wrong value arrives.
        corrupt: f64 = 0.0, "", 0.0 => 1.0;
        /// Share of frames overtaken by the next one.
        reorder: f64 = 0.0, "", 0.0 => 1.0;
        /// Every frame arrives this much later.
        delay_us: f64 = 0.0, "µs", 0.0 => 1_000_000.0;
        /// Additional random delay, up to this much.
        jitter_us: f64 = 0.0, "µs", 0.0 => 1_000_000.0;
        /// Faults at given times: `{ at_s = 2, for_s = 1, kind = "silence", id = 3 }`.
        events: Vec<FaultEvent> = Vec::new(), "";
    }
}

words! {
    /// What breaks at a set time.
    FaultKind {
        /// Frames of the device, or of the whole bus, are lost.
        Silence = "silence",
        /// The link reports that it is down.
        BusOff = "bus_off",
    }
}

section! {
    /// One entry of `events`.
    FaultEvent {
        /// When the fault begins, counted from the first tick of the loop: start-up is before control.
        at_s: f64, "s", 0.0 => 1e9;
        /// How long the fault lasts; without the key, to the end of the run.
        for_s: Option<f64> = None, "s", 0.0 => 1e9;
        /// The kind of fault.
        kind: FaultKind = FaultKind::Silence, "";
        /// The device affected; without the key, the whole bus.
        id: Option<u8> = None, "", 1 => 126;
    }
}

impl FaultsConfig {
    /// The script for one bus, the channel `channel` of its link. `has_checksum`: it catches flipped bits.
    pub fn script(&self, channel: u8, has_checksum: bool) -> Vec<Fault> {
        let channel = Some(channel);
        let shares = [
            (self.loss, FaultEffect::Loss),
            (self.duplicate, FaultEffect::Duplicate),
            (self.corrupt, if has_checksum { FaultEffect::Damage } else { FaultEffect::Corrupt }),
            (self.reorder, FaultEffect::Reorder { within_ns: OVERTAKEN_WITHIN_NS }),
        ];
        let mut script: Vec<Fault> = shares
            .into_iter()
            .filter(|(share, _)| *share > 0.0)
            .map(|(probability, kind)| Fault { probability, channel, ..Fault::new(kind) })
            .collect();
        if self.delay_us > 0.0 || self.jitter_us > 0.0 {
            let [ns, jitter_ns] = [self.delay_us, self.jitter_us].map(|us| nanoseconds(us, 1e3));
            let kind = FaultEffect::Delay { ns, jitter_ns };
            script.push(Fault { channel, direction: Direction::FromDevices, ..Fault::new(kind) });
        }
        script.extend(self.events.iter().map(|event| Fault { channel, ..event.fault() }));
        script
    }
}

impl FaultEvent {
    fn fault(&self) -> Fault {
        let fault = match self.kind {
            FaultKind::Silence => Fault { device: self.id, ..Fault::new(FaultEffect::Loss) },
            FaultKind::BusOff => Fault::new(FaultEffect::BusOff),
        };
        let from_ns = nanoseconds(self.at_s, 1e9);
        let until_ns = self.for_s.map_or(i64::MAX, |for_s| from_ns.saturating_add(nanoseconds(for_s, 1e9)));
        Fault { from_ns, until_ns, ..fault }
    }
}
