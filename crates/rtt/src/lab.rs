//! The study's experiments on a network inside one machine.
//!
//! Echo devices, each in its own network namespace, are joined to a bridge, one of them to a second bridge
//! behind the first. What is measured is the kernel's way from program to program, and what the programs cost
//! each other; there is no wire, so nothing here shows how a real switch behaves.
mod network;
mod ports;
mod robot;

use super::{Ask, Echo, Live, Plan, Receive, Results, RttError, Sender, compare};
use khz_page::{Figure, Level, Page, Section, duration};
use khz_rt::Setup;
use network::{BROADCAST, MOST_DEVICES, Network, inside};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

pub use ports::Ports;
pub use robot::with_servos;

/// The port of the devices.
const PORT: u16 = 7755;

/// What the lab is to do.
#[derive(Debug, Clone)]
pub struct Lab {
    /// Devices at the switch, 1 to 250. The study had forty.
    pub devices: usize,
    /// Seconds for each experiment.
    pub seconds: f64,
    /// Bytes of a datagram.
    pub payload: usize,
    /// What the switches' ports do.
    pub ports: Ports,
    /// How the controller waits for answers. Devices need the CPUs, too, so it should not spin for long.
    pub receive: Receive,
    /// What the controller's thread asks of the kernel.
    pub setup: Setup,
    /// Only the experiments whose name contains this.
    pub only: Option<String>,
    /// Split each round trip by the kernel's own times of every datagram.
    pub stamps: bool,
}

impl Default for Lab {
    fn default() -> Self {
        Self {
            devices: 40,
            seconds: 10.0,
            payload: 200,
            ports: Ports::default(),
            receive: Receive::Block,
            setup: Setup::default(),
            only: None,
            stamps: false,
        }
    }
}

/// Who is asked in an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    /// One device at the controller's switch.
    One,
    /// One device behind a second switch.
    Far,
    /// All devices at the controller's switch.
    All,
}

#[derive(Debug, Clone, Copy)]
struct Experiment {
    name: &'static str,
    who: Who,
    ask: Ask,
    rate_hz: f64,
    /// Ordinary programs keep every CPU busy meanwhile.
    loaded: bool,
}

const fn experiment(name: &'static str, who: Who, ask: Ask, rate_hz: f64) -> Experiment {
    Experiment { name, who, ask, rate_hz, loaded: false }
}

const EXPERIMENTS: [Experiment; 7] = [
    experiment("one device", Who::One, Ask::Together, 1000.0),
    experiment("one more switch", Who::Far, Ask::Together, 1000.0),
    Experiment { loaded: true, ..experiment("one device, CPUs busy", Who::One, Ask::Together, 1000.0) },
    experiment("all by broadcast, 100 Hz", Who::All, Ask::Broadcast, 100.0),
    experiment("all by broadcast, 1 kHz", Who::All, Ask::Broadcast, 1000.0),
    experiment("all together, 100 Hz", Who::All, Ask::Together, 100.0),
    experiment("all singly, 100 Hz", Who::All, Ask::Singly, 100.0),
];

/// What the lab found.
#[derive(Debug, Clone)]
pub struct LabResults {
    /// One result per experiment.
    pub runs: Vec<Results>,
    /// What the switches' ports did.
    pub ports: Ports,
}

impl Lab {
    /// Builds the network, makes the experiments one after the other, and removes the network again. `progress`
    /// is given the name of each.
    ///
    /// # Errors
    /// If the plan cannot be, the machine does not let us make namespaces (it takes root), or the kernel has no qdisc for
    /// such ports.
    pub fn run(&self, stop: &AtomicBool, mut progress: impl FnMut(&str)) -> Result<LabResults, RttError> {
        if !(1..=MOST_DEVICES).contains(&self.devices) {
            return Err(RttError::Plan(format!(
                "{} devices cannot be: use 1 to {MOST_DEVICES}",
                self.devices
            )));
        }
        if !(0.01..=86_400.0).contains(&self.seconds) {
            return Err(RttError::Plan(format!("{} seconds cannot be: use 0.01 to 86400", self.seconds)));
        }
        let chosen = |e: &&Experiment| self.only.as_ref().is_none_or(|word| e.name.contains(word.as_str()));
        if !EXPERIMENTS.iter().any(|experiment| chosen(&experiment)) {
            let names = EXPERIMENTS.map(|experiment| experiment.name).join("; ");
            return Err(RttError::Plan(format!(
                "no experiment is called `{}`: there are {names}",
                self.only.as_deref().unwrap_or_default()
            )));
        }
        progress("building the network");
        let network = Network::build(self.devices, &self.ports)?;
        let mut runs = Vec::new();
        for &experiment in EXPERIMENTS.iter().filter(chosen) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            progress(experiment.name);
            runs.push(self.experiment(&network, experiment, stop)?);
        }
        Ok(LabResults { runs, ports: self.ports })
    }

    fn experiment(
        &self,
        network: &Network,
        experiment: Experiment,
        stop: &AtomicBool,
    ) -> Result<Results, RttError> {
        let members: Vec<String> = match experiment.who {
            Who::One => vec!["d0".into()],
            Who::Far => vec!["far".into()],
            Who::All => (0..self.devices).map(|at| format!("d{at}")).collect(),
        };
        let mut echoes = members.iter().map(|member| echo_in(member)).collect::<Result<Vec<_>, _>>()?;
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for echo in &mut echoes {
                scope.spawn(|| echo.run(&over));
            }
            if experiment.loaded {
                let cpus = std::thread::available_parallelism().map_or(1, usize::from);
                (0..cpus).for_each(|_| drop(scope.spawn(|| keep_busy(&over))));
            }
            let plan = self.plan(network, experiment);
            let results = warm_up(&plan, members.len(), stop).and_then(|()| run_in_controller(plan, stop));
            over.store(true, Ordering::Relaxed);
            results.map(|results| Results { limit: Some(self.limit().to_owned()), ..results })
        })
    }

    /// The devices are there, and nothing is between but what was asked for.
    fn limit(&self) -> &'static str {
        if self.ports == Ports::default() {
            "this computer, on which all devices run, is at its limit: use fewer `--devices`, or leave it more CPU time"
        } else {
            "its ports hold up, limit or lose datagrams as configured; if it is more than that, this computer is at its \
             limit: use fewer `--devices`"
        }
    }

    fn plan(&self, network: &Network, experiment: Experiment) -> Plan {
        let targets: Vec<SocketAddr> = match (experiment.who, experiment.ask) {
            (_, Ask::Broadcast) => vec![(BROADCAST, PORT).into()],
            (Who::One, _) => vec![network.device(0, PORT)],
            (Who::Far, _) => vec![network.far(PORT)],
            (Who::All, _) => (0..self.devices).map(|at| network.device(at, PORT)).collect(),
        };
        Plan {
            name: experiment.name.into(),
            ask: experiment.ask,
            expect: if experiment.ask == Ask::Broadcast { self.devices } else { 0 },
            rate_hz: Some(experiment.rate_hz),
            ticks: (self.seconds * experiment.rate_hz).ceil() as u64,
            payload: self.payload,
            receive: self.receive,
            setup: self.setup.clone(),
            stamps: self.stamps,
            ..Plan::new(targets)
        }
    }
}

