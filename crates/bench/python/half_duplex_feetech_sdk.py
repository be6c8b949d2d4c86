"""Goals to all servos and the state of all, over and over: the maker's SDK, by its sync read."""

from scservo_sdk import COMM_SUCCESS, GroupSyncRead, GroupSyncWrite, PacketHandler, PortHandler


class PatientPort(PortHandler):
    """Gives up after 2 s, which a busy machine may need for an answer."""

    def setPacketTimeout(self, packet_length):
        super().setPacketTimeout(packet_length)
        self.packet_timeout += 2000


port, sdk = PatientPort(path), PacketHandler(0)
assert port.openPort() and port.setBaudRate(1_000_000)
goals, states = GroupSyncWrite(port, sdk, 42, 2), GroupSyncRead(port, sdk, 56, 6)
for servo in servos:
    assert states.addParam(servo)


def cycle():
    goals.clearParam()
    for servo in servos:
        goals.addParam(servo, [0, 8])
    goals.txPacket()
    assert states.txRxPacket() == COMM_SUCCESS
    return [[states.getData(servo, address, 2) for address in (56, 58, 60)] for servo in servos]


measure(cycle)
