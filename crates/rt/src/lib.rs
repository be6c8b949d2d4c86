//! Linux scheduling, memory locking, clocks, periodic waits, latency histograms and the machine's passport.
