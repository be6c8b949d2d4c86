//! An RS485 line on a pseudo terminal.

khz_suite::conformance!(khz_suite::stands::rs485_line);
