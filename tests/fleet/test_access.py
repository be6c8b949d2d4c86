"""The example configuration with TLS and three roles, tried with real certificates: who may do what."""

import json
import pathlib
import re
import socket
import subprocess
import time

import pytest
import zenoh
from conftest import ROOT, World, free_port, wait_for

EXAMPLES = ROOT / "fleet/examples"


def test_three_roles(world: World) -> None:
    folder = world.folder / "site"
    folder.mkdir()
    subprocess.run([str(EXAMPLES / "certificates.sh"), "127.0.0.1"], cwd=folder, check=True, capture_output=True)
    port = free_port()
    for file in EXAMPLES.glob("*.json5"):
        text = file.read_text()
        text = text.replace("tls/[::]:7447", f"tls/127.0.0.1:{port}").replace("router.example:7447", f"127.0.0.1:{port}")
        text = re.sub(r'"(\w+\.(?:pem|key))"', lambda found: json.dumps(str(folder / found[1])), text)
        (folder / file.name).write_text(text)

    def run(who: str, *words: str) -> "subprocess.CompletedProcess[str]":
        command = [world.fleet, "--zenoh", str(folder / f"{who}.json5"), *words]
        return subprocess.run(command, cwd=world.folder, capture_output=True, text=True, timeout=60)

    world.start(world.fleet, "--zenoh", str(folder / "router.json5"), "router", name="router")
    wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, "the router listens")
    robot = world.robot("leg")
    robot.bridge.kill()
    robot.bridge.wait()
    world.start(
        world.fleet, "--zenoh", str(folder / "robot.json5"), "bridge", "--name", "leg",
        "--listen", f"127.0.0.1:{robot.stream}", "--view", f"127.0.0.1:{robot.view}", "--logs", str(robot.logs),
        name="bridge",
    )  # fmt: skip

    for who in ("viewer", "operator"):
        wait_for(lambda who=who: re.search(r"leg +up +active", run(who, "ls").stdout), f"the {who} sees the robot")  # type: ignore[misc]
    done = run("viewer", "stop", "leg", "--timeout", "1")
    assert done.returncode == 1 and "leg: NOT STOPPED: no reply to Stop" in done.stdout and "may you stop" in done.stdout
    done = run("viewer", "logs", "leg")
    assert done.returncode == 2 and "may you ask for this" in done.stderr
    time.sleep(0.5)
    assert robot.process.poll() is None
    assert "run.tlog" in run("operator", "logs", "leg").stdout

    # A viewer and an operator cannot pretend to be a robot: no tokens, no answers.
    for who in ("viewer", "operator"):
        text = re.sub(r"//.*", "", (folder / f"{who}.json5").read_text())
        session = zenoh.open(zenoh.Config.from_json5(text.replace("{", "{ mode: 'client',", 1)))
        world.sessions.append(session)
        tokens = [session.liveliness().declare_token(f"khz/{key}") for key in ("leg/@bridge/0", "ghost/@up", "ghost/@bridge/1")]
        session.declare_queryable("khz/*/stop", lambda query: query.reply("khz/leg/stop", '{"done":true,"tick":7}'))
        time.sleep(1.5)
        assert "ghost" not in run("operator", "ls").stdout
        assert re.search(r"leg +up +active", run("operator", "ls").stdout), "the bridge keeps its name"
        for token in tokens:
            token.undeclare()
    # A robot stops no other one.
    assert "NOT STOPPED" in run("robot", "stop", "leg", "--timeout", "1").stdout
    assert robot.process.poll() is None

    # Without a certificate, or with one of another authority, there is no link.
    other = world.folder / "other"
    other.mkdir()
    subprocess.run([str(EXAMPLES / "certificates.sh"), "127.0.0.1"], cwd=other, check=True, capture_output=True)
    outsider = (folder / "operator.json5").read_text()
    for name in ("operator.pem", "operator.key"):
        outsider = outsider.replace(str(folder / name), str(other / name))
    (folder / "outsider.json5").write_text(outsider)
    done = run("outsider", "stop", "leg", "--timeout", "1")
    assert done.returncode != 0 and "taken by" not in done.stdout
    assert robot.process.poll() is None

    done = run("operator", "stop", "leg")
    assert done.returncode == 0 and "leg: stop taken by tick" in done.stdout
    robot.process.wait(30)


@pytest.mark.parametrize("name", ["router", "robot", "operator", "viewer"])
def test_examples_say_how_they_are_used(name: str) -> None:
    text = pathlib.Path(EXAMPLES / f"{name}.json5").read_text()
    assert f"--zenoh {name}.json5" in text.splitlines()[0]
