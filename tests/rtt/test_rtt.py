"""`khz rtt` as a person uses it: real processes, real sockets, and a network in namespaces where root may."""

import json
import os
import pathlib
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

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
    """Stops a service as Ctrl-C does and returns what it says at the end."""
    service.send_signal(signal.SIGINT)
    text, _ = service.communicate(timeout=20)
    assert service.returncode == 0
    return json.loads(text)


def test_every_question_is_accounted_for(start: Callable, run_khz: Run, tmp_path: pathlib.Path) -> None:
    echo, address = start("echo")
    done = run_khz("rtt", "send", address, *SHORT, "--json", "--report", "a.html", "--save", "a.json", "--log", "a.tlog")
    results = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert results["counts"]["sent"] == results["counts"]["answered"] == 40
    assert results["strangers"] == dict.fromkeys(results["strangers"], 0)
    assert end(echo)["answered"] == 40
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


def test_streams_are_recorded_without_gaps(start: Callable, run_khz: Run, tmp_path: pathlib.Path) -> None:
    _, echo = start("echo")
    recorder, address = start("record", "all.tlog")
    for _ in range(2):
        assert run_khz("rtt", "send", echo, *SHORT, "--stream", address).returncode == 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        host, port = address.rsplit(":", 1)
        stranger.sendto(b"khzrec nonsense", (host, int(port)))
    seen = end(recorder)
    assert [(sender["samples"], sender["gaps"]) for sender in seen["recorded"]["senders"]] == [(40, 0), (40, 0)]
    assert seen["recorded"]["foreign"] == 1
    assert seen["logged"] == {"written": 80, "dropped": 0}


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
    ],
)
def test_mistakes_are_explained(run_khz: Run, words: list[str], expected: str) -> None:
    done = run_khz("rtt", *words)
    assert done.returncode == 2
    assert expected in done.stderr


def test_nobody_there_is_a_finding(run_khz: Run) -> None:
    done = run_khz("rtt", "send", "127.0.0.1:1", *SHORT, "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["lost"] == 40


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
        assert counts["answered"] > 0, name
        assert counts["answered"] + results["lost"] + counts["unsent"] == counts["sent"], name
        assert len(results["devices"]) == (5 if name.startswith("all") else 1)
    assert namespaces() == before
    assert "<!doctype html>" in (tmp_path / "lab.html").read_text()
