//! `[log]` of a robot file.

use khz_settings::{section, words};

words! {
    /// How records are compressed.
    Compression {
        /// With snappy: every reader of the format supports it.
        Snappy = "snappy",
        /// Not at all.
        None = "none",
    }
}

section! {
    /// `[log]`: the record of every tick.
    LogConfig {
        /// File to write, relative to the working directory. An existing file is not overwritten: a number is added
        /// to the name.
        path: String = "run.tlog".to_owned(), "";
        /// Write a log at all.
        enabled: bool = true, "";
        /// Memory between the loop and the disk. When it is full, records are dropped and counted.
        ring_mib: u32 = 16, "MiB", 1 => 4096;
        /// How records are compressed.
        compression: Compression = Compression::Snappy, "";
        /// Records that are compressed by zstd instead, many samples together: about half the size of snappy. Other
        /// programs' readers see them as byte strings.
        zstd: Vec<String> = Vec::new(), "";
        /// Start a new file when this one reaches this size.
        rotate_mib: Option<u32> = None, "MiB", 1 => 1_000_000;
        /// Start a new file after this time.
        rotate_s: Option<f64> = None, "s", 1.0 => 1e9;
        /// Stop writing, and count dropped samples, when the disk has less free space than this.
        keep_free_mib: u32 = 256, "MiB", 0 => 1_000_000;
        /// Also send everything that is recorded by UDP, to `khz log record` at this address, `HOST:PORT`.
        stream: Option<String> = None, "";
        /// Also send what can be plotted by UDP, to the "UDP Server" of PlotJuggler at this address, `HOST:PORT`.
        plotjuggler: Option<String> = None, "";
    }
}

impl From<Compression> for khz_tlog::Compression {
    fn from(word: Compression) -> Self {
        match word {
            Compression::Snappy => Self::Snappy,
            Compression::None => Self::None,
        }
    }
}

impl LogConfig {
    /// How the samples of a record are compressed.
    pub(crate) fn compression_of(&self, record: &str) -> khz_tlog::Compression {
        let by_zstd = self.zstd.iter().any(|name| name == record);
        if by_zstd { khz_tlog::Compression::Zstd } else { self.compression.into() }
    }

    pub(crate) fn rotate_bytes(&self) -> Option<u64> {
        self.rotate_mib.map(bytes)
    }

    pub(crate) fn rotate_ns(&self) -> Option<i64> {
        self.rotate_s.map(|seconds| khz_settings::nanoseconds(seconds, 1e9))
    }

    pub(crate) fn keep_free_bytes(&self) -> u64 {
        bytes(self.keep_free_mib)
    }
}

fn bytes(mib: u32) -> u64 {
    u64::from(mib) << 20
}
