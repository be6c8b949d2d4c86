//! What to do about what brought a robot down, by the words of its cause.

use khz_run::verdict::{BUDGET, CONTROLLER, DOCTOR, SCAN};

/// For replies that are missing or too late, where `receive` is `spin`.
pub(super) const POLL: &str = "write `receive = \"poll\"` in `[loop]`: a loop that spins can keep the kernel from delivering the bytes of a serial \
                    port; if that is not it, check power, wiring and ids with `khz bus scan FILE`";

/// What a servo reports that received no command in time.
const WATCHDOG: &str = "the servo's own watchdog";

/// What a servo reports, or seems to report where a frame is damaged on its way.
pub(super) const OF_A_VALUE: [&str; 8] = [
    "a value that is not a number",
    "beyond what its replies carry",
    "position jumped",
    "the position stays",
    "supply at",
    "°C",
    "rad, limit",
    "rad/s, limit",
];

/// What replies are that do not come in the order of their questions, or seem to be where a frame is damaged on its way.
pub(super) const OF_AN_ORDER: [&str; 2] = ["replies come too late", "two replies to one query"];

/// How an event begins of a stall that was recovered from.
pub(super) const RECOVERED: &str = "recovered after";

/// What follows where the loop was held up: depending on its family, a servo whose watchdog expired reports that, has a fault, or seems to
/// have restarted.
pub(super) const OF_A_HOLD_UP: [&str; 4] =
    [WATCHDOG, "(communication lost)", "the servo restarted", "a tick overran"];

/// The error of a controller that gave up; older logs do not have it.
pub(crate) fn controller_error(cause: &str) -> Option<&str> {
    ["the controller failed: ", "the controller panicked: "]
        .iter()
        .find_map(|words| cause.strip_prefix(words))
}

/// What to do about a controller that gave up with this error, which is enough if there is nothing to do.
pub(super) fn remedy_of_its_own(error: &str) -> Option<&'static str> {
    const WRONG_OUTPUT: &str = "the log's last `decision` has what it saw: compare that, the scales and the order of joints with the training";
    const IMU: &str = "check the IMU's power and connection";
    const REMEDIES: [(&str, Option<&str>); 9] = [
        (
            "its decisions are late",
            Some("raise `delay_ticks`, take a smaller model, or leave a CPU to the thread that decides"),
        ),
        ("it says ", Some(WRONG_OUTPUT)),
        ("it carries ", Some(WRONG_OUTPUT)),
        ("its observation has ", Some("see that value in the report: not every servo reports all of them")),
        ("its signal ", Some("look why its program stopped sending, or begin it before the run")),
        ("onnxruntime says", Some("try another version of onnxruntime")),
        ("the robot is tilted", None),
        ("the robot turns", None),
        ("it sees the IMU", Some(IMU)),
    ];
    let known = REMEDIES.into_iter().find(|(words, _)| error.starts_with(words));
    known.map_or(Some("correct the controller, or end the cause that it gives"), |(_, remedy)| remedy)
}

const SERVO: &str =
    "see its voltage, temperature and torque in the report, and end the cause before a new run";
const FAILED: &str = "see what it printed";
const COMMAND: &str = "see the commands in the report, and correct the controller";
const CUT_POWER: &str = "cut its power before you touch the robot, then check its wiring and firmware";
/// By a part of the cause's text; the first that fits counts.
const REMEDIES: [(&str, &str); 42] = [
    ("may still be on", CUT_POWER),
    ("the servo is still on", CUT_POWER),
    ("position jumped", SERVO),
    ("the position stays", SERVO),
    ("which cannot be", SCAN),
    ("so nothing can react to it", "update the servo's firmware, or do without the value in `query`"),
    ("replies come too late", BUDGET),
    (
        "the controller was preempted",
        "leave a CPU free of real-time loops: pin them with `loop.cpu`, or run fewer on this computer",
    ),
    ("the loop was held up", DOCTOR),
    ("overran", DOCTOR),
    ("overruns in a row", DOCTOR),
    ("heartbeat", "check the operator's connection"),
    (
        "no targets",
        "look why the program stopped sending; `hold` tells the robot that it will be silent for a while",
    ),
    ("answers more than it is asked", SCAN),
    ("servo fault", SERVO),
    (WATCHDOG, SERVO),
    ("the servo restarted", SERVO),
    ("the servo reports", SERVO),
    ("a frame was damaged", SCAN),
    ("the servo refused", SERVO),
    ("the servo stays", SERVO),
    ("the servo is not seen to", SCAN),
    ("beyond what its replies carry", SERVO),
    ("no reply in time for", SCAN),
    // In logs of before.
    ("replies missed in a row", SCAN),
    ("no reply during start-up", SCAN),
    ("two replies to one query", SCAN),
    (" ms old", SCAN),
    ("the controller failed", FAILED),
    ("the controller panicked", FAILED),
    ("the controller took too long", CONTROLLER),
    (
        "IMU",
        "check the IMU's power and connection, and with `khz check FILE` that its reading fits the deadline",
    ),
    ("the body leans", "see the IMU in the report"),
    ("a command is", COMMAND),
    ("a torque on a joint", COMMAND),
    ("was commanded", COMMAND),
    ("cannot be sent", COMMAND),
    ("supply at", "charge the battery, or check the supply under load"),
    ("°C", "let the servos cool, and see the torques in the report"),
    ("rad, limit", "compare the joint in the report with its `limits`"),
    ("rad/s, limit", "compare the joint in the report with its `limits`"),
    ("is down", SCAN),
];

/// What to do about what brought a robot down, by how the supervisor calls it: a log has no more of it.
pub(super) fn remedy(cause: &str) -> Option<&'static str> {
    REMEDIES.into_iter().find(|(words, _)| cause.contains(words)).map(|(_, remedy)| remedy)
}
