"""The example configuration with TLS and three roles, tried with real certificates: who may do what."""

import json
import os
import pathlib
import re
import socket
import subprocess
import time

import pytest
import zenoh
from conftest import PATIENCE, ROOT, Samples, Tokens, World, in_time, wait_for
from robots import free_port

EXAMPLES = ROOT / "fleet/examples"


def make(folder: pathlib.Path, port: int, *robots: str) -> None:
    """A site as in docs/fleet.md, with a router on this computer."""
    folder.mkdir()
    for file in EXAMPLES.glob("*.json5"):
        text = file.read_text()
        text = text.replace("tls/[::]:7447", f"tls/127.0.0.1:{port}").replace("router.example:7447", f"127.0.0.1:{port}")
        (folder / file.name).write_text(text)
    for words in (["127.0.0.1"], ["--robot", *robots]):
        subprocess.run([str(EXAMPLES / "certificates.sh"), *words], cwd=folder, check=True, capture_output=True)


def session_of(world: World, folder: pathlib.Path, who: str) -> zenoh.Session:
    text = re.sub(r"//.*", "", (folder / f"{who}.json5").read_text())
    text = re.sub(r'"(\w+\.(?:pem|key))"', lambda found: json.dumps(str(folder / found[1])), text)
    session = zenoh.open(zenoh.Config.from_json5(text.replace("{", "{ mode: 'client',", 1)))
    world.sessions.append(session)
    return session


def test_three_roles(world: World) -> None:
    folder = world.folder / "site"
    port = free_port()
    make(folder, port, "leg", "arm")

    def run(who: str, *words: str) -> "subprocess.CompletedProcess[str]":
        command = [world.fleet, "--zenoh", f"{who}.json5", *words]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)

    world.start(world.fleet, "--zenoh", "router.json5", "router", name="router", cwd=folder)
    wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0, "the router listens")
    robot = world.robot("leg")
    robot.bridge.kill()
    robot.bridge.wait()
    world.start(
        world.fleet, "--zenoh", "leg.json5", "bridge", "--name", "leg",
        "--listen", f"127.0.0.1:{robot.stream}", "--view", f"127.0.0.1:{robot.view}", "--logs", str(robot.logs),
        name="bridge", cwd=folder,
    )  # fmt: skip

    for who in ("viewer", "operator"):
        wait_for(lambda who=who: re.search(r"leg +up +active", run(who, "ls").stdout), f"the {who} sees the robot")  # type: ignore[misc]
    done = in_time(lambda: run("viewer", "stop", "leg", "--timeout", "1"), lambda done: done.stdout)
    assert done.returncode == 1 and "leg: NOT STOPPED: no reply to Stop" in done.stdout and "may you stop" in done.stdout
    for words, code in ((["logs", "leg"], 2), (["param", "leg", "kp_scale", "0.5"], 1)):
        # A bridge that is busy may be off the network for a moment, and then that is what is said.
        wait_for(
            lambda words=words, code=code: (done := run("viewer", *words)).returncode == code and "may you ask for this" in done.stderr,  # type: ignore[misc]
            f"{words} is refused",
        )
    time.sleep(0.5)
    assert robot.process.poll() is None

    def change(value: str) -> str:
        done = in_time(lambda: run("operator", "param", "leg", "kp_scale", value), lambda done: done.stderr)
        return done.stdout + done.stderr

    assert "taken by tick" in change("0.5")
    # On a busy computer an answer may take longer than the command waits.
    read = wait_for(lambda: run("operator", "param", "leg", "kp_scale").stdout, "the value is read")
    assert float(read) == 0.5
    wait_for(lambda: "run.tlog" in run("operator", "logs", "leg").stdout, "the logs are listed")

    # No one else can pretend to be a robot, neither a viewer or an operator nor another robot: no tokens, no answers, no samples.
    viewer, asker = session_of(world, folder, "viewer"), session_of(world, folder, "operator")
    known = Tokens(viewer, "khz/*/@up", "khz/*/@bridge/*", "khz/@ros/**", "@ros2_lv/**")
    samples, topics = Samples(viewer, "khz/leg/*"), Samples(viewer, "0/leg/**")
    own = Samples(viewer, "khz/arm/*")
    wait_for(lambda: {"khz/leg/@up"} <= known.now and any("joint_states" in token for token in known.now), "the robot's tokens")
    samples.wait(20, "the robot's samples")
    honest = known.now
    for who in ("viewer", "operator", "arm"):
        session = session_of(world, folder, who)
        keys = [
            "khz/leg/@bridge/0", "khz/ghost/@up", "khz/ghost/@bridge/1", "khz/@ros/0/leg/0", "@ros2_lv/0/7/0/0/NN/%/%leg/khz", "khz/*/@bridge/0",
        ]  # fmt: skip
        tokens = [session.liveliness().declare_token(key) for key in keys]
        answered = []
        for key in ("khz/*/stop", "khz/leg/stop", "khz/leg/summary", "khz/**"):
            session.declare_queryable(key, lambda query: answered.append(str(query.selector)))
        for key in ("khz/leg/fake", "khz/*/fake", "khz/**", "khz/leg/operator", "khz/*/operator", "0/leg/fake", "0/**", "*/leg/fake"):
            if who != "operator" or not key.endswith("operator"):
                session.put(key, b"fake")
        session.put("khz/arm/fake", b"own")
        time.sleep(1.5)
        assert "ghost" not in run("operator", "ls").stdout
        # On a busy computer an answer may take longer than the command waits.
        wait_for(lambda: re.search(r"leg +up +active", run("operator", "ls").stdout), "the bridge keeps its name")
        # One that is busy is not up for a moment.
        wait_for(lambda: known.now == honest, f"nobody else's tokens, {who}'s neither")
        for token in tokens:
            token.undeclare()
        # Questions that the robot refuses: it has no such run. No other robot answers, or knows that it was asked.
        for key in ("khz/leg/stop?run=1", "khz/leg/summary"):
            # A bridge that is busy may be off the network for a moment, and there is no reply: that is true.
            replies = wait_for(lambda key=key: list(asker.get(key, timeout=PATIENCE)), f"an answer to {key}")  # type: ignore[misc]
            assert len(replies) == 1 and (replies[0].ok or b"another one" in bytes(replies[0].err.payload)), who
        assert not answered, who
        assert not [str(one.key_expr) for received in (samples, topics) for one in received.all() if bytes(one.payload) == b"fake"], who
    # What a robot reports of itself passes; without that all of this would prove little.
    assert [bytes(one.payload) for one in own.all()] == [b"own"], "of arm alone"
    # A robot stops no other one.
    for words in (["stop", "leg", "--timeout", "1"], ["stop", "arm", "--timeout", "1"]):
        assert "NOT STOPPED" in run("arm", *words).stdout
    assert robot.process.poll() is None
    # A second bridge with another robot's certificate has no way to the network as that robot.
    pretender = world.robot("leg")
    pretender.bridge.kill()
    pretender.bridge.wait()
    world.start(
        world.fleet, "--zenoh", "arm.json5", "bridge", "--name", "leg",
        "--listen", f"127.0.0.1:{pretender.stream}", "--view", f"127.0.0.1:{pretender.view}", name="pretender", cwd=folder,
    )  # fmt: skip
    time.sleep(3)
    wait_for(lambda: known.now == honest, "the robot's own tokens")
    assert "taken by tick" in change("0.75")
    assert pretender.process.poll() is None

    # Without a certificate, or with one of another authority, there is no link.
    other = world.folder / "other"
    make(other, port, "leg")
    for name in ("operator.pem", "operator.key"):
        (folder / f"other-{name}").write_bytes((other / name).read_bytes())
    (folder / "outsider.json5").write_text((folder / "operator.json5").read_text().replace('"operator.', '"other-operator.'))
    done = run("outsider", "stop", "leg", "--timeout", "1")
    assert done.returncode != 0 and "taken by" not in done.stdout
    assert robot.process.poll() is None

    done = run("operator", "stop", "leg", "--timeout", "100")
    # One that was taken, and answered too late, was asked for again.
    assert done.returncode == 0 and re.search("leg: (stop taken by tick|at rest)", done.stdout), done.stdout
    robot.process.wait(PATIENCE)


