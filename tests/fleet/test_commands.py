"""What goes back to a robot: stop, parameters, steering; and what can be asked of it."""

import json
import pathlib
import re
import signal
import subprocess
import time

import zenoh
from conftest import PATIENCE, Samples, Repeated, World, ask, in_time, wait_for
from robots import free_port


def up(world: World, *names: str) -> None:
    wait_for(
        lambda: (robots := world.listed()) and all(robots.get(name, {}).get("up") for name in names),
        f"{names} are up",
    )


def test_robots_are_listed_watched_and_stopped(world: World) -> None:
    world.router()
    assert "no robot" in world.run("ls", code=1).stdout
    robots = [world.robot("one"), world.robot("two")]
    up(world, "one", "two")

    def active() -> list[str] | None:
        done = world.run("ls", code=None)
        table = done.stdout.splitlines()
        are_up = [line.split()[:3] for line in table[1:]] == [["one", "up", "active"], ["two", "up", "active"]]
        return table if are_up and done.returncode == 0 else None

    table = wait_for(active, "both are active")
    assert table[0].split()[:4] == ["ROBOT", "STATE", "PHASE", "RATE"]
    wait_for(lambda: world.run("top", "--duration", "2").stdout.count("active") >= 4, "top shows both twice")

    # A request for everything from every robot stops none.
    judge = world.judge()
    for key in ("khz/**", "khz/one/*", "khz/*/stop", "**"):
        replies = [reply for reply in judge.get(key, timeout=2.0) if reply.ok is not None]
        assert {str(reply.ok.key_expr).split("/")[-1] for reply in replies if reply.ok} <= {"summary"}
    wait_for(active, "both are active still")

    (outcome,) = map(json.loads, world.run("stop", "one", "--timeout", "100", "--json").stdout.splitlines())
    assert outcome["at_rest"] and outcome["tick"] > 0 and outcome["ms"] >= outcome["taken_ms"] > 0
    robots[0].process.wait(PATIENCE)
    assert robots[1].process.poll() is None
    wait_for(lambda: world.has_ended("one"), "one is down, and its bridge is there")
    (line,) = (line for line in world.ls("ended", code=1).splitlines() if line.startswith("one"))
    assert re.search(r"^one +ended \d+ s ago +stopped +- +- ", line), "no figures of a robot that has ended"
    done = world.run("stop", "--all", "--timeout", "100")
    assert re.search(r"^one: at rest already: stopped, ended \d+ s ago ", done.stdout, re.M)
    assert re.search(r"^two: stop taken by tick \d+ after [\d.]+ ms, at rest ", done.stdout, re.M)
    unknown = "nobody: NOT STOPPED: no robot `nobody` can be seen on the network, there are one, two"
    # A bridge that is busy may be off the network for a moment.
    wait_for(lambda: unknown in world.run("stop", "nobody", "--timeout", "10", code=1).stdout, "who is there")


def test_parameters_are_read_and_set(world: World) -> None:
    world.router()
    judge = world.judge()
    robot = world.robot("leg")
    up(world, "leg")
    # A run that has just begun has not reported its parameters yet.
    answer = wait_for(lambda: (got := ask(judge, robot.key("param")))[0] and got[1], "its parameters are known")

    def value() -> object:
        fine, answer = in_time(lambda: ask(judge, robot.key("param/kp_scale")), lambda answer: answer[1])
        assert fine, answer
        return json.loads(answer)["value"]

    names = {parameter["name"]: parameter for parameter in json.loads(answer)}
    assert "kp_scale" in names

    fine, answer = ask(judge, robot.key("param/kp_scale"), 0.75)
    assert not fine and "now_us" in json.loads(answer)["refused"], "how old it is must be said"
    clock = Samples(judge, robot.key("@clock"))

    def since(key: str) -> str:
        clock.clear()
        newest = clock.wait(1, "the clock")[-1]
        return f"{robot.key(key)}?now_us={json.loads(bytes(newest.payload))['now_us']}"

    old = since("param/kp_scale")
    time.sleep(1.5)
    fine, answer = ask(judge, old, 0.75)
    assert not fine and "too late" in json.loads(answer)["refused"]

    def change(key: str, payload: object) -> tuple[bool, bytes]:
        return in_time(lambda: ask(judge, since(key), payload), lambda answer: answer[1])

    fine, answer = change("param/kp_scale", 0.75)
    assert fine and json.loads(answer)["tick"] >= 0
    assert value() == 0.75
    fine, answer = change("param", {"kp_scale": 0.5})
    assert fine

    for key, payload in (("param/kp_scale", 7), ("param", {"kp_scale": 0.4, "nothing": 1}), ("param", [1])):
        fine, answer = change(key, payload)
        assert not fine and json.loads(answer)["refused"]
    assert value() == 0.5, "all or none"


