//! The emulated RS485 line.

khz_suite::conformance!(khz_suite::stands::emulated(khz_emu::BusConfig::RS485));
