//! Every link, through the cases that each has to pass.

use khz_emu::BusConfig;
use khz_suite::{conformance, stands};
use khz_wire::fdcanusb::Dialect;
use khz_wire::slcan::Answers;

/// Cases count what they allocate, on their own threads.
#[global_allocator]
static ALLOCATOR: khz_rt::alloc_trap::CountingAllocator = khz_rt::alloc_trap::CountingAllocator;

/// The emulated CAN-FD bus.
mod emulated_can {
    use super::*;

    conformance!(any stands::emulated(BusConfig::CAN_FD));
}

/// The emulated RS485 line.
mod emulated_rs485 {
    use super::*;

    conformance!(stands::emulated(BusConfig::RS485));
}

/// UDP, one datagram per device.
mod udp_unicast {
    use super::*;

    conformance!(stands::udp(false));
}

/// UDP, one datagram for all devices.
mod udp_all {
    use super::*;

    conformance!(stands::udp(true));
}

/// An fdcanusb on a pseudo terminal, without checksums, as over USB.
mod fdcanusb {
    use super::*;

    conformance!(any stands::fdcanusb(Dialect::Adapter));
}

/// An fdcanusb client on a pseudo terminal with checksums, as over a UART.
mod fdcanusb_uart {
    use super::*;

    conformance!(any stands::fdcanusb(Dialect::Uart));
}

/// An slcan adapter on a pseudo terminal that answers every line.
mod slcan {
    use super::*;

    conformance!(any stands::slcan(Answers::Lawicel));
}

/// An slcan adapter on a pseudo terminal that answers nothing, as a CANable.
mod slcan_canable {
    use super::*;

    conformance!(any stands::slcan(Answers::None));
}

/// SocketCAN over a socket pair, or over the interface that `KHZ_CAN` names.
mod socketcan {
    use super::*;

    conformance!(any stands::socketcan);
}

/// An RS485 line on a pseudo terminal.
mod rs485 {
    use super::*;

    conformance!(stands::rs485_line);
}

/// An RS485 line on a PL011 UART driven by its registers.
mod pl011 {
    use super::*;

    conformance!(stands::pl011);
}

/// A pi3hat of protocol version 3, over the emulated hat's SPI.
mod pi3hat_3 {
    use super::*;

    conformance!(stands::pi3hat(3));
}

/// A pi3hat of protocol version 4, over the emulated hat's SPI.
mod pi3hat_4 {
    use super::*;

    conformance!(stands::pi3hat(4));
}
