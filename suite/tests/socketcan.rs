//! SocketCAN over a socket pair, or over the interface that `KHZ_CAN` names.

khz_suite::conformance!(khz_suite::stands::socketcan);