def test_parameters_at_the_terminal(world: World) -> None:
    world.router()
    judge = world.judge()
    robot = world.robot("leg")
    up(world, "leg")
    # A run that has just begun has not reported its parameters yet, which is one reason to ask again.
    table = world.asked("param", "leg").stdout.splitlines()
    assert table[0].split()[:4] == ["name", "value", "unit", "range"]
    (line,) = (line for line in table if line.startswith("kp_scale "))
    assert "0.0 to 1.0" in line
    assert "kp_scale" in {one["name"] for one in json.loads(world.asked("param", "leg", "--json").stdout)}

    def change(name: str, value: str) -> "subprocess.CompletedProcess[str]":
        return in_time(lambda: world.run("param", "leg", name, value, code=None, USER="ann"), lambda done: done.stderr)

    done = change("kp_scale", "0.25")
    (tick,) = re.findall(r"^taken by tick (\d+)$", done.stdout, re.M)
    assert float(world.asked("param", "leg", "kp_scale").stdout) == 0.25
    one = json.loads(world.asked("param", "leg", "kp_scale", "--json").stdout)
    assert (one["value"], one["max"]) == (0.25, 1.0)

    # The robot's own words, and its value stays.
    for value in ("7", "-1", "true"):
        done = change("kp_scale", value)
        assert done.returncode == 1 and "leg: refused: kp_scale: " in done.stderr and not done.stdout
    assert "refused: " in change("kp_scal", "0.5").stderr
    assert float(world.asked("param", "leg", "kp_scale").stdout) == 0.25
    assert "it has " in world.asked("param", "leg", "kp_scal", code=1).stderr
    assert "neither a number" in world.run("param", "leg", "kp_scale", "fast", code=2).stderr
    wait_for(lambda: "there is leg" in world.run("param", "nope", code=2).stderr, "who is there")

    # A question of another run, as one that a frozen network gives up only when the next run is there.
    run = int(str(json.loads(ask(judge, robot.key("summary"))[1])["run"]))
    fine, answer = ask(judge, robot.key(f"param?run={run + 1}"), {"kp_scale": 0.5})
    assert not fine and b"another one" in answer
    assert float(world.asked("param", "leg", "kp_scale").stdout) == 0.25

    world.run("stop", "--timeout", "100", "leg")
    robot.process.wait(PATIENCE)
    wait_for(lambda: world.has_ended("leg"), "its run has ended")
    assert re.search(r"leg: refused: its run is over, ended \d+ s ago", world.asked("param", "leg", code=1).stderr)
    log = subprocess.run(
        [world.khz, "log", "cat", str(robot.logs / "run.tlog"), "-r", "parameter", "--json"], capture_output=True, text=True, check=True
    )  # fmt: skip
    # One that was taken, and answered too late, was asked for again.
    changes = log.stdout.splitlines()
    assert changes and all("ann@" in change and "0.25" in change for change in changes), changes
    assert tick in changes[-1]


