# needs: khz
# The kernel's watchdog is fed by a running robot, stopped by an orderly end, and runs out when the process is frozen or
# killed.

insmod /modules/watchdog.ko
insmod /modules/softdog.ko soft_noboot=1
check "the kernel has a watchdog" wait_for test -c /dev/watchdog
watchdog=/sys/class/watchdog/watchdog0

# One servo, slow enough for an emulated CPU.
cat >robot.toml <<END
[loop]
rate_hz = 50
bus_deadline_us = 15000
wake = "sleep"
[bus.main]
link = "emulated"
[supervisor]
overruns = 100000
missed_replies = 100000
stale_ms = 100000
controller_slow = 100000
answer_s = 10
[watchdog]
device = "/dev/watchdog"
timeout_s = 5
# Nobody here waits for the servo's own watchdog, and the emulated CPU may stand still for a while.
[servo_defaults]
watchdog_s = 30
[[servo]]
name = "pan"
bus = "main"
id = 1
END

# says FILE TEXT: a file of the kernel's holds exactly this.
says() {
    [ "$(cat "$watchdog/$1")" = "$2" ] || { echo "$1: $(cat "$watchdog/$1"), not $2"; return 1; }
}

# fired: the watchdog ran out. The kernel would now reset the machine, but for soft_noboot.
fired() {
    dmesg | grep "softdog: Triggered"
}

check "before the run it is not started" says state inactive
khz run robot.toml --duration 20s --json --no-report --log fed.tlog >fed.json 2>fed_errors &
run=$!
check "khz run starts it" wait_for says state active
check "with the timeout of the robot file" says timeout 5
sleep 12
check "after more than twice its timeout it still waits" says state active
check "and nothing fired" sh -c '! dmesg | grep "softdog: Triggered"'
wait $run
check "the run ends well" contains fed.json '"ended_well":true'
check "an orderly end stops it" says state inactive
sleep 7
check "for good" sh -c '! dmesg | grep "softdog: Triggered"'

khz run robot.toml --duration 60s --no-report --log asked.tlog >asked 2>&1 &
run=$!
check "a second run starts it" wait_for says state active
sleep 2
kill -TERM $run
wait $run
check "SIGTERM stops it" says state inactive

khz run robot.toml --duration 60s --no-report --log frozen.tlog >frozen 2>&1 &
run=$!
check "a third run starts it" wait_for says state active
sleep 2
kill -STOP $run
check "under a frozen run it runs out" wait_for fired
kill -CONT $run
wait $run
check "the run that thawed comes down and stops it" says state inactive
dmesg -c >/dev/null

khz run robot.toml --duration 60s --no-report --log killed.tlog >killed 2>&1 &
run=$!
check "a fourth run starts it" wait_for says state active
sleep 2
kill -KILL $run
check "a killed run leaves it counting" says state active
check "and it runs out" wait_for fired
