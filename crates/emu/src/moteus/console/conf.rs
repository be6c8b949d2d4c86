//! `conf`: list, show and change the settings.

use super::{blob, first_word, text};
use crate::moteus::Servo;
use crate::moteus::control::Law;
use crate::moteus::motor::Motor;
use crate::moteus::record::{Record, at};
use crate::moteus::settings::Settings;

impl Servo {
    pub(super) fn conf(&mut self, line: &str) {
        let (word, rest) = first_word(line);
        match word {
            "list" => self.conf_list(),
            "schema" => self.conf_schema(rest),
            "data" => self.conf_data(rest),
            "enumerate" => self.conf_enumerate(rest),
            "get" => self.conf_get(rest),
            "set" => self.conf_set(rest),
            "write" => {
                self.saved = self.settings.clone();
                self.print_ok();
            }
            "load" => self.adopt(self.saved.clone()),
            "default" => self.conf_default(),
            "size" => self.conf_size(),
            _ => self.print("ERR unknown subcommand\r\n"),
        }
    }

    fn conf_list(&mut self) {
        let out = &mut self.console.output;
        self.settings.fields(&mut |name, _| {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\r\n");
        });
        self.print_ok();
    }

    fn conf_schema(&mut self, name: &str) {
        let out = &mut self.console.output;
        let found = Settings::default()
            .group(name, &mut |group| blob::frame(["cschema", name], out, |out| blob::schema(group, out)));
        self.unless(found, "ERR unknown name\r\n");
    }

    fn conf_data(&mut self, name: &str) {
        let out = &mut self.console.output;
        let found = self
            .settings
            .group(name, &mut |group| blob::frame(["cdata", name], out, |out| blob::data(group, out)));
        self.unless(found, "ERR unknown name\r\n");
    }

    fn conf_enumerate(&mut self, name: &str) {
        let out = &mut self.console.output;
        let mut found = false;
        self.settings.fields(&mut |group, field| {
            if let crate::moteus::record::Field::Object(record) = field
                && (name.is_empty() || name == group)
            {
                found = true;
                text::enumerate(group, record, out);
            }
        });
        if found { self.print_ok() } else { self.print("ERR unknown group\r\n") }
    }

    fn conf_get(&mut self, path: &str) {
        if !self.has_group(path) {
            return self.print("ERR unknown group\r\n");
        }
        let out = &mut self.console.output;
        let found = at(&mut self.settings, path, &mut |field| text::write_value(field, out));
        self.print(if found { "\r\n" } else { "ERR error reading\r\n" });
    }

    fn conf_set(&mut self, line: &str) {
        let (path, value) = first_word(line);
        if !self.has_group(path) {
            return self.print("ERR unknown group\r\n");
        }
        let mut settings = self.settings.clone();
        if settings.set(path, value) {
            self.adopt(settings);
        } else {
            self.print("ERR error setting\r\n");
        }
    }

    fn conf_default(&mut self) {
        // The UUID is not a matter of configuration.
        let uuid = self.settings.uuid.clone();
        self.adopt(Settings { uuid, ..Settings::default() });
    }

    fn conf_size(&mut self) {
        let start = self.console.output.len();
        blob::data(&mut self.settings, &mut self.console.output);
        let size = self.console.output.len() - start;
        self.console.output.truncate(start);
        self.print_number(size as i64);
        self.print_ok();
    }

    fn has_group(&mut self, path: &str) -> bool {
        let group = path.split('.').next().unwrap_or("");
        self.settings.group(group, &mut |_| {})
    }

    /// Works with other settings from now on. A running motor does not survive another geometry.
    fn adopt(&mut self, settings: Settings) {
        let moved = settings.motor_position != self.settings.motor_position;
        self.settings = settings;
        (self.motor, self.law) = (Motor::new(&self.settings), Law::new(&self.settings));
        if moved && self.torque_on() {
            self.fail(khz_wire::Fault(41));
        }
        self.print_ok();
    }

    pub(super) fn print_number(&mut self, number: i64) {
        let mut number = number;
        text::write_value(crate::moteus::record::Field::Signed(8, &mut number), &mut self.console.output);
        self.print("\r\n");
    }

    pub(super) fn unless(&mut self, done: bool, error: &str) {
        if !done {
            self.print(error);
        }
    }
}