def test_what_pretends_to_be_a_robot_has_no_hold_on_the_terminal(world: World) -> None:
    """Texts of any length that move the cursor, answers that are none: reported in plain words, and JSON stays JSON."""
    world.router()
    judge = world.judge()
    tokens = [judge.liveliness().declare_token(f"khz/evil/{rest}") for rest in ("@up", "@bridge/1")]
    tally = {"ticks": 1, "worst_wake_us": 1.0}
    status = {
        "robot": "evil", "host": "h", "version": "1", "up": True, "commands": True, "state": "up", "age_s": 0.0, "run": 7, "verdict": "v",
        "health": {"rate_hz": 1e308, "phase": "active", "recent": tally, "run": tally},
        "received": {"samples": 1, "lost": 0, "behind": 0, "refused": 0, "others": 0}, "sent": 1, "dropped": 0,
    }  # fmt: skip
    answers: dict[str, object] = {"summary": status}

    def answer(query: zenoh.Query) -> None:
        key = str(query.key_expr)
        query.reply(key, json.dumps(answers[key.rsplit("/", 1)[1]]))

    queryables = [judge.declare_queryable(f"khz/evil/{what}", answer) for what in ("summary", "param")]
    bad = "\x1b[2J\x9b31m\r\nkhz-fleet: all is well\u202e"
    answers["param"] = [{"name": bad, "value": bad, "unit": "u" * 100_000, "min": [1], "text": bad}]
    for words in (["param", "evil"], ["param", "evil", "x"], ["param", "evil", "--json"], ["ls"]):
        done = world.run(*words, code=None)
        assert done.returncode in (0, 1, 2) and "panicked" not in done.stderr
        output = done.stdout + done.stderr
        assert output and not any(sign in output for sign in "\x1b\x9b\r\u202e") and "\nkhz-fleet: all" not in output
        if "--json" in words:
            assert json.loads(done.stdout) == answers["param"]
    # It has the clock that a new value needs.
    answers["param"] = {"done": "yes"}
    clock = Repeated(judge, "khz/evil/@clock", lambda: {"now_us": 1, "run": 7})
    assert "no robot's" in world.run("param", "evil", "x", "1", code=1).stderr
    clock.end()
    # Nothing was sent to a robot of which the status cannot be read, or that is another one.
    for summary in ({}, status | {"robot": "other"}):
        answers["summary"] = summary
        done = world.run("param", "evil", "x", "1", code=1)
        assert "cannot be read" in done.stderr and "was taken" not in done.stderr
    assert len(tokens) == len(queryables) == 2


def test_a_bridge_without_a_view_only_reports(world: World) -> None:
    world.router()
    judge = world.judge()
    robot = world.robot("leg")
    robot.bridge.kill()
    robot.bridge.wait()
    world.start(
        world.fleet, "--router", world.endpoint, "bridge", "--name", "leg", "--listen", f"127.0.0.1:{robot.stream}",
        name="alone",
    )  # fmt: skip
    up(world, "leg")
    fine, answer = ask(judge, robot.key("stop"))
    assert not fine and b"--view" in answer
    fine, answer = ask(judge, robot.key("log"))
    assert not fine and b"--logs" in answer
    wait_for(lambda: "NOT STOPPED: refused" in world.run("stop", "leg", code=1).stdout, "it is refused")
    assert robot.process.poll() is None


def test_logs_are_listed_and_downloaded(world: World) -> None:
    world.router()
    judge = world.judge()
    robot = world.robot("leg")
    up(world, "leg")
    seconds = lambda: json.loads(ask(judge, robot.key("summary"))[1])["health"]["run"]["ticks"] / 200  # noqa: E731
    wait_for(lambda: seconds() > 6, "six seconds of log", 120)
    wait_for(lambda: ask(judge, robot.key("file"))[0], "the robot file, which comes at once or after 10 s")
    output = world.folder / "recent.tlog"
    world.asked("logs", "leg", "--recent", "2", "-o", str(output))
    about = info(world, output)
    assert {"tick", "servo", "command", "robot"} <= about.keys()
    # At 200 Hz; a tick that comes too late is skipped, and what two seconds are is the robot's affair.
    assert 0 < about["servo"] <= 600 and about["robot"] == 1

    world.run("stop", "--timeout", "100", "leg")
    robot.process.wait(PATIENCE)
    assert "run.tlog" in world.asked("logs", "leg").stdout
    world.asked("logs", "leg", "run.tlog")
    assert (world.folder / "leg-run.tlog").read_bytes() == (robot.logs / "run.tlog").read_bytes()
    world.asked("logs", "leg", "run.tlog", "--from", "2", "--to", "4", "-o", "part.tlog")
    part = info(world, world.folder / "part.tlog")
    # The time of a log is that of its samples, whatever this computer was busy with.
    assert 0 < part["servo"] < info(world, robot.logs / "run.tlog")["servo"]

    assert "is there already" in world.asked("logs", "leg", "run.tlog", code=2).stderr, "nothing is overwritten"
    done = world.asked("logs", "leg", "none.tlog", "-o", "none.tlog", code=2)
    assert "there is no log" in done.stderr and not (world.folder / "none.tlog").exists()
    assert not list(world.folder.glob(".khz-fleet*")), "no half downloads"
    done = world.asked("logs", "leg", "run.tlog", "--from", "4000", "-o", "none.tlog", code=2)
    assert "the log is from 0 to" in done.stderr and not (world.folder / "none.tlog").exists()
    assert "after --to" in world.run("logs", "leg", "run.tlog", "--from", "4", "--to", "2", "-o", "none.tlog", code=2).stderr
    assert "outside 0 to 30" in world.asked("logs", "leg", "--recent", "100", code=2).stderr
    wait_for(lambda: "there is leg" in world.run("logs", "nope", code=2).stderr, "who is there")
    assert part["robot"] == 1 and part["parameters"] == 1 and part["event"] > 0
    fine, answer = ask(judge, robot.key("file"))
    assert fine and answer.decode() == robot.file.read_text()
    fine, answer = ask(judge, robot.key("doctor"))
    assert fine and json.loads(answer)["findings"]


