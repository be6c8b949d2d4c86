# needs: khz
# needs: khz-suite socketcan
# Our SocketCAN link on a real interface: the conformance suite, foreign witnesses, findings, link loss.

KHZ_CAN=vcan0 rust_test socketcan

ip link add dev vcan9 type vcan 2>/dev/null
ip link set vcan9 mtu 16 up
khz bus info socketcan:vcan9 >info 2>&1
check "an interface without FD is explained" contains info "sudo ip link set vcan9 down; sudo ip link set vcan9 mtu 72 up"

before=$(listeners)
candump -n 1 -T 20000 vcan0 >seen &
check "candump listens" wait_for listens_since "$before"
khz bus send --link socketcan:vcan0 1,8001,1300
wait
check "candump sees what we send" contains seen "00008001  [02]  13 00"
