//! Samples by UDP as PlotJuggler's "UDP Server" takes them: datagrams with an array of JSON objects.
//!
//! Each object begins with `timestamp`, seconds since 1970, and has the values of one sample nested under the record's name, so
//! that PlotJuggler names them `/servo/hip/position`. An array's items are `name[0]`, …, as it would call them itself. It plots
//! numbers only: texts, bytes and what is not finite are left out, and an enum is its number.
//!
//! PlotJuggler reads a datagram at a time in the thread that draws. So there are at most 50 a second, of 65,000 bytes within
//! this computer and of 1400, an Ethernet frame, elsewhere. Of records that come more often only every n-th sample is sent, of
//! all the same, so that they still belong together.

use crate::records::{Declared, RecordId};
use crate::sink::{Sink, SinkResult};
use crate::stream::udp_to;
use khz_tlog::{Type, Value};
use std::collections::VecDeque;
use std::fmt::Write;
use std::io;
use std::net::UdpSocket;

/// Its name as a sink.
pub(super) const PLOTJUGGLER: &str = "plotjuggler";
/// The largest datagram within this computer, and to another.
const MOST: usize = 65_000;
const MOST_ELSEWHERE: usize = 1400;
/// Time between two datagrams: with one that may be late and is made up for there are no more than 50 in any second.
const SLOT_NS: i64 = 20_500_000;
/// For how long rates and sizes are measured, the first time and later.
const FIRST_WINDOW_NS: i64 = 100_000_000;
const WINDOW_NS: i64 = 1_000_000_000;
/// Datagrams that may wait for their time.
const WAITING: usize = 10;

/// Sends what can be plotted. It never waits for anyone.
pub(super) struct Plot {
    socket: UdpSocket,
    most: usize,
    epoch_ns: i64,
    records: Vec<Record>,
    /// Objects to be sent.
    waiting: VecDeque<Object>,
    waiting_bytes: usize,
    /// Of records that come often, every n-th sample is sent.
    every: u64,
    /// Start and length of the window in which rates are measured.
    window_ns: Option<(i64, i64)>,
    /// When a datagram could last be sent, and how often that was in the window.
    slot_ns: Option<i64>,
    slots: u64,
    /// Samples in datagrams that the network did not take.
    lost: u64,
    error: Option<io::Error>,
}

struct Record {
    name: String,
    ty: Type,
    /// It comes more often than datagrams.
    is_frequent: bool,
    seen: u64,
    /// In this window: samples, those encoded, and their bytes.
    samples: u64,
    encoded: u64,
    bytes: u64,
}

struct Object {
    record: usize,
    text: String,
    /// Its sample has no object after this one.
    is_last: bool,
}

impl Plot {
    pub fn new(to: &str) -> io::Result<Self> {
        let (socket, to) = udp_to(to)?;
        let most = if to.ip().is_loopback() { MOST } else { MOST_ELSEWHERE };
        Ok(Self::on(socket, most))
    }

    fn on(socket: UdpSocket, most: usize) -> Self {
        Self {
            socket,
            most,
            epoch_ns: 0,
            records: Vec::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            every: 1,
            window_ns: None,
            slot_ns: None,
            slots: 0,
            lost: 0,
            error: None,
        }
    }

    /// Whether the first rates are not known yet.
    fn is_learning(&self) -> bool {
        self.window_ns.is_none_or(|(_, long_ns)| long_ns == FIRST_WINDOW_NS)
    }

    /// Adds the objects of a sample to those that wait.
    fn add(&mut self, index: usize, objects: Vec<String>) -> SinkResult {
        let bytes: usize = objects.iter().map(String::len).sum();
        let record = &mut self.records[index];
        record.encoded += 1;
        record.bytes += bytes as u64;
        if self.waiting_bytes + bytes > WAITING * self.most {
            // Before rates are known nothing better could be chosen; afterwards a sample that was chosen is lost.
            return if self.is_learning() {
                Ok(())
            } else {
                Err("more came at once than may be sent".into())
            };
        }
        self.waiting_bytes += bytes;
        let last = objects.len().saturating_sub(1);
        let objects = objects.into_iter().enumerate();
        self.waiting.extend(objects.map(|(number, text)| Object {
            record: index,
            text,
            is_last: number == last,
        }));
        Ok(())
    }

