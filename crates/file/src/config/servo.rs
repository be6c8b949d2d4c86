//! `[[servo]]`: one joint with the servo that drives it.

use super::Uncertainty;
use khz_emu::{DeviceConfig, HeatConfig, JointConfig};
use khz_loop::supervisor::{Limits, Timeout};
use khz_servo::Mounting;
use khz_settings::section;
use khz_wire::Class;

pub use khz_servo::FamilyName;
pub use khz_servo::moteus::{CommandFormat, Format, QueryFormat};

/// One servo, with the defaults of `[servo_defaults]` filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct ServoConfig {
    /// Index of its bus in [`super::RobotConfig::buses`].
    pub bus: usize,
    /// Its keys in the file.
    pub settings: ServoSettings,
}

impl ServoConfig {
    /// What its joint is called in a MuJoCo model.
    pub fn joint_in_model(&self) -> &str {
        self.model_joint.as_ref().unwrap_or(&self.name)
    }

    /// Its watchdog, s, as far as its format reaches; 0 if it is not sent.
    pub fn sent_watchdog_s(&self) -> f64 {
        self.watchdog_s.min(self.command.watchdog.greatest(Class::Time))
    }

    /// How it times out; `None`: it is not switched on again. A joint is brought back to its target under its velocity limit, and what
    /// is not measured cannot be judged.
    pub fn timeout(&self) -> Option<Timeout> {
        let (family, after_s) = (self.family(), self.sent_watchdog_s());
        let is_kept = self.limits.velocity.is_some() && self.carries().velocity_asked;
        let (doing, fault) = family.settings().timed_out_as().filter(|_| is_kept && after_s > 0.0)?;
        let torque = self.limits.torque.unwrap_or(f64::INFINITY);
        let reach = family.settings().reach_of(torque)?;
        Some(Timeout { after_ns: (after_s * 1e9) as i64, doing, fault, reach })
    }

    /// How it is mounted on its joint.
    pub fn mounting(&self) -> Mounting {
        Mounting { sign: f64::from(self.sign), offset: self.offset }
    }
}

impl From<ServoSettings> for ServoConfig {
    /// On the first bus, until [`super::RobotConfig::checked`] has looked for the one that is named.
    fn from(settings: ServoSettings) -> Self {
        Self { bus: 0, settings }
    }
}

impl std::ops::Deref for ServoConfig {
    type Target = ServoSettings;

    fn deref(&self) -> &ServoSettings {
        &self.settings
    }
}

macro_rules! keys {
    ($($(#[doc = $doc:literal])+ $name:ident($module:ident) = $word:literal, $title:literal $(, $keys:ident: $of_it:literal)?;)+) => {
        section! {
            /// One `[[servo]]`, or `[servo_defaults]` for what they have in common (all keys but `name` and `id`).
            ServoSettings {
                /// Name of the joint: letters, digits and `_`, first a letter. It names the joint in logs and programs.
                name: String, "";
                /// Name of the bus the servo is on.
                bus: String, "";
                /// Its protocol. Families share a bus where none has an identifier of another.
                family: FamilyName = FamilyName::Moteus, "";
                /// The servo's id on its bus (moteus: `id.id` in its own configuration, at most 126; Damiao: its register 8, at most 15); 0 is one of an ODrive, a Dynamixel or a Feetech only, and more than 127 of the latter two.
                id: u8, "", 0 => 253;
                /// Direction of the joint: −1 if it turns against the servo. `joint = sign × servo + offset`.
                sign: i8 = 1, "", -1 => 1;
                /// Joint angle at the servo's zero.
                offset: f64 = 0.0, "rad", -100.0 => 100.0;
                /// Limits of the joint.
                limits: Limits = Limits::default(), "";
                /// The servo acts by itself when it has received no command for this long: a moteus damps, others go
                /// limp.
                watchdog_s: f64 = 0.1, "s", 0.002 => 30.0;
                $($(#[doc = $of_it] $module: khz_servo::$module::$keys = khz_servo::$module::$keys::default(), "";)?)+
                /// Which state is requested from a moteus, and in which formats.
                query: QueryFormat = QueryFormat::default(), "";
                /// Which values are sent to a moteus, and in which formats.
                command: CommandFormat = CommandFormat::default(), "";
                /// The emulated joint; real servos ignore it.
                joint: JointConfig = JointConfig::default(), "";
                /// How well `joint` is known, for draws of `kilohertz.Env`.
                uncertainty: Uncertainty = Uncertainty::default(), "";
                /// Name of the joint in the model of `[body]` with `kind = "mujoco"`. Without the key, `name`.
                model_joint: Option<String> = None, "";
                /// The emulated servo; real servos keep their own settings.
                device: DeviceConfig = DeviceConfig::default(), "";
                /// How the emulated servo warms up.
                heat: HeatConfig = HeatConfig::default(), "";
            }
        }
    };
}

khz_servo::families!(keys);
