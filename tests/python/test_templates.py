"""Robots that come with the package, and what notebooks show of them."""

import pathlib
import subprocess
import sys
import types
from collections.abc import Callable
from typing import Any, get_type_hints

import pytest

import kilohertz

RunKhz = Callable[..., "subprocess.CompletedProcess[str]"]


def test_templates_are_those_of_khz_new(run_khz: RunKhz) -> None:
    listed = run_khz("new", "--template", "xyzzy").stderr.partition("the templates are\n")[2]
    assert sorted(line.split()[0] for line in listed.splitlines() if line.startswith("  ")) == kilohertz.templates()


@pytest.mark.parametrize("name", kilohertz.templates())
def test_each_template_is_the_file_that_khz_new_writes(name: str, run_khz: RunKhz, tmp_path: pathlib.Path) -> None:
    made = run_khz("new", "--template", name, "mine/robot.toml")
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "mine/robot.toml").read_text() == kilohertz.template(name).read_text()
    assert kilohertz.Robot.template(name).servos == kilohertz.Robot(tmp_path / "mine/robot.toml").servos


def test_mujoco_finds_its_model_in_the_package_and_beside_a_new_file(
    run_khz: RunKhz, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_khz("new", "--template", "quadruped_mujoco").returncode == 0
    monkeypatch.chdir(tmp_path)
    poses = []
    for env in (kilohertz.Env.template("quadruped_mujoco", keyframe="stand"), kilohertz.Env("robot.toml", keyframe="stand")):
        poses.append(env.reset(seed=1)[1]["position"])
    assert poses[0] == pytest.approx(poses[1]) and poses[0][2] > 0.2


def test_an_unknown_template_lists_those_there_are() -> None:
    with pytest.raises(ValueError, match="no template 'leg'; the templates are .*leg3"):
        kilohertz.Robot.template("leg")


def test_every_figure_of_a_summary_has_its_type() -> None:
    summary = kilohertz.Robot.emulated().run(lambda state, command: None, duration=0.1, virtual_time=True)
    hints = get_type_hints(kilohertz.Summary)
    kinds = {int: int, float: float, bool: bool, str: str, kilohertz.Distribution: dict}
    for name in {*kilohertz._native.FIGURES, *hints} - {"_run"}:
        value, kind = summary[name], hints[name]
        assert kind not in kinds or type(value) is kinds[kind], f"{name}: {kind}"
        if kind is kilohertz.Distribution:
            assert value.keys() == kilohertz.Distribution.__annotations__.keys(), name
    assert summary["verdict"].keys() == get_type_hints(hints["verdict"]).keys()


def test_a_type_checker_knows_the_figures(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "figures.py"
    lines = ["import kilohertz", "summary = kilohertz.Robot.emulated().run()"]
    lines += ["reveal_type(summary.missed_replies)", 'reveal_type(summary.cycle_ns["p99"])', 'summary.verdict["hedl"]']
    program.write_text("\n".join(lines))
    done = subprocess.run([sys.executable, "-m", "mypy", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.count('int"') == 2, done.stdout
    assert 'has no key "hedl"' in done.stdout


def test_tables_in_notebooks(tmp_path: pathlib.Path) -> None:
    robot = kilohertz.Robot.template("pan_tilt")
    shown = robot._repr_html_()
    assert "<caption>pan_tilt: " in shown and shown.count("<tr>") == 1 + len(robot.servos) and "moteus" in shown
    robot.run(duration=0.2, log=tmp_path / "<b>.tlog", virtual_time=True)
    with kilohertz.open_log(tmp_path / "<b>.tlog") as log:
        page = log._repr_html_()
        assert "&lt;b&gt;.tlog" in page and "<b>" not in page and "<th>servo</th>" in page
        record = log["servo"]._repr_html_()
        assert f"servo: {len(log['servo'].time):,} samples" in record and "<th>pan.position</th><td>rad</td>" in record
    env = kilohertz.Env.template("quadruped_mujoco", keyframe="stand", randomise={"payload": (0, 2)})
    assert "12 actions" in env._repr_html_() and "payload 0 to 2" in env._repr_html_()


class Shown:
    """A notebook's display: every text that it showed."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def display(self, bundle: dict[str, str], raw: bool, display_id: bool) -> "Shown":
        assert raw and display_id and not self.texts
        self.texts.append(bundle["text/plain"])
        return self

    def update(self, bundle: dict[str, str], raw: bool) -> None:
        self.texts.append(bundle["text/plain"])


def notebook(monkeypatch: pytest.MonkeyPatch, display: Callable[..., Any]) -> None:
    shell = types.SimpleNamespace(kernel=object())
    module = types.SimpleNamespace(get_ipython=lambda: shell, display=types.SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython", module)


def test_a_notebook_shows_how_far_a_run_is(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Shown()
    notebook(monkeypatch, shown.display)
    def until_seen(state: kilohertz.State, command: kilohertz.Command) -> None:
        if len(shown.texts) > 1:
            raise StopIteration

    with pytest.raises(StopIteration):
        kilohertz.Robot.emulated().run(until_seen, duration=120.0, record=False)
    assert all(" Hz" in text and " s" in text for text in shown.texts), shown.texts


def test_a_page_that_shows_nothing_more_does_not_end_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[dict[str, str]] = []

    def closed(bundle: dict[str, str], **_: Any) -> None:
        tried.append(bundle)
        raise OSError("the page is closed")

    def until_tried(state: kilohertz.State, command: kilohertz.Command) -> None:
        if tried:
            raise StopIteration

    notebook(monkeypatch, closed)
    with pytest.raises(StopIteration):
        kilohertz.Robot.emulated().run(until_tried, duration=120.0, record=False)
    assert len(tried) == 1
