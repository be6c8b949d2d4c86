"""Parameters: declared, read in the tick, changed from outside, and never half."""

import pathlib
import subprocess
import threading
import time

import pytest

import kilohertz
from robots import free_port

FILE = """
[robot]
name = "tuned"
[bus.main]
link = "emulated"
wire = "instant"
[[servo]]
name = "hip"
bus = "main"
id = 1
watchdog_s = 30.0
[log]
enabled = false
compression = "none"
[supervisor]
answer_s = 60
overruns = 100_000
controller_slow = 100_000
stale_ms = 100_000
missed_replies = 100_000
[parameters]
kp = { value = 0.4, min = 0.0, max = 2.0, unit = "N·m/rad", text = "Stiffness" }
steps = { value = 2, kind = "integer", min = 0, max = 9 }
on = true
"""


def with_declarations() -> kilohertz.Robot:
    return kilohertz.Robot.parse(FILE.replace("on = true", "on = { value = true }"))


def test_a_controller_reads_what_it_and_the_file_declare() -> None:
    seen: list[tuple[float, ...]] = []

    @kilohertz.parameters(gain=kilohertz.Parameter(0.5, min=0.0, max=1.0, text="Share of the position gain"))
    def controller(state: kilohertz.State, command: kilohertz.Command) -> None:
        command.kp_scale = state.parameters["gain"]
        seen.append(tuple(state.parameters[name] for name in state.parameters))
        assert list(state.parameters) == state.parameters.keys() == ["gain", "kp", "on", "steps"]
        assert len(state.parameters) == 4 and "kp" in state.parameters and "kq" not in state.parameters
        assert state.teleop.age == float("inf") and state.teleop.forward == 0.0

    with_declarations().run(controller, duration=0.2, virtual_time=True)
    assert set(seen) == {(0.5, 0.4, True, 2)}
    assert [type(value) for value in seen[0]] == [float, float, bool, int]


def test_an_object_declares_by_its_attribute_and_the_file_says_what_it_starts_with() -> None:
    class Swing:
        parameters = {"hz": kilohertz.Parameter(1.0, min=0.0, max=5.0), "legs": kilohertz.Parameter(2, min=1, max=4)}

        def update(self, state: kilohertz.State, command: kilohertz.Command) -> None:
            assert (state.parameters["hz"], state.parameters["legs"]) == (3.0, 2)

    text = FILE.split("[parameters]")[0] + "[parameters]\nhz = 3.0"
    kilohertz.Robot.parse(text).run(Swing(), duration=0.1, virtual_time=True)
    for wrong, why in [("hz = 9.0", "hz: 9 is outside 0 to 5"), ("hs = 1.0", "did you mean `hz`")]:
        with pytest.raises(kilohertz.StartError, match=why):
            kilohertz.Robot.parse(text.replace("hz = 3.0", wrong)).run(Swing(), duration=0.1, virtual_time=True)


def test_the_modules_of_a_chain_have_parameters_of_their_own(tmp_path: pathlib.Path) -> None:
    def declared(value: float) -> kilohertz.Robot:
        return kilohertz.Robot.parse(FILE.split("[parameters]")[0] + f"[parameters]\ngait.hz = {value}")

    def module(expected: float):  # type: ignore[no-untyped-def]
        @kilohertz.parameters(hz=kilohertz.Parameter(1.0, min=0.0, max=5.0))
        def controller(state: kilohertz.State, command: kilohertz.Command) -> None:
            assert state.parameters["hz"] == expected

        return controller

    log = tmp_path / "chain.tlog"
    chain = {"gait": module(2.0), "trim": module(1.0), "slew": kilohertz.Module.slew(2.0)}
    declared(2.0).run(chain, duration=0.1, virtual_time=True, log=log)
    text = log.read_bytes()
    assert all(name in text for name in (b"gait.hz", b"trim.hz", b"slew.limit"))


