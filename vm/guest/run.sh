# needs: khz
# A robot over a real CAN interface: emulated servos in one process, the loop in another, foreign witnesses, link loss.

# robot REACTION: a robot file of two servos on vcan0, slow enough for an emulated CPU.
robot() {
    cat <<END
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
missed_replies = 25
stale_ms = 100000
overruns = 100000
controller_us = 1000000
answer_s = 10
# The emulated CPU may stand still for seconds: only a lost bus or a servo's fault brings the robot down.
[supervisor.reactions]
overruns = "warn"
bus_down = "$1"
missed_replies = "warn"
stale = "$1"
servo_fault = "$1"
[controller]
name = "hold"
[servo_defaults]
watchdog_s = 30
[[servo]]
name = "pan"
bus = "main"
id = 1
[[servo]]
name = "tilt"
bus = "main"
id = 2
END
}

# both_talk: a foreign program sees queries to servo 1, and its replies.
both_talk() {
    timeout 20 candump -n 100 -T 10000 vcan0 >talk
    contains talk "00008001  [" && contains talk "100  ["
}

robot damp >damp.toml
robot warn >warn.toml
check "khz check takes the robot file" khz check damp.toml

# An interface that carries classic CAN only, which servos that speak CAN-FD cannot use: the command that mends it.
ip link add dev vcan9 type vcan
ip link set vcan9 mtu 16 up
mends="sudo ip link set vcan9 down; sudo ip link set vcan9 mtu 72 up"
sed 's/vcan0/vcan9/' damp.toml >classic.toml
khz run classic.toml --no-report --log classic.tlog >refused 2>&1
check "khz run refuses it with the same command" contains refused "$mends"
ip link del vcan9

khz emulate damp.toml --at main=socketcan:vcan0 >endpoints 2>emulate_errors &
check "khz emulate serves the interface" wait_for contains endpoints "main vcan0"

# A foreign program asks a servo for its mode, and sees the servo answer.
before=$(listeners)
candump -n 2 -T 20000 vcan0 >seen &
check "candump listens" wait_for listens_since "$before"
cansend vcan0 00008001##11100
wait_for grep -q "100  \[" seen
check "an emulated servo answers cansend" contains seen "100  [03]  21 00 00"

khz bus scan socketcan:vcan0 --last 4 --timeout-ms 2000 --json >scan
check "khz bus scan finds both servos" [ "$(grep -o firmware scan | wc -l)" = 2 ]

khz run damp.toml --duration 5s --json --no-report --log whole.tlog >whole.json 2>whole_errors
# An emulated CPU that stands still for longer than servos bear brings the robot down, as it must.
ended_well() {
    contains whole.json '"ended_well":true' || grep -q '"end":"the loop was held up for' whole.json || { cat whole_errors; return 1; }
}
check "khz run does its job across vcan" ended_well

# The link goes down in the middle of a run and comes back.
khz run warn.toml --duration 300s --json --no-report --log cut.tlog >cut.json 2>cut_errors &
run=$!
check "the run talks" both_talk
khz run damp.toml --no-report --log second.tlog >second 2>&1
check "a second run is refused and told who has the interface" contains second "vcan0: in use by \`khz run warn.toml"
khz bus watch socketcan:vcan0 --duration 1s >watched 2>&1
check "who only listens may do so beside it" contains watched "bus 1 socketcan:vcan0"
ip link set vcan0 down
sleep 2
ip link set vcan0 up
check "after the link came back both sides talk again" both_talk
# Stopped here, not by its duration: on a busy host the link may go down long after twenty seconds.
kill -TERM $run
wait $run
# Counted, not warned of: a CPU that stands still while the link is down sees it for a moment only.
check "the run noticed" contains cut.json '"downs":1'
check "and went on until it was stopped" contains cut.json '"end":"stopped by the operator'
check "it missed replies" sh -c 'grep -o "\"missed_replies\":[0-9]*" cut.json | head -n 1 | grep -v ":0$"'

# A robot that is to come down when a bus is lost does.
khz run damp.toml --duration 60s --json --no-report --log down.tlog >down.json 2>down_errors &
run=$!
check "the second run talks" both_talk
ip link set vcan0 down
wait $run
code=$?
ip link set vcan0 up
check "a lost bus brings the robot down" [ "$code" = 1 ]
check "and is named" contains down.json "main"
khz bus scan socketcan:vcan0 --last 4 --timeout-ms 2000 --json >again
check "the emulated servos outlived it all" [ "$(grep -o firmware again | wc -l)" = 2 ]
