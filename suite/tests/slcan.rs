//! An slcan adapter on a pseudo terminal that answers every line.

khz_suite::conformance!(any khz_suite::stands::slcan(khz_wire::slcan::Answers::Lawicel));
