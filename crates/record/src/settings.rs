//! `[log]` of a robot file.

use khz_settings::{section, words};

words! {
    /// How records are compressed.
    Compression {
        /// With snappy: every reader of the format understands it.
        Snappy = "snappy",
        /// Not at all.
        None = "none",
    }
}

section! {
    /// `[log]`: the record of every tick.
    LogConfig {
        /// File to write, relative to the working directory. An existing file of this name is kept: a number is
        /// added.
        path: String = "run.tlog".to_owned(), "";
        /// Write a log at all.
        enabled: bool = true, "";
        /// Memory between the loop and the disk. When it is full, records are dropped and counted.
        ring_mib: u32 = 16, "MiB", 1 => 4096;
        /// How records are compressed.
        compression: Compression = Compression::Snappy, "";
        /// Records that are compressed by zstd instead, many samples together: about half of what snappy makes of them.
        /// Readers that are not of this project see them as byte strings.
        zstd: Vec<String> = Vec::new(), "";
        /// Begin a new file when this one is so large.
        rotate_mib: Option<u32> = None, "MiB", 1 => 1_000_000;
        /// Begin a new file after this time.
        rotate_s: Option<f64> = None, "s", 1.0 => 1e9;
        /// Stop writing, and count, when the disk has less room than this.
        keep_free_mib: u32 = 256, "MiB", 0 => 1_000_000;
        /// Send everything that is recorded by UDP too, to `khz log record` at this address, `HOST:PORT`.
        stream: Option<String> = None, "";
    }
}
