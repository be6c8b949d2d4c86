//! `[watchdog]` of a robot file.

use khz_settings::section;

section! {
    /// `[watchdog]`: watchdogs outside the robot, fed as long as the loop ticks. The servos' own are `watchdog_s` of
    /// each servo.
    WatchdogSettings {
        /// The kernel's watchdog, for example `/dev/watchdog`: resets the computer when the loop hangs. Stopped when
        /// the run ends in order.
        device: Option<String> = None, "";
        /// How long `device` waits. Without the key its driver decides.
        timeout_s: Option<u32> = None, "s", 1 => 3600;
        /// Tell systemd that the robot runs (`READY=1`), lives (`WATCHDOG=1`) and in which phase it is, if
        /// `NOTIFY_SOCKET` asks for it. `WatchdogSec` must be at least 1 s.
        systemd: bool = true, "";
    }
}
