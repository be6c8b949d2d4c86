//! A pi3hat of protocol version 4, over the emulated hat's SPI.

khz_suite::conformance!(khz_suite::stands::pi3hat(4));