    /// Chooses anew how much is sent, when a window is over. Never more than before: a plot that changes its density looks like a
    /// machine that does.
    fn choose(&mut self, now_ns: i64) {
        let (begun_ns, long_ns) = *self.window_ns.get_or_insert((now_ns, FIRST_WINDOW_NS));
        let took_ns = now_ns - begun_ns;
        if took_ns < long_ns {
            return;
        }
        let was_learning = self.is_learning();
        self.window_ns = Some((now_ns, WINDOW_NS));
        // A busy computer comes to sending less often than it might; that matters if too much waits.
        let (sent, is_behind) =
            (std::mem::take(&mut self.slots), 2 * self.waiting_bytes > WAITING * self.most && !was_learning);
        let slots = if is_behind { sent } else { (took_ns / SLOT_NS) as u64 };
        let (mut often, mut rare) = (0, 0);
        for record in &mut self.records {
            record.is_frequent |= record.samples > slots;
            let bytes = (record.bytes * record.samples).checked_div(record.encoded).unwrap_or(0);
            *(if record.is_frequent { &mut often } else { &mut rare }) += bytes;
            (record.samples, record.encoded, record.bytes) = (0, 0, 0);
        }
        // A tenth is left for brackets and for objects that do not fill a datagram.
        let room = (slots * self.most as u64 * 9 / 10).saturating_sub(rare).max(1);
        self.every = self.every.max(often.div_ceil(room));
        if was_learning && self.every > 1 {
            self.catch_up();
        }
    }

    /// Leaves out what has come together of frequent records before rates were known.
    fn catch_up(&mut self) {
        let records = &self.records;
        self.waiting.retain(|object| !records[object.record].is_frequent);
        self.waiting_bytes = self.waiting.iter().map(|object| object.text.len()).sum();
    }

    /// Sends as much as a datagram holds.
    fn send(&mut self) {
        let (mut datagram, mut samples) = (String::new(), 0);
        while let Some(object) = self.waiting.front()
            && datagram.len() + 1 + object.text.len() < self.most
        {
            datagram.push(if datagram.is_empty() { '[' } else { ',' });
            datagram.push_str(&object.text);
            samples += u64::from(object.is_last);
            self.waiting_bytes -= object.text.len();
            self.waiting.pop_front();
        }
        if datagram.is_empty() {
            return;
        }
        datagram.push(']');
        // A full send buffer or a closed port.
        if let Err(error) = self.socket.send(datagram.as_bytes()) {
            self.lost += samples;
            self.error.get_or_insert(error);
        }
    }
}

impl Sink for Plot {
    fn name(&self) -> &str {
        PLOTJUGGLER
    }

    fn begin(&mut self, records: &[Declared], epoch_ns: i64) -> SinkResult {
        self.epoch_ns = epoch_ns;
        let record = |Declared { name, ty }: &Declared| Record {
            name: name.clone(),
            ty: ty.clone(),
            is_frequent: false,
            seen: 0,
            samples: 0,
            encoded: 0,
            bytes: 0,
        };
        self.records = records.iter().map(record).collect();
        Ok(())
    }

    fn sample(&mut self, record: RecordId, time_ns: i64, payload: &[u8]) -> SinkResult {
        let index = record.index();
        let record = &mut self.records[index];
        record.samples += 1;
        let is_due = record.seen.is_multiple_of(self.every);
        record.seen += 1;
        if record.is_frequent && !is_due {
            return Ok(());
        }
        let value = Value::read(&record.ty, payload)?;
        let objects = objects(&record.name, value, time_ns + self.epoch_ns, self.most - 2)?;
        self.add(index, objects)
    }

