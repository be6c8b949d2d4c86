# needs: khz
# Our own binary runs on this kernel, linked without any library of the guest's.

check "khz tells its version" khz --version
