# What every guest script can use. Results go to the console, one line each, as the Test Anything Protocol has them.

# check NAME COMMAND…: the command must succeed; what it printed is shown if it did not.
check() {
    name=$1
    shift
    if "$@" >/tmp/output 2>&1; then
        echo "ok - $SCRIPT: $name"
    else
        echo "not ok - $SCRIPT: $name (code $?)"
        sed 's/^/#   /' /tmp/output
    fi
}

# contains FILE TEXT: the file holds the text; shows the file if not.
contains() {
    grep -qF -- "$2" "$1" || { echo "no '$2' in:"; cat "$1"; return 1; }
}

# wait_for COMMAND…: until the command succeeds, for at most 30 s.
wait_for() {
    for _ in $(seq 300); do
        "$@" >/dev/null 2>&1 && return 0
        sleep 0.1
    done
    echo "waited 30 s in vain for: $*"
    return 1
}

# one_of_three COMMAND…: what counts answers that come in time, and so needs a CPU for the 0.2 s it lasts. An emulated one may stand still
# through a whole try, not through three.
one_of_three() {
    "$@" || "$@" || "$@"
}

# listeners [INTERFACE]: how many sockets take every frame of vcan0, or of that one.
listeners() {
    # The kernel lists the interface even if there are none.
    grep "^ *${1:-vcan0} " /proc/net/can/rcvlist_all | grep -vc "no entry"
}

# listens_since COUNT [INTERFACE]: somebody has begun to listen since there were so many listeners.
listens_since() {
    [ "$(listeners "$2")" -gt "$1" ]
}

# rust_test NAME [ARGUMENT…]: runs a test binary of ours; its own closing line is what counts.
rust_test() {
    name=$1
    shift
    "/tests/$name" --test-threads=1 "$@" || echo "not ok - $SCRIPT: $name left with code $?"
}