def test_certificates_of_robots(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "site"
    make(folder, 7447, "quad-1", "2legs")
    rules = (folder / "router.json5").read_text()
    assert '"khz/quad-1/**"' in rules and '"0/quad_1/**"' in rules and '"0/robot_2legs/**"' in rules
    assert '"quad-1.pem"' in (folder / "quad-1.json5").read_text()

    def refused(*words: str, **env: str) -> str:
        command = [str(EXAMPLES / "certificates.sh"), "--robot", *words]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ | env)
        assert done.returncode == 1
        return done.stderr

    assert "another role" in refused("operator")
    assert "no name of a robot" in refused("a/b")
    assert "for another robot" in refused("quad_1")
    assert "more than 64" in refused("a" * 65)
    assert "another ROS_DOMAIN_ID" in refused("quad-1", ROS_DOMAIN_ID="7")
    assert "no number" in refused("quad-2", ROS_DOMAIN_ID="0/**")
    assert (folder / "router.json5").read_text() == rules
    # A new certificate for a robot that is known changes no rule.
    before = (folder / "2legs.pem").read_text()
    subprocess.run([str(EXAMPLES / "certificates.sh"), "--robot", "2legs"], cwd=folder, check=True, capture_output=True)
    assert (folder / "2legs.pem").read_text() != before and (folder / "router.json5").read_text() == rules


@pytest.mark.parametrize("name", ["router", "robot", "operator", "viewer"])
def test_examples_say_how_they_are_used(name: str) -> None:
    text = pathlib.Path(EXAMPLES / f"{name}.json5").read_text()
    assert f"--zenoh {name}.json5" in text.splitlines()[0]
