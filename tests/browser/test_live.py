"""The page of the live view in a real browser: what it shows of a robot, and what it does to one."""

import json
import pathlib
import re
import subprocess
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from live import Robot, write_log

EVIL = "<img src=x onerror=alert(1)>"
PHONE = {"viewport": {"width": 360, "height": 740}, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}
# Pixels of a canvas that have one of the colours of lines, by row of its upper half and its lower half.
COLOURED = """(canvas) => {
  const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const ratio = canvas.width / canvas.clientWidth;
  let upper = 0, lower = 0;
  for (let y = 0; y < height - 24 * ratio; y++)
    for (let x = 60 * ratio; x < width; x++) {
      const i = 4 * (y * width + x), [r, g, b, a] = data.slice(i, i + 4);
      if (a > 100 && Math.max(r, g, b) - Math.min(r, g, b) > 60) { if (y < height / 2) upper++; else lower++; }
    }
  return [upper, lower];
}"""


def until(condition: Callable[[], object], what: str, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def settled(value: Callable[[], object], what: str) -> object:
    """What it is once it has not changed for half a second."""
    known, since = value(), time.monotonic()

    def quiet() -> bool:
        nonlocal known, since
        if (now := value()) != known:
            known, since = now, time.monotonic()
        return time.monotonic() - since > 0.5

    until(quiet, what)
    return known


def shown_s(page: Page) -> tuple[float, float]:
    """The time that is shown, in seconds of the run: from, to."""
    from_s, to_s = (float(part.split()[0]) for part in page.locator("#shown").inner_text().split(" to "))
    return from_s, to_s


def plot(page: Page, title: str) -> object:
    return page.locator("figure").filter(has=page.locator("figcaption b", has_text=re.compile(f"^{re.escape(title)}$"))).locator("canvas")


def test_a_spike_of_one_sample_is_seen_in_every_zoom(robot: Callable[..., Robot], look: Callable[..., Page]) -> None:
    spot = robot(["hip"])
    spot.spikes[1500] = 40.0
    spot.run()
    page = look(spot.link)
    page.get_by_role("button", name="torque").click()
    canvas = plot(page, "hip")
    until(lambda: spot.tick > 3000, "no ticks")
    spot.end()
    # The spike alone reaches the upper half.
    until(lambda: 0 < canvas.evaluate(COLOURED)[0] < 500, "no spike in 10 s")
    page.get_by_role("button", name="all", exact=True).first.click()
    until(lambda: 0 < canvas.evaluate(COLOURED)[0] < 500, "no spike in all of it")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    until(lambda: "everything" in page.locator("#shown").inner_text(), "not all is shown")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    for _ in range(4):
        before, (from_s, to_s) = page.locator("#shown").inner_text(), shown_s(page)
        page.mouse.move(box["x"] + 46 + (box["width"] - 54) * (1.5 - from_s) / (to_s - from_s), box["y"] + 60)
        page.mouse.wheel(0, -2000)
        page.mouse.wheel(0, -2000)
        until(lambda before=before: page.locator("#shown").inner_text() != before, "it does not zoom")
        settled(lambda: page.locator("#shown").inner_text(), "it zooms for ever")
    page.mouse.move(0, 0)
    from_s, to_s = shown_s(page)
    assert to_s - from_s < 0.1, "not zoomed"
    page.mouse.move(box["x"] + 46 + (box["width"] - 54) * (1.5 - from_s) / (to_s - from_s), box["y"] + 60)
    expect(page.locator(".tip:visible")).to_contain_text("40")


def test_a_late_tick_is_listed_with_its_cause(robot: Callable[..., Robot], look: Callable[..., Page]) -> None:
    spot = robot(["hip"])
    spot.late.add(900)
    page = look(spot.link)
    # The sentence is of the last 10 s, in which a busy browser may not open a page.
    spot.run()
    expect(page.locator("#verdict")).to_contain_text("1 tick overran, mostly because other threads had its CPU")
    row = page.locator("#late tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("900")
    expect(row).to_contain_text("preempted")
    expect(page.locator("#phase")).to_have_text("active")
    expect(page.locator("#rate")).to_contain_text("Hz")
    expect(page.locator("#verdict")).to_contain_text("1 late tick, the newest: tick 900")
    expect(page.locator("h1")).to_have_text("spot")
    row.click()
    expect(page.get_by_role("button", name="Follow")).to_be_visible()


def test_stop_by_button_space_and_escape(robot: Callable[..., Robot], look: Callable[..., Page]) -> None:
    for how in ["button", " ", "Escape", "in a field"]:
        spot = robot(["hip"])
        spot.run()
        page = look(spot.link)
        stop = page.get_by_role("button", name="Stop")
        expect(stop).to_be_visible()
        if how == "button":
            stop.click()
        elif how == "in a field":
            page.get_by_role("spinbutton").first.focus()
            page.keyboard.press("Escape")
        else:
            page.get_by_role("button", name="Freeze").focus()
            page.keyboard.press(how)
        until(lambda: spot.did("stop"), f"not stopped by {how}")
        expect(page.locator("#notice")).to_contain_text("Stopped by you in tick")
        expect(page.locator("#phase")).to_have_text("damping")
        expect(page.get_by_role("button", name="Freeze")).to_be_visible()  # Space pressed no button.
        spot.close()


def test_an_unconfirmed_stop_is_repeated_and_reported(robot: Callable[..., Robot], look: Callable[..., Page]) -> None:
    spot = robot(["hip"])
    spot.answers = False
    spot.run()
    page = look(spot.link)
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    page.keyboard.press(" ")
    until(lambda: len(spot.did("stop")) >= 3, "not repeated")
    expect(page.locator("#notice")).to_contain_text("not confirmed")
    expect(page.locator("#notice")).to_contain_text("NOT CONFIRMED")


def test_arm_asks_twice_and_only_when_idle(robot: Callable[..., Robot], look: Callable[..., Page]) -> None:
    spot = robot(["hip"], phase="idle")
    spot.run()
    page = look(spot.link)
    page.locator("#arm").click()
    expect(page.locator("#arm")).to_have_text("Sure? Arm")
    assert not spot.did("arm")
    page.locator("#arm").click()
    until(lambda: spot.did("arm"), "not armed")
    expect(page.locator("#phase")).to_have_text("active")
    expect(page.locator("#arm")).to_be_hidden()


def test_a_parameter_shows_what_is_in_force_and_why_it_was_refused(robot: Callable[..., Robot], look: Callable[..., Page]) -> None:
    spot = robot(["hip"])
    spot.run()
    page = look(spot.link)
    box = page.locator(".param").filter(has_text="kp_scale")
    field, force = box.get_by_role("spinbutton"), box.locator("strong")
    expect(force).to_have_text("1")
    field.fill("0.4")
    field.press("Enter")
    expect(force).to_have_text("0.4")
    assert spot.did("set")[0]["by"].startswith("page 127.0.0.1:")
    expect(page.locator("#changes tbody tr")).to_contain_text("1 → 0.4")
    field.fill("7")
    field.press("Enter")
    expect(box.locator(".refused")).to_contain_text("7 is outside 0 to 2")
    expect(force).to_have_text("0.4")
    expect(field).to_have_value("0.4")
    box.get_by_role("button", name="default").click()
    expect(force).to_have_text("1")
    slider = box.get_by_role("slider")
    slider.fill("1.5")
    expect(force).to_have_text("1.5")
    truth = page.locator(".param").filter(has_text="swing")
    truth.get_by_role("checkbox").check()
    expect(truth.locator("strong")).to_have_text("on")


def test_targets_are_three_lines_and_only_there_where_they_are_followed(
    robot: Callable[..., Robot], look: Callable[..., Page]
) -> None:
    for follows in (True, False):
        spot = robot(["hip"], targets=follows)
        spot.run()
        page = look(spot.link)
        expect(page.get_by_role("button", name="torque")).to_be_visible()
        choice = page.get_by_role("button", name="targets", exact=True)
        if not follows:
            expect(choice).to_have_count(0)
            continue
        choice.click()
        for line in ("reference", "target", "offset"):
            expect(page.locator("#servos .keys").get_by_text(line, exact=True)).to_be_visible()
        canvas = plot(page, "hip")
        until(lambda: canvas.evaluate(COLOURED)[0] > 0, "nothing is drawn")


def test_the_stick_drives_only_while_it_is_held(robot: Callable[..., Robot], look: Callable[..., Page]) -> None:
    spot = robot(["hip"])
    spot.run()
    page = look(spot.link)
    pad = page.locator(".pad").first
    expect(pad).to_be_visible()
    time.sleep(0.5)
    assert spot.did("teleop") == []
    box = pad.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - 60)
    until(lambda: len(spot.did("teleop")) > 8, "nothing was sent")
    held = spot.did("teleop")
    assert held[-1]["teleop"]["forward"] > 0.1 and abs(held[-1]["teleop"]["left"]) < 0.05, held[-1]
    assert all(asked["age_ms"] >= 0 for asked in held)
    page.mouse.up()
    # From then on only the middle, three times.
    until(lambda: [asked["teleop"]["forward"] for asked in spot.did("teleop")[-3:]] == [0, 0, 0], "the middle is not sent")
    settled(lambda: len(spot.did("teleop")), "sent although nothing is held")
    assert spot.did("teleop")[-1]["teleop"]["forward"] == 0
    page.keyboard.down("KeyW")
    page.keyboard.down("KeyQ")
    until(lambda: spot.did("teleop")[-1]["teleop"]["turn"] > 0, "the keys do nothing")
    # The tab is hidden.
    page.evaluate("Object.defineProperty(document, 'hidden', { value: true }); document.dispatchEvent(new Event('visibilitychange'))")
    until(lambda: spot.did("teleop")[-1]["teleop"]["turn"] == 0, "a hidden page drives")
    settled(lambda: len(spot.did("teleop")), "a hidden page sends")
    assert spot.did("teleop")[-1]["teleop"]["turn"] == 0


@pytest.mark.parametrize("way", ["", " 7e5ec7 via 127.0.0.1:9"], ids=["alone", "in a fleet"])
def test_the_page_shows_who_drives_and_that_its_own_inputs_are_not_taken(
    robot: Callable[..., Robot], look: Callable[..., Page], way: str
) -> None:
    spot = robot(["hip"])
    spot.way = way
    spot.run()
    page = look(spot.link)
    expect(page.locator("#drive")).to_contain_text("nothing is held")

    def shown() -> bool:
        # An input is in force for a second, in which a busy browser may not look.
        spot.steered(0.25, "udp 127.0.0.1:9")
        return "driven by udp 127.0.0.1:9: 0.25 m/s forward" in page.locator("#drive").inner_text()

    until(shown, "the page does not say who drives")
    expect(page.locator("#drive")).to_contain_text("nothing is held")
    page.keyboard.down("KeyW")
    expect(page.locator("#drive")).to_contain_text("NOT DRIVING: the robot takes none of your inputs")
    spot.takes_inputs = True
    expect(page.locator("#drive")).to_contain_text(re.compile("(?<!not )driving: 0.30 m/s forward"))
    page.keyboard.up("KeyW")


def test_a_run_that_began_anew_while_the_stick_was_held_froze_the_page(robot: Callable[..., Robot], look: Callable[..., Page]) -> None:
    spot = robot(["hip"])
    spot.run()
    page = look(spot.link)
    expect(page.locator(".pad").first).to_be_visible()
    page.keyboard.down("KeyW")
    until(lambda: spot.did("teleop"), "the key does nothing")
    spot.name = "rex"
    spot.begin()
    expect(page.locator("h1")).to_have_text("rex")
    expect(page.locator("#drive")).to_contain_text("nothing is held")


def test_the_sticks_follow_the_keys(robot: Callable[..., Robot], look: Callable[..., Page]) -> None:
    spot = robot(["hip"])
    spot.run()
    page = look(spot.link)
    walk, turn = (page.locator(".pad b").nth(place) for place in [0, 1])
    expect(walk).to_be_visible()
    for key, knob, moved in [("KeyW", walk, r"translate\(0px, -\d+"), ("KeyD", walk, r"translate\(\d"), ("KeyE", turn, r"translate\(\d")]:
        page.keyboard.down(key)
        expect(knob).to_have_attribute("style", re.compile(moved))
        page.keyboard.up(key)
        expect(knob).to_have_attribute("style", "")


# A trunk and a leg that one servo turns.
LEG = {"floats": True, "bodies": [
    {"parent": None, "at": [0, 0, 0], "quat": [1, 0, 0, 0], "joints": [], "lines": [[-0.2, 0, 0, 0.2, 0, 0, 0.03]]},
    {"parent": 0, "at": [0.2, 0, 0], "quat": [1, 0, 0, 0], "lines": [[0, 0, 0, 0, 0, -0.3, 0.02]],
     "joints": [{"servo": "hip", "slides": False, "axis": [0, 1, 0], "at": [0, 0, 0], "zero": 0}]},
]}


def test_the_robot_is_drawn_as_its_joints_hold_it_and_turns(robot: Callable[..., Robot], look: Callable[..., Page]) -> None:
    spot = robot(["hip"], skeleton=json.dumps(LEG))
    spot.run()
    page = look(spot.link)
    canvas = page.locator("#robot canvas")
    expect(canvas).to_be_visible()
    canvas.scroll_into_view_if_needed()
    until(lambda: sum(canvas.evaluate(COLOURED)) > 1000, "no robot")
    drawn = "(canvas) => canvas.toDataURL()"
    first = canvas.evaluate(drawn)
    until(lambda: canvas.evaluate(drawn) != first, "it does not move with its joint")
    spot.end()
    first = settled(lambda: canvas.evaluate(drawn), "it moves for ever")
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 160, box["y"] + 120)
    page.mouse.up()
    until(lambda: canvas.evaluate(drawn) != first, "it is not turned")
    # Its attitude is in the drawing: not drawn twice.
    assert page.locator("#attitude").count() == 0


