# needs: khz
# needs: khz-suite links
# Our SocketCAN link on a real interface: the conformance suite, foreign witnesses, findings, link loss.

KHZ_CAN=vcan0 rust_test links socketcan::

ip link add dev vcan9 type vcan 2>/dev/null
ip link set vcan9 mtu 16 up
khz bus info socketcan:vcan9 >info 2>&1
check "an interface without FD is explained" contains info "sudo ip link set vcan9 down; sudo ip link set vcan9 mtu 72 up"

# robot CAN_FD: two Damiao motors on the interface for classic CAN.
robot() {
    cat <<END
[loop]
rate_hz = 50
bus_deadline_us = 15000
wake = "sleep"
receive = "poll"
[bus.main]
link = "socketcan"
interface = "vcan9"
[supervisor]
overruns = 100000
missed_replies = 100000
stale_ms = 100000
controller_slow = 100000
answer_s = 20
[controller]
name = "hold"
[servo_defaults]
bus = "main"
# The emulated CPU may stand still for a while.
watchdog_s = 30
family = "damiao"
damiao = { model = "4310", can_fd = $1 }
[[servo]]
name = "pan"
id = 1
[[servo]]
name = "tilt"
id = 2
END
}
robot false >classic.toml
robot true >fd.toml
refused="and servo \`pan\` speaks CAN-FD"
khz run fd.toml --duration 1s --no-report --log fd.tlog >ran 2>&1
check "a robot that speaks CAN-FD is refused before it starts" contains ran "$refused"
khz emulate fd.toml --at main=socketcan:vcan9 --duration 1s >emulated 2>&1
check "and so are its emulated servos" contains emulated "$refused"
khz emulate classic.toml --at main=socketcan:vcan9 >emulated 2>&1 &
emulation=$!
check "classic servos are served" wait_for contains emulated "main vcan9"
khz bus scan classic.toml --last 2 --timeout-ms 2000 >found 2>&1
check "they are found over classic CAN" contains found "damiao"
before=$(listeners vcan9)
candump -n 20 -T 20000 vcan9 >seen &
witness=$!
check "candump listens" wait_for listens_since "$before" vcan9
khz run classic.toml -v --duration 5s --no-report --log classic.tlog >ran 2>&1
# How well is not for an emulated computer to say.
check "and a robot comes under control over it" grep -q "of [1-9][0-9]* under control" ran
wait $witness
check "classic frames only" [ "$(grep -c '  \[8\]  ' seen)" -eq 20 ]
kill $emulation

before=$(listeners)
candump -n 1 -T 20000 vcan0 >seen &
check "candump listens" wait_for listens_since "$before"
khz bus send --link socketcan:vcan0 1,8001,1300
wait
check "candump sees what we send" contains seen "00008001  [02]  13 00"

# A queue that is slower than the robot's commands, and then opens: what is late is one tick's, 2 frames.
cat >slow.toml <<END
[robot]
name = "guest"
[loop]
rate_hz = 50
bus_deadline_us = 15000
wake = "sleep"
receive = "poll"
[bus.main]
link = "socketcan"
interface = "vcan0"
[supervisor]
overruns = 100000
answer_s = 20
[controller]
name = "hold"
[[servo]]
name = "pan"
bus = "main"
id = 1
[[servo]]
name = "tilt"
bus = "main"
id = 2
END

# frames: how many candump saw so far.
frames() {
    grep -c "^ *vcan0" late
}

# slowed HOW: runs a robot for 6 s over a queue that passes one frame in 3.8 s, and then opens.
# At the end of the run the fourth frame waits in it, since 4.7 s and until 8.5 s.
slowed() {
    check "a slow queue, $1" /usr/sbin/tc qdisc replace dev vcan0 root tbf rate 150bit burst 128 limit 100000
    before=$(listeners)
    candump vcan0 >late 2>candump_errors &
    witness=$!
    check "candump listens" wait_for listens_since "$before"
    khz run slow.toml --duration 6s --no-report --log slow.tlog >slow 2>errors
    at_the_end=$(frames)
    # Without echo in the driver candump sees a frame when it is handed over, else when it is sent.
    check "$1: of the run's 600 frames as many went as pass the queue: $at_the_end" \
        [ "$at_the_end" -ge 2 -a "$at_the_end" -le 30 ]
    check "$1: what cannot be recalled is reported" contains errors "sudo ip link set vcan0 down"
    check "the queue opens" /usr/sbin/tc qdisc change dev vcan0 root tbf rate 10mbit burst 100000 limit 100000
    sleep 5
    late=$(($(frames) - at_the_end))
    check "$1: no more than one tick's frames came late: $late" [ "$late" -le 2 ]
    kill $witness
    /usr/sbin/tc qdisc del dev vcan0 root
}

# The lab's network may have brought it.
[ -d /sys/module/sch_tbf ] || check "the kernel takes sch_tbf" insmod /modules/sch_tbf.ko
slowed "judged by the queue"

# As real drivers do: frames come back once they are sent.
for name in vcan0 vcan1 vcan9; do
    ip link del "$name"
done
check "vcan goes" rmmod vcan
check "vcan comes back with echo" insmod /modules/vcan.ko echo=1
for name in vcan0 vcan1; do
    ip link add dev "$name" type vcan
    ip link set "$name" mtu 72 up
done
slowed "confirmed by the driver"
KHZ_CAN=vcan0 rust_test links socketcan::
