"""The report pages in a real browser: they draw, they zoom, they ask nothing of the network."""

import pathlib
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page

# The first test builds the example that writes the pages.
pytestmark = pytest.mark.timeout(900)

SAMPLES = ["run", "compare", "hostile", "empty", "large"]

# How many pixels of a canvas have each colour that is neither transparent nor grey: what lines are drawn in.
COLOURED_PIXELS = """
canvas => {
  const copy = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height });
  const pen = copy.getContext("2d", { willReadFrequently: true });
  pen.drawImage(canvas, 0, 0);
  const { data } = pen.getImageData(0, 0, copy.width, copy.height);
  let coloured = 0;
  for (let i = 0; i < data.length; i += 4) {
    const [r, g, b, a] = data.slice(i, i + 4);
    if (a > 128 && Math.max(r, g, b) - Math.min(r, g, b) > 40) coloured++;
  }
  return coloured;
}
"""

Visit = Callable[..., Page]


def plot(page: Page, title: str) -> Locator:
    return page.locator("figure.plot", has=page.get_by_text(title, exact=True)).first


def view(figure: Locator) -> list[float]:
    return [float(bound) for bound in (figure.get_attribute("data-view") or "").split()]


def drag(page: Page, figure: Locator, start: float, end: float) -> None:
    """Draws the pointer across the canvas, from one fraction of its width to another."""
    figure.scroll_into_view_if_needed()
    box = figure.locator("canvas").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * start, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * end, middle, steps=5)
    page.mouse.up()


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_opens_without_complaint(visit: Visit, samples: pathlib.Path, name: str, scheme: str) -> None:
    page = visit(samples / f"{name}.html", color_scheme=scheme)
    assert page.locator("h1").count() == 1
    assert page.evaluate("window.broken") is None


@pytest.mark.parametrize("name", ["run", "compare", "large"])
def test_every_plot_is_drawn(visit: Visit, samples: pathlib.Path, name: str) -> None:
    page = visit(samples / f"{name}.html")
    canvases = page.locator("figure.plot canvas").all()
    assert canvases
    for canvas in canvases:
        assert canvas.evaluate(COLOURED_PIXELS) > 100, canvas.get_attribute("aria-label")


def test_bars_and_tables_need_no_script(browser: object, samples: pathlib.Path) -> None:
    page = browser.new_page(java_script_enabled=False)  # type: ignore[attr-defined]
    page.goto((samples / "run.html").as_uri())
    bars = page.locator("figure.gantt .track b").all()
    assert any((bar.bounding_box() or {"width": 0})["width"] > 50 for bar in bars)
    assert page.locator("td.n").count() > 50
    page.close()


def test_plots_over_time_zoom_together_and_back(visit: Visit, samples: pathlib.Path) -> None:
    page = visit(samples / "run.html")
    cycle, wake, knee = (plot(page, title) for title in ["Cycle time", "Wake latency", "front_left_knee"])
    curve = plot(page, "Percentiles")
    whole, whole_curve = view(cycle), view(curve)
    drag(page, cycle, 0.4, 0.6)
    low, high = view(cycle)
    assert whole[0] < low < high < whole[1]
    assert (high - low) < 0.3 * (whole[1] - whole[0])
    assert view(wake) == view(knee) == [low, high]
    assert view(curve) == whole_curve
    cycle.locator("canvas").dblclick()
    assert view(cycle) == view(wake) == whole


def test_the_keyboard_zooms_too(visit: Visit, samples: pathlib.Path) -> None:
    page = visit(samples / "run.html")
    figure = plot(page, "Wake latency")
    whole = view(figure)
    figure.locator("canvas").focus()
    page.keyboard.press("+")
    low, high = view(figure)
    assert abs((high - low) / (whole[1] - whole[0]) - 0.5) < 1e-6
    page.keyboard.press("ArrowRight")
    assert view(figure)[0] > low
    page.keyboard.press("Escape")
    assert view(figure) == whole


