//! Where a defect can be put into a machine under drill: what a repaired defect changed, to prove that the campaign finds it.

use khz_file::RobotConfig;
use khz_link::Received;
use khz_loop::ServoCommand;
use khz_wire::Frame;

/// A defect, as the tests plant one. As it stands it is none.
pub trait Defect: Sync {
    /// Changes the robot file that the supervisor reads.
    fn change(&self, robot: &mut RobotConfig) {
        let _ = robot;
    }

    /// What stands between the machine and each of its links; none: nothing.
    fn forgers(&self, links: usize) -> Vec<Box<dyn Forge>> {
        let _ = links;
        Vec::new()
    }

    /// What the controller commands in place of its own stop.
    fn own_stop(&self) -> ServoCommand {
        ServoCommand::Stop
    }

    /// A panic of the controller is printed within the tick.
    fn prints_panics(&self) -> bool {
        false
    }

    /// A request to arm is as old as the time since it came.
    fn renews_requests(&self) -> bool {
        false
    }

    /// A link keeps for ever what found no room on its bus.
    fn keeps_commands(&self) -> bool {
        false
    }

    /// The period that a loop keeps which frames pace, ns.
    fn period_ns(&self, period_ns: i64) -> i64 {
        period_ns
    }
}

/// No defect.
pub(crate) struct Sound;

impl Defect for Sound {}

/// Changes what goes over a link.
pub trait Forge: Send {
    /// The host commands; what goes on the wire.
    fn command(&self, frame: &Frame) -> Frame {
        *frame
    }

    /// The host asks.
    fn query(&mut self, frame: &Frame) {
        let _ = frame;
    }

    /// A servo answers; what the host is given.
    fn reply(&mut self, received: Received) -> Option<Received> {
        Some(received)
    }

    /// The host asks link number `link` for a frame; whether it may have one.
    fn may_receive(&mut self, link: usize) -> bool {
        let _ = link;
        true
    }

    /// It had one.
    fn has_received(&mut self) {}
}
