//! What differs between the models of the X series.

/// A model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// In the register at address 0, and in the answer to a ping.
    pub number: u16,
    /// What its maker calls it.
    pub name: &'static str,
    /// A step of its currents, A; `None`: it measures its load only, and has no mode that takes a current.
    pub current_step: Option<f64>,
    /// The firmware from which it answers fast reads; `None`: it never does.
    pub fast_from: Option<u8>,
    /// The firmware from which it has a bus watchdog.
    pub watchdog_from: u8,
    /// Limits of its supply as it leaves its maker, V.
    pub volts: [f64; 2],
    /// Address of the first byte of its indirect data.
    pub indirect_data: u16,
    /// How many indirect bytes follow one another.
    pub indirect_bytes: u8,
}

/// X330 (E-manual, pages of XL330-M288 and XL330-M077).
const fn small(number: u16, name: &'static str) -> Model {
    Model {
        number,
        name,
        current_step: Some(0.001),
        fast_from: Some(46),
        watchdog_from: 0,
        volts: [3.5, 7.0],
        indirect_data: 208,
        indirect_bytes: 20,
    }
}

/// X430 and X540.
const fn large(number: u16, name: &'static str) -> Model {
    Model {
        number,
        name,
        current_step: Some(0.002_69),
        fast_from: Some(45),
        watchdog_from: 38,
        volts: [9.5, 16.0],
        indirect_data: 224,
        indirect_bytes: 28,
    }
}

/// Those without a current sensor, of this highest voltage (E-manual, pages of XL430-W250 and XC430-W150).
const fn loaded(number: u16, name: &'static str, most_v: f64) -> Model {
    Model { current_step: None, volts: [6.0, most_v], ..large(number, name) }
}

/// Models and numbers as `control_table/dynamixel.model` of the maker's SDK has them.
pub const MODELS: [Model; 12] = [
    small(1190, "XL330-M077"),
    small(1200, "XL330-M288"),
    // Its table lies as that of an XL330; its motor is for 12 V (E-manual, page of XC330-T288).
    Model { volts: [5.5, 14.0], ..small(1220, "XC330-T288") },
    loaded(1060, "XL430-W250", 14.0),
    loaded(1070, "XC430-W150", 16.0),
    Model { fast_from: None, ..loaded(1090, "2XL430-W250", 14.0) },
    large(1020, "XM430-W350"),
    large(1030, "XM430-W210"),
    large(1100, "XH540-W270"),
    large(1120, "XM540-W270"),
    large(1130, "XM540-W150"),
    large(1170, "XW540-T260"),
];

impl Model {
    /// The model with this number.
    pub fn numbered(number: u16) -> Option<&'static Self> {
        MODELS.iter().find(|model| model.number == number)
    }

    /// The model with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        MODELS.iter().find(|model| model.name == name)
    }

    /// What its maker's figures are for, V.
    pub const fn nominal_v(&self) -> f64 {
        if self.volts[0] < 5.0 { 5.0 } else { 12.0 }
    }

    /// With this firmware it answers fast reads.
    pub const fn is_fast(&self, firmware: u8) -> bool {
        matches!(self.fast_from, Some(from) if firmware >= from)
    }
}
