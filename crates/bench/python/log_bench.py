"""One field of one record of a log: `kilohertz.open_log` against the original Python reader, in processes of their own.

The original reader is that of github.com/mjbots/mjlib: MJLIB names the folder in which `mjlib/telemetry` lies. It needs
`python-snappy`. Without it only our own time and memory are reported.
"""

import os
import subprocess
import sys
import time

LOG, RECORD, FIELD = sys.argv[1], "servo", "position"
ROUNDS = 1 if "--quick" in sys.argv else 3


def rss_kib() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def ours() -> None:
    import kilohertz

    before = rss_kib()
    start = time.perf_counter()
    with kilohertz.open_log(LOG) as log:
        values = log[RECORD][FIELD]
    took = time.perf_counter() - start
    print(took, len(values), float(values[-1]), rss_kib() - before, values.nbytes + 8 * len(values))


def theirs() -> None:
    from mjlib.telemetry.file_reader import FileReader

    start = time.perf_counter()
    values = [getattr(item.data, FIELD) for item in FileReader(LOG).items([RECORD])]
    print(time.perf_counter() - start, len(values), float(values[-1]), 0, 0)


def run(side: str) -> list[float]:
    path = os.pathsep.join(filter(None, [os.environ.get("MJLIB"), os.environ.get("PYTHONPATH")]))
    words = [sys.executable, __file__, LOG, side]
    out = subprocess.run(words, env={**os.environ, "PYTHONPATH": path}, check=True, capture_output=True, text=True)
    return [float(word) for word in out.stdout.split()]


def main() -> None:
    print(f"# a log of {os.path.getsize(LOG) / 1e6:.0f} MB, one field of `{RECORD}`")
    best = {"ours": [], "theirs": []}
    sides = ["ours", "theirs"] if os.environ.get("MJLIB") else ["ours"]
    last = {}
    for _ in range(ROUNDS):
        for side in sides:
            last[side] = run(side)
            best[side].append(last[side][0])
    _, count, _, grown_kib, result_bytes = last["ours"]
    print(f"# ours {min(best['ours']):.2f} s for {count:.0f} values")
    print(f"figure log_python_memory_over_result {grown_kib / 1024 - result_bytes / 2**20:.1f} MiB goal 16")
    if "theirs" not in sides:
        print("# the original reader is not here: MJLIB names the folder in which `mjlib/telemetry` lies")
        return
    assert last["ours"][1:3] == last["theirs"][1:3], "the readers do not agree"
    print(f"# the original reader {min(best['theirs']):.1f} s")
    print(f"ratio log_python_one_field {min(best['ours']) / min(best['theirs']):.4f} goal 0.1")


if sys.argv[-1] in ("ours", "theirs"):
    {"ours": ours, "theirs": theirs}[sys.argv[-1]]()
else:
    main()
