//! The emulated CAN-FD bus.

khz_suite::conformance!(any khz_suite::stands::emulated(khz_emu::BusConfig::CAN_FD));
