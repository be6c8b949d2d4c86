//! An fdcanusb client on a pseudo terminal with checksums, as over a UART.

khz_suite::conformance!(any khz_suite::stands::fdcanusb(khz_wire::fdcanusb::Dialect::Uart));