def test_another_attribute_of_that_name_is_left_alone() -> None:
    class Policy:
        def parameters(self) -> list[int]:
            return []

        def update(self, state: kilohertz.State, command: kilohertz.Command) -> None:
            assert len(state.parameters) == 0

    robot = kilohertz.Robot.emulated(wire="instant")
    robot.run(Policy(), duration=0.1, virtual_time=True)

    def controller(state: kilohertz.State, command: kilohertz.Command) -> None: ...

    controller.parameters = {"hz": kilohertz.Parameter(1.0, min=0.0, max=5.0), "legs": 2}  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="legs"):
        robot.run(controller, duration=0.1, virtual_time=True)


def test_what_is_no_parameter_is_refused() -> None:
    with pytest.raises(ValueError, match="needs `min` and `max`"):
        kilohertz.Parameter(1.0)
    with pytest.raises(ValueError, match="no range"):
        kilohertz.Parameter(True, min=0, max=1)
    assert repr(kilohertz.Parameter(False)) == "<Parameter: False>"


def test_parameters_change_on_a_running_robot() -> None:
    with with_declarations().start(age_limit=60.0) as live:
        assert dict(live.parameters) == {"kp": 0.4, "steps": 2, "on": True}
        live.parameters["kp"] = 0.5
        assert live.parameters["kp"] == 0.5
        live.parameters.update(kp=1.5, on=False, steps=3)
        assert dict(live.parameters) == {"kp": 1.5, "steps": 3, "on": False}
        assert live.state().parameters["kp"] == 1.5
        for values, why in [
            ({"kp": 7.0}, "kp: 7 is outside 0 to 2"),
            ({"kp": float("nan")}, "not a finite number"),
            ({"steps": 2.5}, "steps: 2.5 is not a whole number"),
            ({"on": 1}, "on: it must be true or false"),
            ({"kp": 0.1, "steps": 99}, "steps: 99 is outside"),
        ]:
            with pytest.raises(ValueError, match=why):
                live.parameters.update(values)
        with pytest.raises(KeyError, match="there are: kp, on, steps"):
            live.parameters["kq"] = 1.0
        with pytest.raises(TypeError):
            del live.parameters["kp"]
        assert live.parameters["kp"] == 1.5
        described = live.parameters.describe()[0]
        assert (described["name"], described["unit"], described["text"]) == ("kp", "N·m/rad", "Stiffness")
        # A run without a controlled tick is an error.
        while not (live.state().mode == 10).all():
            time.sleep(0.01)
    with pytest.raises(ValueError, match="down"):
        live.parameters["kp"] = 0.5
    assert live.parameters["kp"] == 1.5


class Found(Exception):
    """What a test waited for."""


def test_a_controller_in_the_loop_is_watched_and_tuned(khz: str, capfd: pytest.CaptureFixture[str]) -> None:
    at = f"127.0.0.1:{free_port()}"

    @kilohertz.parameters(stiffness=kilohertz.Parameter(0.5, min=0.0, max=1.0))
    def controller(state: kilohertz.State, command: kilohertz.Command) -> None:
        command.kp_scale = state.parameters["stiffness"]
        if state.parameters["stiffness"] == 0.25:
            raise Found

    def tune() -> None:
        words = [khz, "param", "set", "stiffness=0.25", "--at", at]
        while subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
            time.sleep(0.01)

    tuning = threading.Thread(target=tune, daemon=True)
    tuning.start()
    with pytest.raises(Found):
        with_declarations().run(controller, duration=60.0, view=at)
    tuning.join(timeout=60)
    assert f"live view: http://{at}/" in capfd.readouterr().err


def test_what_cannot_be_a_view_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = with_declarations()
    with pytest.raises(ValueError, match="an address is an IP address"):
        robot.run(duration=1.0, view="here")
    with pytest.raises(kilohertz.StartError, match="real time"):
        robot.run(duration=1.0, view=True, virtual_time=True)
    monkeypatch.setenv("KHZ", "/nowhere/khz")
    with pytest.raises(kilohertz.StartError, match="/nowhere/khz"):
        robot.run(duration=1.0, view=True)
