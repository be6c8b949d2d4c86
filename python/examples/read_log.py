"""Reading a log: what is in it, one joint over time, a slice as a data frame.

python read_log.py LOG.tlog
"""

import sys

import numpy as np

import kilohertz


def main() -> None:
    with kilohertz.open_log(sys.argv[1]) as log:
        for name in log.keys():
            print(f"{name}: {len(log[name].time_us)} samples of {len(log[name].fields)} fields")
        ticks, servos = log["tick"], log["servo"]
        print(f"{1 / np.median(np.diff(ticks['planned_ns'] * 1e-9)):.1f} Hz")
        late = ticks["wake_latency_ns"]
        print(f"wake latency p50 {np.median(late) / 1000:.1f} µs, worst {late.max() / 1000:.1f} µs")
        # Two fields in one pass over the file.
        joint = servos.fields[0].split(".")[0]
        arrays = servos.arrays(f"{joint}.position", f"{joint}.torque")
        print(f"{joint} moved by {np.ptp(arrays[f'{joint}.position']):.3f} rad")
        second = servos[1.0:2.0]
        print(f"between 1 s and 2 s: {len(second.time)} samples")


if __name__ == "__main__":
    main()
