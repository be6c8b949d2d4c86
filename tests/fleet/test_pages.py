"""The pages of all robots through one port, and the demo that shows them."""

import base64
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import urllib.error
import urllib.request

import zenoh
from conftest import PATIENCE, Samples, World, ask, in_time, wait_for
from playwright.sync_api import Browser, expect
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

# A browser on a busy computer draws late. Nothing here is asserted to be fast.
expect.set_options(timeout=120_000)


def get(link: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(link, timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class Asking:
    """The language of `khz param` (docs/live.md): a websocket with one JSON object for each request and answer."""

    def __init__(self, port: int, target: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: khz.ask.v1\r\n\r\n".encode()
        )
        self.file = self.socket.makefile("rb")
        self.status = int(self.file.readline().split()[1])
        while self.file.readline().strip():
            pass

    def ask(self, request: object) -> dict[str, object]:
        body = json.dumps(request).encode()
        assert len(body) < 126
        self.socket.sendall(bytes([0x81, 0x80 | len(body)]) + bytes(4) + body)
        _, size = self.file.read(2)
        if size == 126:
            (size,) = struct.unpack(">H", self.file.read(2))
        answer: dict[str, object] = json.loads(self.file.read(size))
        return answer


def test_every_robot_has_its_page_behind_one_port(world: World) -> None:
    world.router()
    robots = [world.robot("one"), world.robot("two")]
    view = world.start(world.fleet, "--router", world.endpoint, "view", "--at", "127.0.0.1:0", name="view")
    (link,) = wait_for(lambda: re.findall(r"^http://127.0.0.1:\d+/$", world.output("view"), re.M), "the link")
    wait_for(lambda: get(link)[1].count("<td>up") == 2, "both robots in the list")
    status, page = get(link + "?robot=one")
    assert status == 200 and "khz.page.v1" in page
    assert get(link + "?robot=three")[0] == 404

    port = int(link.rsplit(":", 1)[1].rstrip("/"))
    asking = Asking(port, "/?robot=one")
    assert asking.status == 101
    assert Asking(port, "/?robot=three").status == 404

    def names() -> list[object]:
        # A robot that has just begun has not reported them yet.
        parameters = asking.ask({"parameters": True}).get("parameters", [])
        assert isinstance(parameters, list)
        return [parameter["name"] for parameter in parameters]

    wait_for(lambda: "kp_scale" in names(), "the robot's parameters")

    def fresh(request: dict[str, object]) -> dict[str, object]:
        now = lambda: asking.ask({"now": True})["now_us"]  # noqa: E731
        return in_time(lambda: asking.ask({**request, "now_us": now()}), lambda answer: answer)

    answer = fresh({"set": {"kp_scale": 0.5}})
    assert answer["done"] is True and isinstance(answer["tick"], int)
    assert "outside" in str(fresh({"set": {"kp_scale": 7}})["refused"])
    assert "beside it" in str(fresh({"do": "arm"})["refused"])
    assert "now_us" in str(asking.ask({"set": {"kp_scale": 0.5}})["refused"])
    stopped = in_time(lambda: asking.ask({"do": "stop"}), lambda answer: answer)
    # Answered too late and asked again, it may be at rest already.
    assert stopped.get("done") is True or re.search("at rest|is over", str(stopped)), stopped
    robots[0].process.wait(PATIENCE)
    assert robots[1].process.poll() is None
    view.send_signal(signal.SIGTERM)
    assert view.wait(PATIENCE) == 0


def test_of_seventeen_robots_the_one_that_is_not_viewed_gives_way(world: World) -> None:
    world.router()
    tokens = [world.judge().liveliness().declare_token(f"khz/r{n}/@bridge/{n:x}") for n in range(17)]
    view = world.start(world.fleet, "--router", world.endpoint, "view", "--at", "127.0.0.1:0", name="view")
    (link,) = wait_for(lambda: re.findall(r"^http://127.0.0.1:\d+/$", world.output("view"), re.M), "the link")
    wait_for(lambda: get(link)[1].count("?robot=r") == 17, "all robots in the list")
    port = int(link.rsplit(":", 1)[1].rstrip("/"))
    looking = {n: Asking(port, f"/?robot=r{n}") for n in range(16) if n != 5}
    assert all(one.status == 101 for one in looking.values())
    # The sixteenth is shown, and no one looks at it: it gives way to the seventeenth.
    assert get(link + "?robot=r5")[0] == 200
    looking[16] = Asking(port, "/?robot=r16")
    assert looking[16].status == 101
    status, page = get(link + "?robot=r5")
    assert status == 503 and "shows 16 robots at once" in page, (status, page)
    # No page was lost by that.
    assert all("now_us" in one.ask({"now": True}) for one in looking.values())
    looking.pop(3).socket.close()
    wait_for(lambda: get(link + "?robot=r5")[0] == 200, "there is room again")
    assert view.poll() is None
    for token in tokens:
        token.undeclare()


def test_a_robot_is_driven_and_stopped_from_a_browser(world: World, browser: Browser) -> None:
    """From the list to a robot's page: its samples, its parameters, its sticks and Stop; the robot beside it notices nothing."""
    world.router()
    walker, other = world.robot("walker", "quadruped_walk"), world.robot("other", "quadruped_walk")
    judge = world.judge()
    driven, beside = Samples(judge, walker.key("teleop")), Samples(judge, other.key("teleop"))
    view = world.start(world.fleet, "--router", world.endpoint, "view", "--at", "127.0.0.1:0", name="view")
    (link,) = wait_for(lambda: re.findall(r"^http://127.0.0.1:\d+/$", world.output("view"), re.M), "the link")
    wait_for(lambda: get(link)[1].count("<td>up") == 2, "both robots in the list")
    page = browser.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith(link) else complaints.append(request.url))
    page.goto(link)
    expect(page.locator("table")).to_contain_text("other")
    page.get_by_role("link", name="walker").click()
    expect(page.locator("h1")).to_have_text("walker")
    expect(page.locator("#drive")).to_contain_text("nothing is held")
    store = get_typestore(Stores.EMPTY)
    store.register(get_types_from_msg(ask(judge, walker.key("schema/teleop"))[1].decode(), "khz_msgs/msg/Teleop"))

    def forward(sample: zenoh.Sample) -> float:
        return float(store.deserialize_cdr(bytes(sample.payload), "khz_msgs/msg/Teleop").forward)

    page.keyboard.down("KeyW")
    wait_for(lambda: any(forward(sample) > 0.1 for sample in driven.all()), "the robot takes the inputs")
    expect(page.locator("#drive")).to_contain_text(re.compile("(?<!not )driving: 0"))
    page.keyboard.up("KeyW")

    def stands() -> bool:
        if forward(driven.all()[-1]) == 0.0:
            return True
        # That nothing is held is sent three times, which may all come too late; then it stands because its input is old.
        page.keyboard.press("KeyW")
        return False

    wait_for(stands, "it stands when nothing is held")
    assert not any(forward(sample) for sample in beside.all())
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#notice")).to_contain_text("Stopped by you in tick")
    walker.process.wait(PATIENCE)
    assert other.process.poll() is None
    page.goto(link)
    wait_for(lambda: get(link)[1].count("<td>up") == 1, "one of them has ended")
    page.close()
    assert complaints == [] and view.poll() is None


def test_beyond_this_computer_pages_need_a_token_and_routers_a_configuration(world: World) -> None:
    world.router()
    world.start(
        world.fleet, "--router", world.endpoint, "view", "--at", "0.0.0.0:0", "--token", "s3cret-s3cret", name="view"
    )
    (port,) = wait_for(lambda: re.findall(r":(\d+)/\?token=s3cret-s3cret$", world.output("view"), re.M), "the link")
    assert get(f"http://127.0.0.1:{port}/")[0] == 403
    assert get(f"http://127.0.0.1:{port}/?token=s3cret-s3cret")[0] == 200
    for words in (["router"], ["bridge", "--name", "leg"], ["ls"]):
        done = subprocess.run(
            [world.fleet, "--router", "tcp/0.0.0.0:0", *words], capture_output=True, text=True, timeout=30
        )
        assert done.returncode == 2 and "beyond this computer" in done.stderr


def children(pid: int) -> list[int]:
    text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


def test_the_demo(world: World) -> None:
    demo = world.start(world.fleet, "--router", world.endpoint, "demo", name="demo")
    (link,) = wait_for(lambda: re.findall(r"^http://127.0.0.1:\d+/$", world.output("demo"), re.M), "the link")
    wait_for(lambda: get(link)[1].count("<td>up") == 5, f"five robots in the list:\n{world.output('demo')}")
    wait_for(lambda: world.run("ls", code=None).stdout.count(" up ") == 5, "five robots are listed")
    started = children(demo.pid)
    assert len(started) == 10
    world.run("stop", "--timeout", "60", "arm")
    wait_for(lambda: "robot arm has ended" in world.output("demo"), "the demo says so")
    demo.send_signal(signal.SIGINT)
    assert demo.wait(PATIENCE) == 0
    assert not any(pathlib.Path(f"/proc/{pid}").exists() for pid in started)
