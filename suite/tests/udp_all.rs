//! UDP, one datagram for all devices.

khz_suite::conformance!(khz_suite::stands::udp(true));