fn echo_in(member: &str) -> Result<Echo, RttError> {
    inside(member, || Echo::bind((Ipv4Addr::UNSPECIFIED, PORT).into(), Receive::Block))?
}

fn run_in_controller(plan: Plan, stop: &AtomicBool) -> Result<Results, RttError> {
    inside("c", || Sender::new(plan)?.run(stop, &Live::default()))?
}

/// Asks until everyone has answered, for three seconds at most: links take a while to come up after they are made, and
/// addresses must be known to everyone when it counts. A device that stays silent is a finding, not an error.
fn warm_up(plan: &Plan, devices: usize, stop: &AtomicBool) -> Result<(), RttError> {
    let plan = Plan { ticks: 10, rate_hz: Some(100.0), setup: Setup::ordinary(), ..plan.clone() };
    for _ in 0..30 {
        let results = run_in_controller(plan.clone(), stop)?;
        let there = results.devices.iter().filter(|device| device.counts.answered > 0).count();
        if there >= devices || stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(())
}

fn keep_busy(over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        std::hint::black_box((0..10_000u64).sum::<u64>());
    }
}

impl LabResults {
    /// The page: all experiments side by side, then each.
    pub fn page(&self) -> Page {
        let incomplete = self.runs.iter().filter(|run| !run.problems().is_empty()).count();
        let page = Page::new("UDP round trips in namespaces").subtitle(
            "Echo devices, each in its own network namespace, on veth pairs and Linux bridges of one machine",
        );
        let page = match incomplete {
            0 => page.badge(Level::Good, "all answered"),
            _ => page.badge(Level::Warning, format!("{incomplete} of {} runs not whole", self.runs.len())),
        };
        let mut side_by_side = compare(&self.runs);
        if let (Some(one), Some(far)) = (self.p50("one device"), self.p50("one more switch")) {
            side_by_side = side_by_side.with(vec![
                Figure::new("the second switch costs", duration(far - one)).note("p50, there and back"),
            ]);
        }
        let mut page = page.section(side_by_side);
        if self.ports != Ports::default() {
            page = page.section(Section::new("Ports of the switches").text(self.ports.to_string()));
        }
        for run in &self.runs {
            page = page.section(run.timing().titled(&run.name));
            if run.split.is_some() {
                page = page.section(run.where_time_goes());
            }
            if !run.modes().is_empty() {
                page = page.section(run.mode_rows());
            }
            page = page.section(run.device_rows());
        }
        page
    }

    fn p50(&self, name: &str) -> Option<f64> {
        self.runs.iter().find(|run| run.name == name)?.round_trips().quantile(0.5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_at_its_limit_suspects_no_address() {
        let slow = Lab { ports: Ports { limit_mbit: Some(1), ..Ports::default() }, ..Lab::default() };
        assert!(Lab::default().limit().contains("fewer `--devices`"));
        assert!(slow.limit().contains("its ports hold up"));
    }

    #[test]
    fn labs_that_cannot_be_say_why() {
        let stop = AtomicBool::new(false);
        for (lab, words) in [
            (Lab { devices: 0, ..Lab::default() }, "use 1 to 250"),
            (Lab { devices: 251, ..Lab::default() }, "use 1 to 250"),
            (Lab { seconds: f64::NAN, ..Lab::default() }, "0.01 to 86400"),
            (Lab { only: Some("nothing".into()), ..Lab::default() }, "there are one device;"),
        ] {
            let error = lab.run(&stop, |_| ()).err().map(|e| e.to_string()).unwrap_or_default();
            assert!(error.contains(words), "{error}");
        }
    }
}