@pytest.mark.parametrize("shape", ["", "{", "[]", '{"bodies":[{"parent":0}]}', json.dumps(LEG).replace('"hip"', '"gone"')])
def test_a_shape_that_cannot_be_drawn_leaves_no_empty_box(robot: Callable[..., Robot], look: Callable[..., Page], shape: str) -> None:
    spot = robot(["hip"], skeleton=shape)
    spot.run()
    page = look(spot.link)
    expect(page.locator("#servos")).to_be_visible()
    assert page.locator("#robot").count() == 0


def test_nothing_moves_under_the_mouse(robot: Callable[..., Robot], look: Callable[..., Page]) -> None:
    spot = robot(["hip", "knee"])
    spot.run()
    page = look(spot.link, viewport={"width": 1400, "height": 900})
    expect(page.locator(".figures")).to_contain_text("°C")
    places = ["#timebar", ".figures", "#servos", "#timing", "#any"]

    def tops() -> list[float]:
        return [page.locator(place).evaluate("(found) => found.getBoundingClientRect().top + scrollY") for place in places]

    before = settled(tops, "the page does not come to rest")
    spot.late.add(spot.tick + 300)
    expect(page.locator("#late tbody tr")).to_have_count(1)
    page.locator(".param").filter(has_text="kp_scale").get_by_role("spinbutton").fill("7")
    page.keyboard.press("Enter")
    expect(page.locator(".refused").first).to_contain_text("7 is outside")
    assert tops() == before
    spot.pause()
    expect(page.locator("#lost")).to_be_visible()
    assert tops() == before


