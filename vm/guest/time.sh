# needs: khz
# Our own binary keeps time on a real-time kernel, and recognises it. No latency is asserted: the machine is emulated.

# jitter OPTION…: measures, and must have been granted what it asked for.
jitter() {
    khz jitter --period 10ms --ticks 100 --json "$@" >result || { echo "left with code $?"; cat result; return 1; }
    contains result '"ticks":100,' && contains result '"grade":"real-time"' && contains result '"policy":"fifo"'
}

for wake in sleep hybrid timerfd sigwait; do
    check "khz jitter is real-time, waking by $wake" jitter --wake "$wake" --strict --cpu 1
    check "khz jitter sees a real-time kernel" contains result '"preemption":"realtime","realtime_kernel":true'
done

khz jitter --period 10ms --ticks 50 --policy deadline >result 2>&1
check "khz jitter runs with SCHED_DEADLINE" contains result "real-time"

khz doctor --json >findings
code=$?
check "khz doctor grades the machine (code $code)" [ "$code" -le 1 -o "$code" = 3 ]
check "khz doctor sees a real-time kernel" contains findings "with preemption model realtime"
khz doctor >findings
check "khz doctor finds the kernel good" grep -q "^good  *kernel  *kernel .* with preemption model realtime" findings
