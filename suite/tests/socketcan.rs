//! SocketCAN over a socket pair, or over the interface that `KHZ_CAN` names.

khz_suite::conformance!(any khz_suite::stands::socketcan);
