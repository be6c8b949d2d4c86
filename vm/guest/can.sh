# The kernel is real-time and its CAN carries FD frames between foreign programs.

check "the kernel is PREEMPT_RT" grep -q PREEMPT_RT /proc/version

before=$(listeners)
candump -n 1 -T 20000 vcan0 >seen &
check "candump listens" wait_for listens_since "$before"
check "cansend sends an FD frame with bit rate switch" cansend vcan0 00008001##10123456789abcdef
wait
check "candump saw it" contains seen "00008001  [08]  01 23 45 67 89 AB CD EF"
