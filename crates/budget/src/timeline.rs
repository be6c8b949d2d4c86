//! What happens when in one cycle, and what had to wait for what.

use serde::Serialize;

/// What a span of time goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanKind {
    /// The host encodes or decodes.
    Encode,
    /// The host hands frames to a link or fetches them: system calls, SPI.
    Host,
    /// From a reply to the next query, or before a command.
    Gap,
    /// A command or query on the wire.
    Command,
    /// The device thinks.
    Turnaround,
    /// A reply on the wire.
    Reply,
    /// On the wire in some cycles only: a question besides and its answer, or what a servo sends by itself.
    Aside,
    /// An adapter, a switch, the way to the loop.
    Transit,
    /// Reading the IMU.
    Imu,
    /// The controller.
    Control,
    /// The supervisor.
    Supervise,
    /// Handing the tick to the recorder.
    Record,
}

impl SpanKind {
    /// As a reader sees it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Encode => "encode and decode",
            Self::Host => "host link",
            Self::Gap => "host gap",
            Self::Command => "command",
            Self::Turnaround => "turnaround",
            Self::Reply => "reply",
            Self::Aside => "besides",
            Self::Transit => "transit",
            Self::Imu => "IMU",
            Self::Control => "controller",
            Self::Supervise => "supervisor",
            Self::Record => "recorder",
        }
    }
}

/// Something that takes time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// Where: a bus, or the host.
    pub row: String,
    /// What for.
    pub kind: SpanKind,
    /// For which servo, how many bytes.
    pub detail: String,
    /// Its beginning, from the start of the tick.
    pub start_ns: i64,
    /// Its end.
    pub end_ns: i64,
    /// The span whose end it waited for.
    pub after: Option<usize>,
}

/// One cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Timeline {
    /// In the order they were laid out; a span's cause comes before it.
    pub spans: Vec<Span>,
}

/// When something is ready, and which span made it so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moment {
    pub ns: i64,
    pub span: Option<usize>,
}

impl Moment {
    /// The later of two; of equals the first.
    pub fn max(self, other: Self) -> Self {
        if other.ns > self.ns { other } else { self }
    }
}

impl Timeline {
    /// Adds a span of this length; its end.
    pub(super) fn add(&mut self, row: &str, kind: SpanKind, detail: &str, from: Moment, ns: i64) -> Moment {
        if ns <= 0 {
            return from;
        }
        let end_ns = from.ns + ns;
        let (row, detail) = (row.to_owned(), detail.to_owned());
        self.spans.push(Span { row, kind, detail, start_ns: from.ns, end_ns, after: from.span });
        Moment { ns: end_ns, span: Some(self.spans.len() - 1) }
    }

    /// When the last span ends.
    pub fn end_ns(&self) -> i64 {
        self.spans.iter().map(|span| span.end_ns).max().unwrap_or(0)
    }

    /// The chain of spans, each waiting for the one before, that ends last.
    pub fn critical_path(&self) -> Vec<&Span> {
        let mut at = (0..self.spans.len()).rev().max_by_key(|&index| self.spans[index].end_ns);
        let mut path = Vec::new();
        while let Some(index) = at {
            let span = &self.spans[index];
            path.push(span);
            at = span.after;
        }
        path.reverse();
        path
    }

    /// The rows in the order of their first span.
    pub fn rows(&self) -> Vec<&str> {
        let mut rows: Vec<&str> = Vec::new();
        for span in &self.spans {
            if !rows.contains(&span.row.as_str()) {
                rows.push(&span.row);
            }
        }
        rows
    }
}
