//! The emulated CAN-FD bus.

khz_suite::conformance!(khz_suite::stands::emulated(khz_emu::BusConfig::CAN_FD));
