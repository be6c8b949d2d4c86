# needs: khz
# The lab's network with ports that delay, lose and limit: this kernel has the qdiscs. The machine is emulated and slow, so
# the delay is long.
PATH=/usr/sbin:$PATH
mkdir -p /run/netns
for module in llc stp bridge veth sch_netem sch_tbf; do
    check "the kernel takes $module" insmod "/modules/$module.ko"
done

# lab OPTION…: asks one device 200 times, through ports of this kind; its results are in `lab`.
lab() {
    khz rtt lab --devices 1 --duration 0.2 --only "one more switch" --json "$@" >lab
    [ $? -le 1 ] || return 1
}

# p50: of the round trips, ns.
p50() {
    sed -n '/"round_trip_ns"/,/}/s/.*"p50": \([0-9]*\).*/\1/p' lab | tail -n 1
}

check "the lab's network is made" lab
# So that what the delays below add is theirs. An emulated CPU may stand still for half of the 0.2 s.
is_quick() { lab && [ "$(p50)" -lt 200000000 ]; }
check "a round trip takes less than 200 ms" one_of_three is_quick
# An emulated CPU that stands still at the end has the last answers come too late.
loses_nothing() {
    awk -F '[:,]' '
        /^      "lost"/ { lost = $2 }
        /^      "ticks"/ { ticks = $2 }
        END { print lost " of " ticks; exit !(ticks > 0 && lost < 0.3 * ticks) }' lab
}
check "nothing is lost on its way" loses_nothing
check "its ports delay" lab --delay-us 150000 --jitter-us 10000
check "a round trip takes both delays" [ "$(p50)" -gt 280000000 ]
# Of those that were asked: on a busy host not all are.
loses_half() {
    lab --delay-us 1000 --loss-percent 30 --limit-mbit 50 && awk -F '[:,]' '
        /^      "lost"/ { lost = $2 }
        /^      "ticks"/ { ticks = $2 }
        END { print lost " of " ticks; exit !(ticks > 40 && lost > 0.3 * ticks && lost < 0.7 * ticks) }' lab
}
check "its ports lose and limit: about half of the round trips" one_of_three loses_half
