//! An slcan adapter on a pseudo terminal that answers nothing, as a CANable.

khz_suite::conformance!(any khz_suite::stands::slcan(khz_wire::slcan::Answers::None));
