//! `[watchdog]` of a robot file.

use khz_settings::section;

section! {
    /// `[watchdog]`: the computer's watchdogs, fed as long as the loop ticks. The servos' own watchdogs are
    /// `watchdog_s` of each servo.
    WatchdogSettings {
        /// The kernel's watchdog, for example `/dev/watchdog`: resets the computer when the loop hangs. Disarmed when
        /// the run ends in an orderly way.
        device: Option<String> = None, "";
        /// Timeout of `device`. Without the key its driver decides.
        timeout_s: Option<u32> = None, "s", 1 => 3600;
        /// Notify systemd that the robot has started (`READY=1`), that the loop ticks (`WATCHDOG=1`) and of its
        /// phase, if `NOTIFY_SOCKET` is set. `WatchdogSec` must be at least 1 s.
        systemd: bool = true, "";
    }
}
