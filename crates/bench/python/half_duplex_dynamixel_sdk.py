"""Goals to all servos and the state of all, over and over: the maker's SDK, by its fast sync read."""

from dynamixel_sdk import COMM_SUCCESS, GroupSyncRead, GroupSyncWrite, PacketHandler, PortHandler


class PatientPort(PortHandler):
    """Gives up after 34 ms otherwise, which a busy machine may need for an answer."""

    def setPacketTimeout(self, packet_length):
        super().setPacketTimeout(packet_length)
        self.packet_timeout += 1000


port, sdk = PatientPort(path), PacketHandler(2.0)
assert port.openPort() and port.setBaudRate(4_000_000)
goals, states = GroupSyncWrite(port, sdk, 116, 4), GroupSyncRead(port, sdk, 126, 10)
for servo in servos:
    assert states.addParam(servo)


def cycle():
    goals.clearParam()
    for servo in servos:
        goals.addParam(servo, [0, 8, 0, 0])
    goals.txPacket()
    assert states.fastSyncRead() == COMM_SUCCESS
    return [[states.getData(servo, *item) for item in ((126, 2), (128, 4), (132, 4))] for servo in servos]


measure(cycle)
