"""The documentation builds as a site; a link to a page, a file or a heading that is not there is a failure. In a browser, no page is
wider than the screen, code can be copied, and a search finds the page that explains a thing before the changelog."""

import pathlib
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: Of a telephone, and of a window beside another.
WIDTHS = (420, 900)
#: What is wider than its page, and table cells that are too long to be read, by the number of their words.
LOOK = """() => ({
  width: document.scrollingElement.scrollWidth,
  long: [...document.querySelectorAll("td")].map((cell) => cell.innerText).filter((text) => text.split(/\\s+/).length > 60),
  blocks: document.querySelectorAll("div.highlight").length,
  buttons: document.querySelectorAll("div.highlight > button.copy").length,
})"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("site")
    words = ["-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "--builder", "html", ROOT / "docs", folder]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_builds_without_a_warning(site: pathlib.Path) -> None:
    assert (site / "index.html").is_file()


def test_every_page_fits_the_screen_and_its_tables_can_be_read(site: pathlib.Path, browser: "Browser") -> None:
    found = []
    page = browser.new_page()
    for file in sorted(site.glob("*.html")):
        page.goto(file.as_uri())
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            seen = page.evaluate(LOOK)
            if seen["width"] > width:
                found.append(f"{file.name} is {seen['width']} px wide on a screen of {width}")
        assert seen["blocks"] == seen["buttons"], file.name
        found += [f"{file.name}: a cell has {len(text.split())} words: {text[:80]} …" for text in seen["long"]]
    page.close()
    assert not found, "\n".join(found)


def test_code_is_copied_without_what_surrounds_it(site: pathlib.Path, browser: "Browser") -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto((site / "live.html").as_uri())
    page.locator("button.copy").first.click()
    page.get_by_role("button", name="Copied").wait_for(timeout=60_000)
    assert page.evaluate("navigator.clipboard.readText()").strip() == "khz run --view --duration 5s"
    context.close()


def test_the_changelog_is_found_last(site: pathlib.Path, browser: "Browser") -> None:
    page = browser.new_page()
    page.goto((site / "search.html").as_uri() + "?q=watchdog")
    page.wait_for_function("document.querySelectorAll('ul.search li').length > 3", timeout=60_000)
    page.wait_for_function("/finished|found/i.test(document.querySelector('.search-summary')?.innerText ?? '')", timeout=60_000)
    found = page.locator("ul.search li > a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    page.close()
    pages = [link.partition("?")[0].partition("#")[0] for link in found]
    assert "changelog.html" in pages and "changelog.html" not in pages[: pages.index("changelog.html")]
    assert set(pages[pages.index("changelog.html") :]) == {"changelog.html"}, pages