def info(world: World, path: pathlib.Path) -> dict[str, int]:
    """How many samples of each record a log has, as `khz` reads it."""
    done = subprocess.run([world.khz, "log", "info", "--json", str(path)], capture_output=True, text=True, check=True)
    return {record["name"]: record["samples"] for record in json.loads(done.stdout)["records"]}


def test_an_operator_elsewhere_steers_and_late_inputs_count_for_nothing(world: World) -> None:
    world.router()
    judge = world.judge()
    robot = world.robot("walker", "quadruped_walk", rate=200)
    clock = Samples(judge, robot.key("@clock"))
    taken = Samples(judge, robot.key("teleop"))

    def now() -> int:
        clock.wait(1, "the clock")
        return int(json.loads(bytes(clock.all()[-1].payload))["now_us"])

    def run() -> int:
        return int(json.loads(bytes(clock.all()[-1].payload))["run"])

    # Not by this computer's clock: how far the robot gets in a time depends on what else runs here.
    began = now()
    wait_for(lambda: robot.process.poll() is not None or now() > began + 3_000_000, "3 s by the robot's clock", 120)
    assert robot.process.poll() is None, "it runs"
    # Inputs that were decided long ago by what they have seen of the clock, or that claim the future.
    for _ in range(20):
        for shown in (now() - 2_000_000, now() + 10**12):
            judge.put(robot.key("operator"), json.dumps({"by": "late", "now_us": shown, "run": run(), "forward": 0.1}))
        time.sleep(0.01)
        # Fresh, but of another run.
        judge.put(robot.key("operator"), json.dumps({"by": "late", "now_us": now(), "run": run() + 1, "forward": 0.1}))
    judge.put(robot.key("operator"), "{")
    assert json.loads(bytes(clock.all()[-1].payload))["by"] is None, "none of them has the seat"
    time.sleep(1.5)
    assert not taken.all()

    ann = lambda: {"by": "ann", "now_us": now(), "run": run(), "forward": 0.1}  # noqa: E731
    operator = Repeated(judge, robot.key("operator"), ann)
    # An input that is underway for more than 0.3 s is not taken, which on a busy computer may be most of them.
    wait_for(lambda: len(taken.all()) >= 10, "the robot takes inputs", 120)
    wait_for(lambda: json.loads(bytes(clock.all()[-1].payload))["by"] == "ann", "ann has the seat")
    operator.end()


def test_a_stop_of_another_run_stops_no_robot(world: World) -> None:
    world.router()
    judge = world.judge()
    robot = world.robot("leg")
    up(world, "leg")

    def asked(rest: str) -> tuple[bool, bytes]:
        return in_time(lambda: ask(judge, robot.key(rest)), lambda answer: answer[1])

    run = int(str(json.loads(asked("summary")[1])["run"]))
    fine, answer = asked(f"stop?run={run + 1};by=ann")
    assert not fine and b"another one" in answer, answer
    assert robot.process.poll() is None
    fine, answer = asked(f"stop?run={run};by=ann")
    # Answered too late and asked again, it may be at rest already.
    stopped = fine and json.loads(answer)["done"] is True and json.loads(answer)["tick"] >= 0
    assert stopped or b"at rest" in answer or b"run is over" in answer, answer
    robot.process.wait(PATIENCE)


