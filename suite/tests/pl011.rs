//! An RS485 line on a PL011 UART driven by its registers.

khz_suite::conformance!(khz_suite::stands::pl011);
