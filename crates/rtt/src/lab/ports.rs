//! What a port of the lab does to datagrams: a limit, a delay, a loss, by queueing disciplines of the kernel.
use super::super::RttError;
use std::fmt;

/// What the port of every member does to what it sends there: to each question on its way to a device, and to each answer
/// on its way to the controller.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Ports {
    /// Megabits per second; `tbf` does it.
    pub limit_mbit: Option<u32>,
    /// Delay, µs; `netem` does it, as what follows.
    pub delay_us: u32,
    /// The delay is longer or shorter by as much as this, µs; at most the delay. Datagrams may overtake each other.
    pub jitter_us: u32,
    /// So many of a hundred datagrams are lost, 0 to 100.
    pub loss_percent: f64,
}

impl Ports {
    /// # Errors
    /// If there can be no such ports.
    pub(super) fn check(&self) -> Result<(), RttError> {
        let Self { delay_us, jitter_us, loss_percent, .. } = self;
        if jitter_us > delay_us {
            let what =
                format!("a jitter of {jitter_us} µs is more than the delay of {delay_us} µs: use less");
            return Err(RttError::Plan(what));
        }
        if !(0.0..=100.0).contains(loss_percent) {
            return Err(RttError::Plan(format!("{loss_percent} % cannot be lost: use 0 to 100")));
        }
        Ok(())
    }

    /// The qdiscs of an interface, outermost first, each with its line for `tc`.
    pub(super) fn rules(&self, interface: &str) -> Vec<(&'static str, String)> {
        let mut rules = Vec::new();
        let mut parent = "root";
        if self.delay_us > 0 || self.loss_percent > 0.0 {
            let Self { delay_us, jitter_us, loss_percent, .. } = self;
            // A second of 40 devices at 1 kHz, there and back, has room.
            let line = format!(
                "qdisc add dev {interface} root handle 1: netem limit 100000 delay {delay_us}us {jitter_us}us loss {loss_percent}%\n"
            );
            rules.push(("netem", line));
            parent = "parent 1:1";
        }
        if let Some(mbit) = self.limit_mbit {
            let line =
                format!("qdisc add dev {interface} {parent} tbf rate {mbit}mbit burst 1600 latency 50ms\n");
            rules.push(("tbf", line));
        }
        rules
    }
}

/// What to do about a qdisc that `tc` refused with this message.
pub(super) fn refused(qdisc: &str, stderr: &str) -> RttError {
    let what = if qdisc == "tbf" { "limits" } else { "delay and loss" };
    let module = format!("sch_{qdisc}");
    RttError::Lab(format!(
        "the ports' {what} need the kernel's qdisc `{qdisc}`, which it refuses ({stderr}): `modprobe {module}`, or a kernel \
         with CONFIG_NET_{}, or do without",
        module.to_uppercase()
    ))
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit_mbit, delay_us, jitter_us, loss_percent } = self;
        match limit_mbit {
            Some(mbit) => write!(f, "{mbit} Mbit/s")?,
            None => f.write_str("no limit")?,
        }
        write!(f, ", {delay_us} ± {jitter_us} µs of delay and {loss_percent} % of loss each way")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn rules(ports: Ports, expected: &[(&str, &str)]) {
        assert!(ports.check().is_ok());
        let rules = ports.rules("p3");
        let given: Vec<_> = rules.iter().map(|(qdisc, line)| (*qdisc, line.trim_end())).collect();
        assert_eq!(given, expected);
    }

    #[test]
    fn each_wish_is_a_qdisc() {
        let netem = "qdisc add dev p3 root handle 1: netem limit 100000 delay 500us 20us loss 0.5%";
        let tbf = |parent| format!("qdisc add dev p3 {parent} tbf rate 10mbit burst 1600 latency 50ms");
        let limit = Ports { limit_mbit: Some(10), ..Ports::default() };
        let poor = Ports { delay_us: 500, jitter_us: 20, loss_percent: 0.5, limit_mbit: None };
        rules(Ports::default(), &[]);
        rules(limit, &[("tbf", &tbf("root"))]);
        rules(poor, &[("netem", netem)]);
        let both = [("netem", netem), ("tbf", &tbf("parent 1:1"))];
        rules(Ports { limit_mbit: Some(10), ..poor }, &both);
    }

    #[test]
    fn ports_that_cannot_be_say_why() {
        let jittery = Ports { delay_us: 10, jitter_us: 11, ..Ports::default() };
        let lossy = |loss_percent| Ports { loss_percent, ..Ports::default() };
        for (ports, words) in [
            (jittery, "more than the delay of 10 µs"),
            (lossy(101.0), "use 0 to 100"),
            (lossy(f64::NAN), "use 0 to 100"),
        ] {
            let error = ports.check().err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_qdisc_the_kernel_does_not_have_is_named() {
        let error = refused("netem", "tc: Error: Specified qdisc kind is unknown.").to_string();
        for words in
            ["delay and loss", "`netem`", "kind is unknown", "modprobe sch_netem", "CONFIG_NET_SCH_NETEM"]
        {
            assert!(error.contains(words), "{error}");
        }
    }
}
