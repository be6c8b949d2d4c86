//! MCAP files: a channel per record, with ROS 2 definitions and CDR messages.

use crate::names::plain;
use crate::ros2::{Integers, Messages};
use crate::{ExportError, ros2};
use khz_tlog::{Error, Item};
use mcap::records::MessageHeader;
use mcap::{WriteOptions, Writer};
use std::collections::{BTreeSet, HashMap};
use std::io::{Seek, Write};

/// Writes samples of all records to one MCAP file, uncompressed. Units stand behind the fields of the definitions, as
/// ROS 2 has them (`float32 position  # [rad]`), and in the channel's metadata (`unit.position`: `rad`).
pub struct McapWriter<W: Write + Seek> {
    out: Writer<W>,
    /// Channel and messages so far, by the place of a record's schema.
    channels: HashMap<u64, (u16, u32)>,
    message: Vec<u8>,
    messages: Messages,
    integers: Integers,
    beyond: BTreeSet<String>,
}

impl<W: Write + Seek> McapWriter<W> {
    /// Begins the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(out: W, integers: Integers) -> Result<Self, ExportError> {
        let library = concat!("khz ", env!("CARGO_PKG_VERSION"));
        let options = WriteOptions::new().compression(None).profile("ros2").library(library);
        Ok(Self {
            out: options.create(out)?,
            channels: HashMap::new(),
            message: Vec::new(),
            messages: Messages::default(),
            integers,
            beyond: BTreeSet::new(),
        })
    }

    /// Writes a sample: its topic is the record's name behind a slash, with what a terminal obeys escaped.
    ///
    /// # Errors
    /// When the sample does not fit its schema, or the file cannot be written.
    pub fn write(&mut self, item: &Item<'_>) -> Result<(), ExportError> {
        let place = item.record.position();
        if !self.channels.contains_key(&place) {
            let channel = self.declare(item)?;
            self.channels.insert(place, (channel, 0));
        }
        let Some((channel_id, sequence)) = self.channels.get_mut(&place) else { return Ok(()) };
        self.message.clear();
        let encoded = ros2::encode(item.record.ty(), item.payload, self.integers, &mut self.message);
        let beyond = encoded.map_err(|source| Error::Payload {
            offset: item.position,
            record: item.record.name().into(),
            source,
        })?;
        if beyond && !self.beyond.contains(item.record.name()) {
            self.beyond.insert(item.record.name().to_owned());
        }
        let time_ns = item.time_us.unwrap_or(0).max(0) as u64 * 1000;
        *sequence = sequence.wrapping_add(1);
        let header = MessageHeader {
            channel_id: *channel_id,
            sequence: *sequence,
            log_time: time_ns,
            publish_time: time_ns,
        };
        Ok(self.out.write_to_known_channel(&header, &self.message)?)
    }

    /// The records with integers that no float64 holds exactly.
    pub fn beyond_float64(&self) -> impl Iterator<Item = &str> {
        self.beyond.iter().map(String::as_str)
    }

    /// Ends the file with its summary.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(mut self) -> Result<W, ExportError> {
        self.out.finish()?;
        Ok(self.out.into_inner())
    }

    fn declare(&mut self, item: &Item<'_>) -> Result<u16, ExportError> {
        let name = item.record.name();
        let (message, definition) = self.messages.declare(name, item.record.ty(), self.integers);
        let schema = self.out.add_schema(&message, "ros2msg", definition.as_bytes())?;
        let units = item.record.ty().units().into_iter();
        let metadata =
            units.map(|(path, unit)| (format!("unit.{}", plain(&path)), unit.to_owned())).collect();
        Ok(self.out.add_channel(schema, &format!("/{}", plain(name)), "cdr", &metadata)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use khz_tlog::{Options, Reader, Type};
    use std::io::Cursor;

    #[test]
    fn a_topic_has_nothing_that_a_terminal_obeys() {
        let mut log = khz_tlog::Writer::new(Vec::new(), Options::default()).unwrap();
        let record = log.record("a\u{1b}[2J\n", &Type::object([("n", Type::Bool)])).unwrap();
        log.write(record, Some(1), &[1]).unwrap();
        let mut reader = Reader::open(log.finish().unwrap()).unwrap();
        let mut out = McapWriter::new(Cursor::new(Vec::new()), Integers::default()).unwrap();
        out.write(&reader.next().unwrap().unwrap()).unwrap();
        let file = out.finish().unwrap().into_inner();
        let topics: Vec<_> = mcap::MessageStream::new(&file)
            .unwrap()
            .map(|message| message.unwrap().channel.topic.clone())
            .collect();
        assert_eq!(topics, [r"/a\u001b[2J\u000a"]);
    }
}
