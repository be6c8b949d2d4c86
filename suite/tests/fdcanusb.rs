//! An fdcanusb on a pseudo terminal, without checksums, as over USB.

khz_suite::conformance!(any khz_suite::stands::fdcanusb(khz_wire::fdcanusb::Dialect::Adapter));