def test_counts_and_sentence_say_of_what_time_they_are(robot: Callable[..., Robot], look: Callable[..., Page]) -> None:
    spot = robot(["hip", "knee"])
    spot.run()
    page = look(spot.link)
    expect(page.locator("#since")).to_contain_text("since the start of the run")
    expect(page.locator("#verdict")).to_contain_text("last 10 s: Held")
    # Which line is which stands once for all servos.
    expect(page.locator("#servos .keys")).to_have_text("measuredcommand")
    assert page.locator("#servos figcaption i").count() == 0


def test_without_the_record_there_is_no_stick(robot: Callable[..., Robot], look: Callable[..., Page]) -> None:
    spot = robot(["hip"], teleop=False)
    spot.run()
    page = look(spot.link)
    expect(page.locator("#servos")).to_be_visible()
    assert page.locator(".pad").count() == 0
    page.keyboard.down("KeyW")
    time.sleep(0.3)
    assert spot.did("teleop") == []


def test_old_data_never_looks_live(robot: Callable[..., Robot], look: Callable[..., Page]) -> None:
    spot = robot(["hip"])
    spot.run()
    page = look(spot.link)
    lost = page.locator("#lost")
    expect(page.locator("#rate")).to_contain_text("Hz")
    expect(lost).to_be_hidden()
    spot.pause()
    expect(lost).to_contain_text("No data from the robot for")
    expect(page.locator("body")).to_have_class("stale")
    spot.over.clear()
    spot.run()
    expect(lost).to_be_hidden()
    spot.viewer.kill()
    expect(lost).to_contain_text(re.compile(r"No connection: what is shown is \d+ s old"))
    page.keyboard.press("Escape")
    expect(page.locator("#notice")).to_contain_text("NOT CONNECTED")