def test_a_run_that_ends_while_it_is_asked_to_stop_is_stopped(world: World) -> None:
    """A bridge that does not reach its robot is asked again, until it knows that the run is over."""
    world.router()
    robot = world.robot("leg")
    up(world, "leg")
    robot.bridge.terminate()
    robot.bridge.wait()
    view, robot.view = robot.view, free_port()
    robot.bridge = robot.start_bridge()
    up(world, "leg")
    why = re.compile("leg: NOT STOPPED: its bridge does not reach it: no live view at .*refused")
    wait_for(lambda: why.search(world.run("stop", "--timeout", "1", "leg", code=1).stdout), "it is not stopped, and why")
    why_not = "its bridge does not reach it: no live view"
    wait_for(lambda: why_not in world.run("param", "leg", code=1).stderr, "nothing is read, and why")
    assert robot.process.poll() is None and view != robot.view
    stop = world.start(*world.program(), "stop", "--timeout", "100", "leg", name="stop")
    time.sleep(1.0)
    assert stop.poll() is None, "it asks again"
    robot.process.send_signal(signal.SIGINT)
    assert stop.wait(PATIENCE) == 0
    assert "leg: at rest" in world.output("stop")


def test_a_run_that_has_just_begun_is_not_reported_to_be_at_rest(world: World) -> None:
    """What was known of the previous run is not valid for the present one."""
    world.router()
    judge = world.judge()
    robot = world.robot("leg")
    up(world, "leg")

    def run() -> int:
        return int(json.loads(ask(judge, robot.key("summary"))[1])["run"])

    before = run()
    robot.process.send_signal(signal.SIGINT)
    robot.process.wait(PATIENCE)
    (robot.logs / "run.tlog").rename(robot.logs / "first.tlog")
    robot.process = robot.run()
    wait_for(lambda: run() != before, "the next run")
    done = world.run("stop", "--timeout", "100", "leg")
    assert re.search("leg: stop taken by tick .* at rest", done.stdout), done.stdout
    robot.process.wait(PATIENCE)


def test_a_robot_that_does_not_answer_is_not_reported_to_refuse(world: World) -> None:
    """Stop is repeated faster than its bridge gives up on a frozen robot."""
    world.router()
    robot = world.robot("leg")
    up(world, "leg")
    robot.process.send_signal(signal.SIGSTOP)
    done = world.run("stop", "--timeout", "12", "leg", code=1)
    assert "leg: NOT STOPPED: its bridge does not reach it" in done.stdout, done.stdout
    robot.process.send_signal(signal.SIGCONT)
    # What was asked of this run reaches it now.
    robot.process.wait(PATIENCE)


def test_a_view_of_another_robot_is_not_asked(world: World) -> None:
    """The bridge's --view is that of another robot than the one that streams: the wrong one is not stopped."""
    world.router()
    judge = world.judge()
    one, two = world.robot("one"), world.robot("two")
    up(world, "one", "two")
    one.bridge.kill()
    one.bridge.wait()
    one.view, own = two.view, one.view
    one.bridge = one.start_bridge()
    up(world, "one")
    for key, payload in (("stop", None), ("param/kp_scale?now_us=1", 0.5)):
        fine, answer = ask(judge, one.key(key), payload)
        assert not fine and b"another run" in answer
    assert one.process.poll() is None and two.process.poll() is None
    one.view = own


def test_another_robot_at_the_same_addresses(world: World) -> None:
    world.router()
    robot = world.robot("leg")
    up(world, "leg")
    # With the robot's name known: the recorder repeats it every 10 s to a bridge that came late.
    judge = world.judge()
    wait_for(lambda: ask(judge, robot.key("file"))[0], "the bridge has the robot file")
    world.run("stop", "--timeout", "100", "leg")
    robot.process.wait(PATIENCE)
    robot.file.write_text(robot.file.read_text().replace('name = "leg"', 'name = "other"'))
    (robot.logs / "run.tlog").unlink()
    robot.process = robot.run()
    assert robot.bridge.wait(PATIENCE) == 2
    assert "the robot `other` sends to" in world.output("bridge-leg")
    assert robot.process.poll() is None
