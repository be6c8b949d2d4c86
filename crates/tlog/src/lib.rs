//! The TLOG0003 telemetry log: schema, records, blocks, seek, recovery.
#![forbid(unsafe_code)]
