//! UDP, one datagram per device.

khz_suite::conformance!(khz_suite::stands::udp(false));
