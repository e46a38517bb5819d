"""The HTML page in a real browser: it filters, sorts, fits a phone, prints, and needs no network."""

import json
import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select

from tests import sample_records
from tests.helpers import present, wait_until
from tests.reports.page.pages import page_of
from tritonproof.record.setup import CaseKey

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    BROWSER is None or DRIVER is None,
    reason="needs Chromium and its driver: apt-get install chromium chromium-driver",
)
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run")
QUIET = ("--disable-background-networking", "--disable-component-update", "--disable-sync")
FAST, SLOW, FAILED = "a40-resnet50-onnx-fp16", "cpu-nnunet-ts-trace-fp32", "cpu-fastpitch-onnx-fp32"
ALL = [FAST, FAILED, SLOW]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of three cases as a file: a fast one, a slow one, and one that failed."""
    failed = CaseKey("cpu", "fastpitch", "onnx", None, "fp32")
    cases = [
        sample_records.swept(case=CaseKey("a40", "resnet50", "onnx", None, "fp16")),
        sample_records.record(case=failed, accuracy=sample_records.failed_accuracy()),
        sample_records.random_weights(points=(sample_records.measured("offline", 1, 9.5),)),
    ]
    folder = tmp_path_factory.mktemp("page")
    file = folder / "report.html"
    file.write_text(page_of(folder, *cases))
    return file.as_uri()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """Chromium with a new profile; it logs what it requests."""
    options = webdriver.ChromeOptions()
    options.binary_location = present(BROWSER)
    for flag in (*FLAGS, *QUIET, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser: webdriver.Chrome, address: str) -> webdriver.Chrome:
    """The page just loaded, on a desktop with a light theme."""
    resize(browser, 1280, 900)
    emulate(browser)  # before loading: on a loaded page, pictures follow a new theme with a delay
    browser.get("about:blank")
    browser.get(address)
    return browser


def resize(browser: webdriver.Chrome, width: int, height: int) -> None:
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def emulate(browser: webdriver.Chrome, *, media: str = "", scheme: str = "light") -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})


def seen(browser: webdriver.Chrome) -> list[str]:
    """The cases in the visible rows of the summary, from the top."""
    rows = browser.find_elements(By.CSS_SELECTOR, "#summary tbody tr")
    return [str(row.get_attribute("data-case")) for row in rows if row.is_displayed()]


def header(browser: webdriver.Chrome, name: str) -> Any:
    """The button in the header of a column."""
    buttons = browser.find_elements(By.CSS_SELECTOR, "#summary th button")
    return next(button for button in buttons if button.text.startswith(name))


def order(browser: webdriver.Chrome, name: str) -> str | None:
    """The sort order that a screen reader announces for the column."""
    direction: str | None = header(browser, name).find_element(By.XPATH, "..").get_attribute("aria-sort")
    return direction


def test_page_makes_no_requests_or_errors(browser: webdriver.Chrome, address: str) -> None:
    browser.get("about:blank")  # the browser's start page makes many requests
    browser.get_log("performance")
    browser.get_log("browser")

    browser.get(address)
    for theme in ("light", "dark"):
        emulate(browser, scheme=theme)
        browser.execute_script("window.scrollTo(0, document.body.scrollHeight)")

    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    requests = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
    urls = [request["request"]["url"] for request in requests]
    assert [url for url in urls if not url.startswith("data:image/")] == [address]
    assert browser.get_log("browser") == []
    is_drawn = "return [...document.images].every(image => image.complete && image.naturalWidth > 0)"
    assert browser.execute_script(is_drawn)


def test_text_and_choice_filters_combine_and_reset_together(opened: webdriver.Chrome) -> None:
    Select(opened.find_element(By.NAME, "target")).select_by_visible_text("cpu")
    wait_until(lambda: seen(opened) == [FAILED, SLOW])
    box = opened.find_element(By.NAME, "text")
    box.send_keys("CPU  onnx")
    assert seen(opened) == [FAILED]
    assert opened.find_element(By.ID, "count").text == "1 of 3 cases"
    assert [opened.find_element(By.ID, case).is_displayed() for case in ALL] == [False, True, False]
    box.send_keys(" resnet")
    assert seen(opened) == []
    assert opened.find_element(By.ID, "nothing").is_displayed()

    opened.find_element(By.CSS_SELECTOR, "button[type=reset]").click()

    wait_until(lambda: seen(opened) == ALL)
    assert opened.find_element(By.ID, "count").text == "3 cases"
    assert not opened.find_element(By.ID, "nothing").is_displayed()


def test_clicks_sort_descending_ascending_and_unsorted(opened: webdriver.Chrome) -> None:
    states = []
    header(opened, "Case").click()
    for _ in range(3):
        header(opened, "Inferences/second").click()
        states.append((seen(opened), order(opened, "Inferences/second"), order(opened, "Case")))

    assert states == [
        ([FAST, SLOW, FAILED], "descending", "none"),
        ([SLOW, FAST, FAILED], "ascending", "none"),
        (ALL, "none", "none"),
    ]


def test_link_reaches_a_filtered_case(opened: webdriver.Chrome, address: str) -> None:
    opened.find_element(By.NAME, "text").send_keys("resnet50")
    assert not opened.find_element(By.ID, SLOW).is_displayed()
    opened.get(f"{address}#{SLOW}")
    top = f"return document.getElementById('{SLOW}').getBoundingClientRect().top"
    wait_until(lambda: seen(opened) == ALL)
    wait_until(lambda: abs(opened.execute_script(top)) < 40)


@pytest.mark.parametrize("width", [320, 768])
def test_narrow_screen_needs_no_horizontal_scrolling(opened: webdriver.Chrome, width: int) -> None:
    resize(opened, width, 844)
    for details in opened.find_elements(By.TAG_NAME, "details"):
        opened.execute_script("arguments[0].open = true", details)
    assert opened.execute_script("return window.innerWidth") == width
    assert opened.execute_script("return document.documentElement.scrollWidth") <= width


def test_dark_theme_darkens_page_and_curve(opened: webdriver.Chrome) -> None:
    for scheme, is_dark in (("light", False), ("dark", True)):
        emulate(opened, scheme=scheme)
        assert (max(map(int, re.findall(r"\d+", background(opened)))) < 60) == is_dark
        wait_until(lambda is_dark=is_dark: (brightness(opened) < 60) == is_dark)  # type: ignore[misc]


def brightness(browser: webdriver.Chrome) -> int:
    """The red value of the curve's first pixel."""
    script = (
        "const image = document.images[0], canvas = document.createElement('canvas');"
        "const context = canvas.getContext('2d'); context.drawImage(image, 0, 0);"
        "return context.getImageData(2, 2, 1, 1).data[0]"
    )
    return int(browser.execute_script(script))


def background(browser: webdriver.Chrome) -> str:
    return str(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))


def test_print_has_no_controls_and_everything_unfolded(opened: webdriver.Chrome) -> None:
    opened.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    resize(opened, 700, 1000)  # about the width of A4 within its margins
    emulate(opened, media="print", scheme="dark")

    assert not opened.find_element(By.ID, "controls").is_displayed()
    assert opened.execute_script("return [...document.querySelectorAll('details')].every(one => one.open)")
    assert background(opened) == "rgb(255, 255, 255)"
    right = "[...document.querySelectorAll('table')].map(one => one.getBoundingClientRect().right)"
    assert max(opened.execute_script(f"return {right}")) <= 701, "paper cannot be moved sideways"
    opened.execute_script("window.dispatchEvent(new Event('afterprint'))")
    emulate(opened)
    assert not opened.execute_script("return [...document.querySelectorAll('details')].some(one => one.open)")