def test_a_run_that_has_ended_stays_readable(robot: Callable[..., Robot], look: Callable[..., Page]) -> None:
    spot = robot(["hip"])
    spot.run()
    page = look(spot.link)
    expect(page.locator("#rate")).to_contain_text("Hz")
    spot.end()
    expect(page.locator("#phase")).to_have_text("ended")
    expect(page.locator("#lost")).to_be_hidden()
    expect(page.locator("#stop")).to_be_hidden()
    time.sleep(1)
    page.get_by_role("button", name="all", exact=True).first.click()
    until(lambda: sum(plot(page, "hip").evaluate(COLOURED)) > 100, "nothing is drawn")


def test_names_of_a_file_are_text(robot: Callable[..., Robot], look: Callable[..., Page]) -> None:
    spot = robot([EVIL, "hip", "__proto__"], name=EVIL)
    spot.run()
    page = look(spot.link)
    expect(page.locator("h1")).to_have_text(EVIL)
    expect(page.locator("figcaption b", has_text=EVIL)).to_be_visible()
    page.locator("#search").fill("onerror")
    page.locator("#any .chips button").first.click()
    until(lambda: page.locator("#any figure").count() == 1, "the signal is not added")
    assert page.locator("img").count() == 0  # and no dialog, which `look` would have noticed.


