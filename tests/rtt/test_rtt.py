"""`khz rtt` as a person uses it: real processes, real sockets, and a network in namespaces where root may."""

import json
import os
import pathlib
import signal
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator

import pytest


Run = Callable[..., "subprocess.CompletedProcess[str]"]

UNPACED = ["--rate", "0", "--ticks", "40", "--priority", "0"]
SHORT = ["--rate", "200", "--ticks", "40", "--priority", "0", "--wake", "sleep"]


@pytest.fixture
def start(khz: str, tmp_path: pathlib.Path) -> Iterator[Callable[..., tuple["subprocess.Popen[str]", str]]]:
    """Starts a `khz rtt` service and returns it with the address it prints."""
    started: list["subprocess.Popen[str]"] = []

    def begin(*words: str) -> tuple["subprocess.Popen[str]", str]:
        service = subprocess.Popen(
            [khz, "rtt", *words, "--port", "0", "--json"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )
        started.append(service)
        assert service.stdout is not None
        return service, service.stdout.readline().strip()

    yield begin
    for service in started:
        service.kill()
        service.wait()


def end(service: "subprocess.Popen[str]") -> dict:
    """Stops a service as Ctrl-C does and returns what it prints at the end."""
    service.send_signal(signal.SIGINT)
    text, _ = service.communicate(timeout=60)
    assert service.returncode == 0
    return json.loads(text)


def measured(run_khz: Run, *words: str) -> dict:
    """Results of a measurement against an echo. All that its ticks asked is answered, unless the echo stood still at the end."""
    done = run_khz("rtt", "send", *words, "--json")
    results = json.loads(done.stdout)
    counts, missed, lost = results["counts"], results["missed_ticks"], results["lost"]
    assert counts["sent"] == counts["answered"] + lost == results["ticks"] == 40 - missed, results
    assert done.returncode == (1 if missed or lost else 0), done.stderr
    return results


def test_every_question_is_accounted_for(start: Callable, run_khz: Run, tmp_path: pathlib.Path) -> None:
    echo, address = start("echo")
    results = measured(run_khz, address, *SHORT, "--report", "a.html", "--save", "a.json", "--log", "a.tlog")
    missed = results["missed_ticks"]
    assert results["planned_ticks"] == 40 and results["duration_ns"] >= 40 * 5_000_000
    assert results["unexpected"] == dict.fromkeys(results["unexpected"], 0)
    assert end(echo)["answered"] == 40 - missed
    assert "<!doctype html>" in (tmp_path / "a.html").read_text()
    assert json.loads((tmp_path / "a.json").read_text())["format"] == "khz-rtt-1"
    log = (tmp_path / "a.tlog").read_bytes()
    assert log.startswith(b"TLOG0003") and b"round_trip" in log


def test_the_echo_answers_requests_and_nothing_else(start: Callable) -> None:
    echo, address = start("echo")
    host, port = address.rsplit(":", 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.settimeout(0.3)
        stranger.connect((host, int(port)))
        for datagram in [b"", b"hello", b"khzrtt", b"khzrtt\x01\x01" + bytes(60), os.urandom(200)]:
            stranger.send(datagram)
        with pytest.raises(TimeoutError):
            stranger.recv(2000)
    seen = end(echo)
    assert (seen["answered"], seen["foreign"], seen["damaged"]) == (0, 4, 1)


def test_streams_are_recorded_without_gaps(start: Callable, run_khz: Run, khz: str, tmp_path: pathlib.Path) -> None:
    _, echo = start("echo")
    words = ["log", "record", "--listen", "127.0.0.1:0", "--keep-free", "0", "--json", "--strict", "-o", "all.tlog"]
    recorder = subprocess.Popen([khz, *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = recorder.stderr.readline().split()[-1]
        answered = sum(measured(run_khz, echo, *UNPACED, "--stream", address)["counts"]["answered"] for _ in range(2))
        recorder.send_signal(signal.SIGINT)
        text, _ = recorder.communicate(timeout=60)
    finally:
        recorder.kill()
    seen = json.loads(text)
    assert recorder.returncode == 0 and (seen["senders"], seen["lost"]) == (2, 0), seen
    exported = run_khz("log", "export", "all.tlog", "--format", "csv", "--output", "csv")
    assert exported.returncode == 0, exported.stderr
    rows = [path.read_text().splitlines()[1:] for path in (tmp_path / "csv").iterdir() if "round_trip" in path.name]
    assert sum(map(len, rows)) == answered > 40


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["send", "no-such-host.invalid"], "no such host"),
        (["send", "127.0.0.1", "--payload", "47"], "48 to 65507"),
        (["send", "127.0.0.1", "--rate", "-1"], "0.001 to 100000"),
        (["send", "127.255.255.255", "--ticks", "1"], "--ask broadcast"),
        (["send", "127.0.0.1", "--priority", "99"], "1 to 98"),
        (["send", "127.0.0.1", "--ask", "nicely"], "together, singly or broadcast"),
        (["echo", "--bind", "192.0.2.1"], "cannot listen on 192.0.2.1"),
        (["lab", "--devices", "0"], "1 to 250"),
        (["lab", "--jitter-us", "5"], "more than the delay of 0 µs"),
        (["lab", "--loss-percent", "101"], "use 0 to 100"),
    ],
)
def test_mistakes_are_explained(run_khz: Run, words: list[str], expected: str) -> None:
    done = run_khz("rtt", *words)
    assert done.returncode == 2
    assert expected in done.stderr


def sealed(header: bytes) -> bytes:
    """A header with its checksum renewed, as in crates/rtt/src/packet.rs."""
    bare = header[:8] + bytes(8) + header[16:48]
    return bare[:8] + struct.pack("<I", zlib.crc32(bare)) + bare[12:] + header[48:]


def test_forgeries_are_named_and_never_taken_for_answers(run_khz: Run) -> None:
    """A device that answers each request also with what is no answer to it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        device.bind(("127.0.0.1", 0))

        def answer() -> None:
            while (request := device.recvfrom(2000))[0] != b"end":
                header, sender = request
                kind, run, sequence = header[:7] + b"\x02", *struct.unpack("<QQ", header[16:32])
                reply = lambda run, sequence: sealed(kind + bytes(8) + struct.pack("<QQ", run, sequence) + header[32:])  # noqa: E731
                for datagram in [
                    b"foreign",
                    reply(run, sequence)[:47] + b"\x01" + header[48:],
                    reply(run ^ 1, sequence),
                    reply(run, sequence + 2000),
                    header,
                    reply(run, sequence),
                    reply(run, sequence),
                ]:
                    device.sendto(datagram, sender)

        server = threading.Thread(target=answer)
        server.start()
        address = "127.0.0.1:%d" % device.getsockname()[1]
        done = run_khz("rtt", "send", address, *UNPACED, "--json")
        device.sendto(b"end", device.getsockname())
        server.join()
    results = json.loads(done.stdout)
    counts = results["counts"]
    # Those of the last ticks are lost if the device stands still then; of a lost question something else may have come.
    answered = counts["answered"]
    assert counts["sent"] == answered + results["lost"] == 40 and answered > 20, results
    unexpected = results["unexpected"]
    # The last tick may end before the last of its duplicates has come.
    for name in ["other_runs", "never_asked"]:
        assert answered - 1 <= unexpected[name] <= 40, unexpected
    assert answered - 1 <= counts["echoed"] <= 40 and unexpected["requests"] == 0, results
    assert 2 * answered - 2 <= counts["corrupt"] <= 80, "unreadable replies are the device's, not an unknown sender's"
    assert unexpected["other_protocol"] == unexpected["damaged"] == unexpected["unknown_devices"] == 0
    assert counts["duplicates"] >= answered - 1


def test_a_port_in_use_is_named(start: Callable, run_khz: Run) -> None:
    _, address = start("echo")
    port = address.rsplit(":", 1)[1]
    done = run_khz("rtt", "echo", "--port", port)
    assert done.returncode == 2
    assert f"cannot listen on {address}" in done.stderr and "in use" in done.stderr


def test_an_interrupted_run_goes_on(start: Callable, run_khz: Run, khz: str, tmp_path: pathlib.Path) -> None:
    """Killed without a chance to clean up, a run goes on from its last checkpoint."""
    _, address = start("echo")
    words = ["rtt", "send", address, "--rate", "500", "--priority", "0", "--wake", "sleep", "--save", "a.json"]
    killed = subprocess.Popen(
        [khz, *words, "--ticks", "100000", "--checkpoint", "1"], cwd=tmp_path, stdout=subprocess.DEVNULL
    )
    saved = tmp_path / "a.json"
    try:
        for _ in range(600):
            if saved.exists():
                break
            with pytest.raises(subprocess.TimeoutExpired):
                killed.wait(0.1)
    finally:
        killed.kill()
        killed.wait()
    before = json.loads(saved.read_text())["planned"]["periods"]
    assert before > 0
    done = run_khz(*words, "--ticks", str(before + 40), "--resume", "--json")
    assert done.returncode in (0, 1), done.stderr
    results = json.loads(done.stdout)
    assert results["planned_ticks"] == json.loads(saved.read_text())["planned"]["periods"] == before + 40
    other = run_khz(*words, "--payload", "100", "--resume")
    assert other.returncode == 2 and "payload was 200 and is now 100" in other.stderr


def test_theory_stands_beside_the_measurement(start: Callable, run_khz: Run) -> None:
    _, address = start("echo")
    network = ["--link-mbit", "1000", "--device-mbit", "100", "--switches", "2", "--switch-delay-us", "2.9"]
    done = run_khz("rtt", "send", address, *SHORT, *network, "--stamps", "--json")
    results = json.loads(done.stdout)
    theory, shares = results["theory"], results["shares"]
    assert (theory["wire_bytes"], theory["passes"]) == (266, 6)
    # A pass at the sender's speed and two at the device's each way, and two switches' own delay.
    assert theory["round_trip_ns"] == 2 * (2_032 + 2 * 20_320 + 2 * 2_900)
    assert shares["rest_ns"] == shares["measured_ns"] - shares["wire_ns"] - shares["held_ns"]
    assert len(results["stack_p50_ns"]) == 3
    text = run_khz("rtt", "send", address, *SHORT, *network).stdout
    assert "computed: 6 passes" in text and "the rest: host and device" in text


def test_ways_of_receiving_are_compared(start: Callable, run_khz: Run, tmp_path: pathlib.Path) -> None:
    _, address = start("echo")
    done = run_khz("rtt", "send", address, *SHORT, "--compare-receive", "--report", "ways.html", "--json")
    ways = json.loads(done.stdout)
    assert sorted(ways) == sorted(["block", "hybrid", "spin", "block, SO_BUSY_POLL 50 µs"])
    assert all(way["planned_ticks"] == 40 for way in ways.values())
    assert all(way["counts"]["sent"] + way["missed_ticks"] == 40 for way in ways.values())
    assert "Side by side" in (tmp_path / "ways.html").read_text()


def test_what_is_logged_is_exported_like_any_other_log(start: Callable, run_khz: Run, tmp_path: pathlib.Path) -> None:
    _, address = start("echo")
    answered = measured(run_khz, address, *UNPACED, "--log", "a.tlog")["counts"]["answered"]
    done = run_khz("log", "export", "a.tlog", "--format", "csv", "--output", "csv")
    assert done.returncode == 0, done.stderr
    rows = (tmp_path / "csv" / "round_trip.csv").read_text().splitlines()
    assert len(rows) == 1 + answered > 1 and "round_trip_ns" in rows[0]
    assert len((tmp_path / "csv" / "tick.csv").read_text().splitlines()) == 41
    assert "round_trip" in run_khz("log", "info", "a.tlog").stdout


def test_a_missing_device_is_a_finding(run_khz: Run) -> None:
    done = run_khz("rtt", "send", "127.0.0.1:1", *SHORT, "--json")
    assert done.returncode == 1
    results = json.loads(done.stdout)
    asked = 40 - results["missed_ticks"]
    assert results["lost"] == results["counts"]["refused"] == asked
    assert any("no program listens on 127.0.0.1:1 " in note for note in results["notes"])
    text = run_khz("rtt", "send", "127.0.0.1:1", "127.0.0.1:2", *SHORT).stdout
    assert "refused (ICMP port unreachable)" in text and "no answer" in text


def test_stalls_of_the_sender_are_not_hidden(start: Callable, khz: str, tmp_path: pathlib.Path) -> None:
    """Frozen five times, the sender reports how often it did not ask, and its percentiles over planned periods include it."""
    _, address = start("echo")
    words = ["rtt", "send", address, "--rate", "1000", "--ticks", "3000", "--priority", "0", "--wake", "sleep", "--json"]
    sender = subprocess.Popen([khz, *words, "--log", "a.tlog"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    frozen_s, log = 0.0, tmp_path / "a.tlog"
    # Its log has samples once it measures.
    while sender.poll() is None and not (log.exists() and log.stat().st_size > 4000):
        time.sleep(0.01)
    # It measures for 3 s. Where this test stands still itself a freeze lasts longer, and later ones are left out.
    enough = time.monotonic() + 2.0
    while frozen_s < 1.0 and time.monotonic() < enough:
        sender.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        time.sleep(0.2)
        frozen_s += min(time.monotonic(), enough + 0.9) - began
        sender.send_signal(signal.SIGCONT)
        time.sleep(0.05)
    text, _ = sender.communicate(timeout=60)
    results = json.loads(text)
    assert sender.returncode == 1
    assert results["planned_ticks"] == 3000 == results["ticks"] + results["missed_ticks"]
    assert results["missed_ticks"] >= 1000 * frozen_s - 10
    assert results["duration_ns"] >= 3_000_000_000
    assert abs(results["achieved_rate_hz"] - 1e9 * results["ticks"] / results["duration_ns"]) < 1e-6
    # A third of the run was frozen, so the question at p90 waited half a freeze or more.
    assert frozen_s < 1.0 or results["round_trip_planned_ns"]["p90"] >= 100_000_000
    assert results["late_tick_planned_ns"]["max"] >= 190_000_000


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces take root")
def test_the_lab_makes_its_network_and_removes_it(run_khz: Run, tmp_path: pathlib.Path) -> None:
    namespaces = lambda: {path.name for path in pathlib.Path("/run/netns").glob("khzlab-*")}  # noqa: E731
    before = namespaces()
    done = run_khz("rtt", "lab", "--devices", "5", "--duration", "0.3", "--report", "lab.html", "--json")
    assert done.returncode in (0, 1), done.stderr
    experiments = json.loads(done.stdout)["experiments"]
    assert len(experiments) == 7
    for name, results in experiments.items():
        counts = results["counts"]
        # A machine that stands still for 0.3 s misses all ticks of one of them.
        assert counts["answered"] > 0 or results["missed_ticks"] > results["ticks"], name
        assert counts["answered"] + results["lost"] + counts["unsent"] == counts["sent"], name
        assert len(results["devices"]) == (5 if name.startswith("all") else 1)
    assert namespaces() == before
    assert "<!doctype html>" in (tmp_path / "lab.html").read_text()


def lab_of_one_device(run_khz: Run, *words: str) -> "subprocess.CompletedProcess[str]":
    return run_khz("rtt", "lab", "--devices", "1", "--duration", "0.3", "--only", "one device", "--json", *words)


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces take root")
def test_ports_are_limited(run_khz: Run) -> None:
    """At 1 Mbit/s the second of two datagrams a millisecond has to wait: 200 bytes take 1.9 ms, each way."""
    done = lab_of_one_device(run_khz, "--limit-mbit", "1")
    lab = json.loads(done.stdout)
    assert lab["ports"].startswith("1 Mbit/s")
    assert lab["experiments"]["one device"]["round_trip_ns"]["max"] > 1_000_000


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces take root")
def test_ports_delay_and_lose_where_the_kernel_can(run_khz: Run) -> None:
    done = lab_of_one_device(run_khz, "--delay-us", "2000", "--jitter-us", "100", "--loss-percent", "20")
    if done.returncode == 2:
        assert "`netem`" in done.stderr and "modprobe sch_netem" in done.stderr, done.stderr
        return
    for results in json.loads(done.stdout)["experiments"].values():
        assert results["round_trip_ns"]["p50"] > 3_000_000
        assert results["lost"] > 0


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces take root")
def test_a_datagram_larger_than_the_mtu_is_named(run_khz: Run) -> None:
    """The kernel splits it up, and the results must show it."""
    done = run_khz("rtt", "lab", "--devices", "2", "--duration", "0.1", "--payload", "3000", "--only", "100 Hz", "--json")
    for name, results in json.loads(done.stdout)["experiments"].items():
        assert any("3000 bytes does not fit the MTU of 1500" in note for note in results["notes"]), name


@pytest.mark.skipif(os.geteuid() != 0, reason="to become somebody without rights takes root")
def test_without_rights_the_lab_says_what_it_takes(khz: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        program = shutil.copy(khz, folder)
        os.chmod(program, 0o755)
        done = subprocess.run(
            [program, "rtt", "lab", "--devices", "1"], cwd="/", user=65534, group=65534, extra_groups=[],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    assert done.returncode == 2
    assert "run it as root" in done.stderr, done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces take root")
def test_a_robot_whose_servos_answer_over_udp_runs(run_khz: Run, tmp_path: pathlib.Path) -> None:
    """One broadcast with all commands, four answers from four namespaces, the IMU in one of them."""
    file = pathlib.Path(__file__).parents[2] / "robots" / "ethernet.toml"
    # Slowly, so that a busy machine can keep up: it is the way of the frames that is tested, not the speed.
    text = file.read_text()
    for fast, slow in [
        ("rate_hz = 1000", "rate_hz = 10"),
        ("bus_deadline_us = 800", "bus_deadline_us = 90000"),
        (
            "missed_replies = 10",
            "missed_replies = 1000\nimu_silent_ms = 100000\nstale_ms = 100000\nanswer_s = 60\noverruns = 100000\n"
            # A loop that stands still for a second brings down what is not emulated in its own process.
            "controller_slow = 100000\nreactions = { overruns = \"warn\" }",
        ),
        ("[servo_defaults]", "[servo_defaults]\nwatchdog_s = 30.0"),
    ]:
        assert fast in text
        text = text.replace(fast, slow)
    (tmp_path / "slow.toml").write_text(text)
    done = run_khz("rtt", "lab", "--robot", "slow.toml", "--per-board", "3", "--duration", "3", "--report", "run.html", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    run = json.loads(done.stdout)
    assert run["imu_missed"] < run["ticks"], "the reading came with a reply"
    assert len(run["servos"]) == 12 and all(servo["replied"] > 0 for servo in run["servos"])
    refused = run_khz("rtt", "lab", "--robot", str(file.with_name("arm.toml")))
    assert refused.returncode == 2 and "10.77.255.255:PORT" in refused.stderr