    fn turn(&mut self, now_ns: i64) -> SinkResult {
        let slot_ns = *self.slot_ns.get_or_insert(now_ns - SLOT_NS);
        if now_ns - slot_ns >= SLOT_NS {
            self.slot_ns = Some((slot_ns + SLOT_NS).max(now_ns - SLOT_NS));
            self.slots += 1;
            self.send();
        }
        self.choose(now_ns);
        self.error.take().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Sends a last datagram. What does not fit in is lost.
    fn finish(&mut self, _: i64) -> SinkResult {
        self.send();
        self.lost += self.waiting.iter().filter(|object| object.is_last).count() as u64;
        self.waiting.clear();
        self.error.take().map_or(Ok(()), |error| Err(error.into()))
    }

    fn lost(&self) -> u64 {
        self.lost
    }

    fn note(&self) -> Option<String> {
        let (every, most) = (self.every, self.most);
        (every > 1).then(|| {
            format!("sent 1 of {every} samples: PlotJuggler is sent no more than 50 datagrams of {most} bytes a second")
        })
    }
}

/// What can be plotted of a sample, as objects of at most so many bytes.
fn objects(name: &str, value: Value<'_>, at_ns: i64, most: usize) -> Result<Vec<String>, TooLong> {
    let head = format!("{{\"timestamp\":{:.6}", at_ns as f64 * 1e-9);
    let mut writer = Writer { head, most, text: String::new(), path: Vec::new(), open: 0, done: Vec::new() };
    writer.value(&escaped(name), value)?;
    writer.end();
    Ok(writer.done)
}

#[derive(Debug, thiserror::Error)]
#[error("a name is too long for a datagram")]
struct TooLong;

/// Writes values into objects, and begins another object where one is full.
struct Writer {
    head: String,
    most: usize,
    text: String,
    /// The names around the next value, and how many of them the text has opened.
    path: Vec<String>,
    open: usize,
    done: Vec<String>,
}

impl Writer {
    fn value(&mut self, key: &str, value: Value<'_>) -> Result<(), TooLong> {
        match value {
            Value::Object(fields) => self.nested(key, fields),
            Value::Map(entries) => self.nested(key, entries),
            Value::Array(mut items) => {
                let mut items = items.by_ref().enumerate();
                items.try_for_each(|(index, item)| self.value(&format!("{key}[{index}]"), item))
            }
            value => number(value).map_or(Ok(()), |number| self.number(key, &number)),
        }
    }

    fn nested<'a>(
        &mut self,
        key: &str,
        mut fields: impl Iterator<Item = (&'a str, Value<'a>)>,
    ) -> Result<(), TooLong> {
        self.path.push(key.to_owned());
        fields.try_for_each(|(name, value)| self.value(&escaped(name), value))?;
        self.path.pop();
        if self.open > self.path.len() {
            self.text.push('}');
            self.open -= 1;
        }
        Ok(())
    }

    fn number(&mut self, key: &str, number: &str) -> Result<(), TooLong> {
        if !self.text.is_empty() && self.text.len() + self.room(key, number) > self.most {
            self.end();
        }
        if self.text.is_empty() {
            self.text.push_str(&self.head);
            if self.text.len() + self.room(key, number) > self.most {
                return Err(TooLong);
            }
        }
        for name in &self.path[self.open..] {
            separate(&mut self.text);
            self.text.extend(["\"", name, "\":{"]);
        }
        self.open = self.path.len();
        separate(&mut self.text);
        self.text.extend(["\"", key, "\":", number]);
        Ok(())
    }

    /// Bytes that a number takes, up to the end of an object that ends there.
    fn room(&self, key: &str, number: &str) -> usize {
        let opening: usize = self.path[self.open..].iter().map(|name| name.len() + 5).sum();
        opening + key.len() + 4 + number.len() + self.path.len() + 1
    }

    /// Ends an object, if there is one.
    fn end(&mut self) {
        if !self.text.is_empty() {
            self.text.extend(std::iter::repeat_n('}', self.open + 1));
            self.done.push(std::mem::take(&mut self.text));
        }
        self.open = 0;
    }
}

fn separate(text: &mut String) {
    if !text.ends_with('{') {
        text.push(',');
    }
}

/// As JSON; `None` of what cannot be plotted. A number that no float64 holds exactly is rounded to one: PlotJuggler stops at an
/// integer that is not.
fn number(value: Value<'_>) -> Option<String> {
    const EXACT: u64 = 1 << f64::MANTISSA_DIGITS;
    match value {
        Value::Float32(value) => value.is_finite().then(|| format!("{value:?}")),
        Value::Bool(value) => Some(u8::from(value).to_string()),
        Value::Int(value) if value.unsigned_abs() <= EXACT => Some(value.to_string()),
        Value::Uint(value) if value <= EXACT => Some(value.to_string()),
        Value::Enum(symbol) if symbol.value.unsigned_abs() <= u128::from(EXACT) => {
            Some(symbol.value.to_string())
        }
        // "No time" and the infinities.
        Value::Timestamp(i64::MAX | i64::MIN..=NO_TIME) | Value::Duration(i64::MAX | i64::MIN..=NO_TIME) => {
            None
        }
        value => value.number().filter(|value| value.is_finite()).map(|value| format!("{value:?}")),
    }
}

const NO_TIME: i64 = i64::MIN + 1;

/// A name within a JSON string.
fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            control if control < ' ' => _ = write!(text, "\\u{:04x}", control as u32),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests;
