"""A program on an open network that answers for a robot, and robots whose bridges are gone: both must be seen."""

import json
import re
from typing import Any

import pytest
import zenoh
from conftest import Samples, Robot, World, wait_for

pytestmark = pytest.mark.timeout(600)


def one_robot(world: World) -> tuple[zenoh.Session, Robot, dict[str, Any]]:
    """A router and a robot under control, and its bridge's newest status."""
    world.router()
    judge = world.judge()
    robot = world.robot("leg")
    statuses = Samples(judge, robot.key("@status"))

    def active() -> dict[str, Any] | None:
        newest = statuses.all()[-1:]
        status: dict[str, Any] = json.loads(bytes(newest[0].payload)) if newest else {}
        return status if status.get("health", {}).get("phase") == "active" else None

    status = wait_for(active, "it is under control")
    assert status["bridge"], "a status says which bridge it is of"
    return judge, robot, status


def forge(session: zenoh.Session, robot: Robot, status: dict[str, Any]) -> zenoh.Queryable[Any]:
    """Answers everything that is asked of the robot, and claims that it knows everything."""

    def answer(query: zenoh.Query) -> None:
        key = str(query.key_expr).replace("*", robot.name)
        if "/stop" in key:
            query.reply(key, json.dumps({"done": True, "tick": 12345, "robot_ms": 0.1}))
        elif "/summary" in key:
            query.reply(key, json.dumps(status))

    return session.declare_queryable(robot.key("**"), answer, complete=True)


@pytest.mark.parametrize("who", ["the same bridge", "another bridge", "another run"])
def test_a_forged_answer_to_stop_is_an_alarm_and_the_robot_stops(world: World, who: str) -> None:
    judge, robot, status = one_robot(world)
    forged = json.loads(json.dumps(status))
    forged["health"]["phase"] = "stopped"
    if who != "the same bridge":
        forged["bridge"] = "f" * 32
    if who == "another run":
        forged["run"] = status["run"] + 1
    forging = forge(judge, robot, forged)
    stopped = world.run("stop", "leg", code=1)
    assert "ALARM" in stopped.stdout and "emergency stop" in stopped.stdout
    wait_for(lambda: robot.process.poll() is not None, "the robot was stopped all the same")
    forging.undeclare()


def test_several_that_answer_for_a_robot_are_an_alarm(world: World) -> None:
    judge, robot, status = one_robot(world)
    world.ls(" up ", code=0)
    forging = forge(judge, robot, status | {"bridge": "f" * 32})
    world.ls("ALARM: 2 bridges answer", code=1)
    forging.undeclare()
    assert robot.process.poll() is None


def test_a_robot_whose_bridge_died_is_named(world: World) -> None:
    _, robot, _ = one_robot(world)
    world.ls(" up ", code=0)
    robot.bridge.kill()
    robot.bridge.wait()
    wait_for(lambda: re.search("^leg .*unreachable", world.run("ls", code=1).stdout, re.M), "it is named")
    stopped = world.run("stop", "--all", code=1).stdout
    assert "leg: NOT STOPPED" in stopped, stopped
    assert "no robot" in world.run("ls", "--forget", "leg", code=1).stdout
    assert robot.process.poll() is None


def test_a_token_without_a_bridge_ends_no_bridge(world: World) -> None:
    judge, robot, status = one_robot(world)
    # Less than every other: the bridge that has it would stay.
    token = judge.liveliness().declare_token(robot.key("@bridge/0"))
    statuses = Samples(judge, robot.key("@status"))
    wait_for(lambda: "is ignored" in world.output("bridge-leg"), "it is reported")
    statuses.clear()
    statuses.wait(3, "the bridge goes on")
    # A bridge that is started meanwhile does not wait for it for ever either.
    robot.bridge.kill()
    robot.bridge.wait()
    statuses.clear()
    robot.bridge = robot.start_bridge()
    last = statuses.wait(1, "the next bridge is there")[-1]
    assert json.loads(bytes(last.payload))["bridge"] != status["bridge"]
    token.undeclare()


def test_thousands_of_tokens_keep_no_user_from_robots_nor_from_stop(world: World) -> None:
    judge, robot, _ = one_robot(world)
    ghosts = [judge.liveliness().declare_token(f"khz/ghost{n}/@bridge/{n:x}") for n in range(3000)]

    def is_up() -> bool:
        lines = world.run("ls", code=None).stdout.splitlines()
        return ["leg", "up", "active"] in [line.split()[:3] for line in lines]

    # On a busy computer an answer may take longer than the command waits.
    wait_for(is_up, "it is listed as it is")
    wait_for(lambda: world.run("param", "leg", "kp_scale", code=None).stdout, "it is asked by its name")
    stopped = world.run("stop", "--all", "--timeout", "15", code=None).stdout
    assert "leg: stop taken by tick" in stopped, stopped[:500]
    robot.process.wait(60)
    for ghost in ghosts:
        ghost.undeclare()