def test_two_fingers_zoom_and_one_moves(visit: Visit, samples: pathlib.Path) -> None:
    page = visit(samples / "run.html", viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    figure = plot(page, "Cycle time")
    figure.locator("canvas").scroll_into_view_if_needed()
    box = figure.locator("canvas").bounding_box()
    assert box is not None
    fingers = page.context.new_cdp_session(page)

    def touch(kind: str, *places: float) -> None:
        points = [{"x": box["x"] + x, "y": box["y"] + 80, "id": finger} for finger, x in enumerate(places)]
        fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    whole = view(figure)
    touch("touchStart", 150)
    touch("touchStart", 150, 210)
    for moved in range(0, 60, 10):
        touch("touchMove", 150 - moved, 210 + moved)
    touch("touchEnd")
    low, high = view(figure)
    assert whole[0] < low < high < whole[1]
    touch("touchStart", 150)
    for moved in range(0, 60, 10):
        touch("touchMove", 150 - moved)
    touch("touchEnd")
    later, end = view(figure)
    assert later > low and abs((end - later) - (high - low)) < 1e-6


def test_a_drag_of_nothing_and_one_beyond_the_edge_are_harmless(visit: Visit, samples: pathlib.Path) -> None:
    page = visit(samples / "run.html")
    figure = plot(page, "Cycle time")
    whole = view(figure)
    drag(page, figure, 0.5, 0.5)
    assert view(figure) == whole
    drag(page, figure, 0.9, 1.0)
    drag(page, figure, 0.5, 1.0)
    low, high = view(figure)
    assert whole[0] <= low < high <= whole[1]


def test_the_legend_hides_and_shows_a_line(visit: Visit, samples: pathlib.Path) -> None:
    page = visit(samples / "run.html")
    figure = plot(page, "Cycle time")
    canvas, button = figure.locator("canvas"), figure.get_by_role("button", name="loop compute time")
    before = canvas.evaluate(COLOURED_PIXELS)
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert canvas.evaluate(COLOURED_PIXELS) != before
    button.click()
    assert canvas.evaluate(COLOURED_PIXELS) == before


def test_the_pointer_reads_values(visit: Visit, samples: pathlib.Path) -> None:
    page = visit(samples / "run.html")
    figure = plot(page, "Cycle time")
    figure.locator("canvas").hover(position={"x": 400, "y": 100})
    tip = figure.locator(".tip")
    assert tip.is_visible()
    assert "cycle" in tip.inner_text() and "µs" in tip.inner_text()
    assert plot(page, "Wake latency").locator(".cursor").is_visible()


def test_the_peak_of_ten_million_points_is_shown(visit: Visit, samples: pathlib.Path) -> None:
    page = visit(samples / "large.html")
    label = page.locator("figure.plot canvas").get_attribute("aria-label") or ""
    assert "to 9 ms" in label
    assert (samples / "large.html").stat().st_size < 300_000


def test_hostile_names_are_shown_as_they_are(visit: Visit, samples: pathlib.Path) -> None:
    page = visit(samples / "hostile.html")
    assert "<script>window.broken=1</script>" in page.locator("h1").inner_text()
    assert page.locator("img").count() == 0
    figure = page.locator("figure.plot")
    figure.locator("canvas").hover(position={"x": 200, "y": 100})
    assert page.evaluate("window.broken") is None
    assert page.locator("img").count() == 0


def test_nothing_to_draw_is_stated(visit: Visit, samples: pathlib.Path) -> None:
    page = visit(samples / "empty.html")
    for canvas in page.locator("figure.plot canvas").all():
        canvas.hover(position={"x": 200, "y": 100})
    assert page.locator("figure.plot").count() == 6


def test_fits_a_phone(visit: Visit, samples: pathlib.Path) -> None:
    for name in ["run", "compare"]:
        page = visit(samples / f"{name}.html", viewport={"width": 360, "height": 720})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_prints_dark_on_white(visit: Visit, samples: pathlib.Path) -> None:
    page = visit(samples / "run.html", color_scheme="dark")
    assert page.pdf(print_background=True).startswith(b"%PDF")
    during = page.evaluate(
        """() => {
          dispatchEvent(new Event("beforeprint"));
          const paper = getComputedStyle(document.documentElement).getPropertyValue("--paper");
          dispatchEvent(new Event("afterprint"));
          return paper.trim();
        }"""
    )
    assert during == "#ffffff"


# Where each canvas writes what, from now on: the label, its left and right edge, its middle and its height.
RECORD_TEXTS = """() => {
  const fill = CanvasRenderingContext2D.prototype.fillText;
  const clear = CanvasRenderingContext2D.prototype.clearRect;
  CanvasRenderingContext2D.prototype.clearRect = function (...rest) { this.canvas.texts = []; return clear.apply(this, rest); };
  CanvasRenderingContext2D.prototype.fillText = function (words, x, y) {
    const { width } = this.measureText(words), size = parseFloat(this.font);
    const left = x - { left: 0, right: width, center: width / 2 }[this.textAlign];
    const top = y - { top: 0, middle: size / 2, bottom: size }[this.textBaseline];
    this.canvas.texts.push({ words, left, right: left + width, top, bottom: top + size });
    return fill.call(this, words, x, y);
  };
}"""
OVERPRINTED = """(canvas) => {
  const found = [], texts = canvas.texts.filter((text) => text.words);
  texts.forEach((a, at) => texts.slice(at + 1).forEach((b) => {
    if (a.left < b.right && b.left < a.right && a.top < b.bottom - 1 && b.top < a.bottom - 1) found.push(`${a.words} over ${b.words}`);
  }));
  return found;
}"""

# Coloured pixels at a share of the plot's width.
COLOURED_COLUMN = """(canvas, share) => {
  const ratio = devicePixelRatio, left = 62, right = canvas.clientWidth - 12;
  const x = Math.round((left + share * (right - left)) * ratio);
  const copy = Object.assign(document.createElement("canvas"), { width: 1, height: canvas.height });
  const pen = copy.getContext("2d", { willReadFrequently: true });
  pen.drawImage(canvas, -x, 0);
  const { data } = pen.getImageData(0, 0, 1, copy.height);
  let coloured = 0;
  for (let i = 0; i < data.length; i += 4) {
    const [r, g, b, a] = data.slice(i, i + 4);
    if (a > 128 && Math.max(r, g, b) - Math.min(r, g, b) > 40) coloured++;
  }
  return coloured;
}"""


@pytest.mark.parametrize("width", [1280, 700])
def test_no_label_overprints_another(visit: Visit, samples: pathlib.Path, width: int) -> None:
    page = visit(samples / "run.html", viewport={"width": 900, "height": 800})
    page.evaluate(RECORD_TEXTS)
    page.set_viewport_size({"width": width, "height": 800})
    for canvas in page.locator("figure.plot canvas").all():
        page.wait_for_function("(canvas) => canvas.texts?.length", arg=canvas.element_handle(), timeout=60_000)
        assert canvas.evaluate(OVERPRINTED) == [], canvas.get_attribute("aria-label")


def test_a_hole_and_a_tick_of_88_ms_hide_nothing(visit: Visit, samples: pathlib.Path) -> None:
    page = visit(samples / "run.html")
    bars = page.locator("figure.gantt").first
    assert "ends at 88" in bars.locator(".cut").inner_text()
    # The bus takes 0.42 of a period: in a chart of 88 ms it would be a line.
    widths = bars.locator(".track b").evaluate_all("(bars) => bars.map((bar) => parseFloat(bar.style.width))")
    assert max(widths) > 30
    # In the middle of the hole, at 3.044 s, nothing is drawn.
    figure = plot(page, "Wake latency")
    low, high = view(figure)
    assert figure.locator("canvas").evaluate(COLOURED_COLUMN, (3.044 - low) / (high - low)) == 0
    assert figure.locator("canvas").evaluate(COLOURED_COLUMN, (2.5 - low) / (high - low)) > 0


def test_a_stack_is_cut_above_the_period_and_whole_where_one_looks_closer(visit: Visit, samples: pathlib.Path) -> None:
    page = visit(samples / "run.html", viewport={"width": 900, "height": 800})
    page.evaluate(RECORD_TEXTS)
    page.set_viewport_size({"width": 1000, "height": 800})
    canvas = plot(page, "Phases over time").locator("canvas")
    cut = "(canvas) => canvas.texts?.some((text) => text.words.startsWith('cut; goes to 88'))"
    page.wait_for_function(cut, arg=canvas.element_handle(), timeout=60_000)
    canvas.focus()
    page.keyboard.press("+")
    page.wait_for_function(f"(canvas) => !({cut})(canvas)", arg=canvas.element_handle(), timeout=60_000)


def test_small_plots_have_units(visit: Visit, samples: pathlib.Path) -> None:
    page = visit(samples / "run.html", viewport={"width": 900, "height": 800})
    page.evaluate(RECORD_TEXTS)
    page.set_viewport_size({"width": 1000, "height": 800})
    canvas = plot(page, "front_left_knee").locator("canvas")
    page.wait_for_function("(canvas) => canvas.texts?.length", arg=canvas.element_handle(), timeout=60_000)
    words = canvas.evaluate("(canvas) => canvas.texts.map((text) => text.words)")
    assert "rad" in words and any(word.endswith(" s") for word in words), words


def test_one_outlier_does_not_flatten_a_plot_and_is_marked_where_it_is_cut(visit: Visit, samples: pathlib.Path) -> None:
    page = visit(samples / "run.html", viewport={"width": 900, "height": 800})
    page.evaluate(RECORD_TEXTS)
    page.set_viewport_size({"width": 1000, "height": 800})
    figure = plot(page, "Wake latency")
    canvas = figure.locator("canvas")
    cut = "(canvas) => canvas.texts?.some((text) => text.words.startsWith('cut; goes to'))"
    page.wait_for_function(cut, arg=canvas.element_handle(), timeout=60_000)
    before = canvas.evaluate(COLOURED_PIXELS)
    whole = figure.get_by_role("button", name="full height")
    whole.click()
    assert not canvas.evaluate(cut)
    assert canvas.evaluate(COLOURED_PIXELS) < before, "cut, the curve is no larger than with its outlier"
    whole.click()
    assert canvas.evaluate(cut)