def test_nothing_is_wider_than_a_phone(robot: Callable[..., Robot], look: Callable[..., Page]) -> None:
    spot = robot(["a_joint_with_a_name_that_is_very_long_indeed_and_has_no_spaces", "knee"], name="n" * 60)
    spot.late.update(range(300, 2000, 100))
    spot.run()
    page = look(spot.link, **PHONE)
    expect(page.locator("#late tbody tr").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    stop = page.get_by_role("button", name="Stop").bounding_box()
    assert stop["height"] >= 60 and stop["width"] >= 200 and stop["y"] + stop["height"] <= 740, stop
    page.evaluate("window.scrollTo(0, 3000)")
    page.get_by_role("button", name="Stop").tap()
    until(lambda: spot.did("stop"), "not stopped by a finger")


def test_a_log_is_scrubbed(khz: str, tmp_path: pathlib.Path, look: Callable[..., Page]) -> None:
    path = write_log(khz, tmp_path)
    viewer = subprocess.Popen([khz, "view", str(path), "--at", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    try:
        page = look(viewer.stdout.readline().strip())
        shown = page.locator("#shown")
        expect(shown).to_contain_text("everything")
        expect(page.locator("#events tbody")).to_contain_text("active → damping")
        expect(page.locator("#stop")).to_be_hidden()
        canvas = plot(page, "front_left_knee")
        until(lambda: sum(canvas.evaluate(COLOURED)) > 100, "nothing is drawn")
        page.get_by_role("button", name="2 s").click()
        overview = page.locator("#overview")
        box = overview.bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 20)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 20)
        page.mouse.up()

        def is_there() -> bool:
            from_s, to_s = shown_s(page)
            return 1.0 < from_s < 4.0 and abs(to_s - from_s - 2) < 0.01

        until(is_there, "it does not go where it is scrubbed to")
        until(lambda: sum(canvas.evaluate(COLOURED)) > 100, "nothing is drawn where it was scrubbed to")
        # As close as single ticks: read again from the file.
        box = canvas.bounding_box()
        page.mouse.move(box["x"] + 150, box["y"] + 40)
        for _ in range(12):
            page.mouse.wheel(0, -300)
        until(lambda: sum(canvas.evaluate(COLOURED)) > 30, "single ticks are not drawn")
        overview.focus()
        before = shown.inner_text()
        page.keyboard.press("End")
        until(lambda: shown.inner_text() != before, "keys do not move it")
        page.get_by_role("button", name="Play").click()
        expect(page.get_by_role("button", name=re.compile("Play|Pause"))).to_be_visible()
    finally:
        viewer.kill()
        viewer.wait()
