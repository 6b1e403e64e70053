"""The page in a real Chromium: on a screen and on a phone, light and dark, alive, hostile texts, a daemon that dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.chromium import Visit, browser
from tests.support.served_fleet import HEALTHY, RUN, ServedFleet

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TOKEN = "a-token-for-tests"
STALL = f"/incidents/{RUN}%2Fstall"
PATHS = ("/", f"/runs/{RUN}", STALL, "/incidents", "/nodes", "/docs", "/docs/low_power_deadlock")
PHONE, SCREEN = {"width": 375, "height": 700}, {"width": 1280, "height": 900}
COLOURS = """canvas => {  // of the GPUs 12 and 13, shortly ago
  const pen = canvas.getContext("2d"), row = (canvas.height - 5) / 16;
  return [12, 13].map((gpu) => [...pen.getImageData(canvas.width - 40, 5 + row * (gpu + .5), 1, 1).data].slice(0, 3));
}"""
CONTRAST = (Path(__file__).parents[1] / "support" / "contrast.js").read_text(encoding="utf-8")
HOSTILE = (
    "<script>document.title='taken'</script>", "<img src=x onerror=\"document.title='taken'\">", "x" * 3000,
    "\u202eexe.gpj \u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 " * 20, "🔥" * 200, "</pre></main>",
    "' onfocus=alert(1) autofocus='", "\x1b[2J\x07",
)  # fmt: skip


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def hung(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedFleet]:
    """For those that only look."""
    site = ServedFleet(tmp_path_factory.mktemp("hung"))
    site.play_until_open()
    site.serve()
    yield site
    site.close()


@pytest.fixture
def site_of(tmp_path: Path) -> Iterator[Callable[..., ServedFleet]]:
    """Makes sites, and closes them whatever happens."""
    made: list[ServedFleet] = []

    def make(*args: Any, **settings: Any) -> ServedFleet:
        made.append(ServedFleet(tmp_path, *args, **settings))
        return made[-1]

    yield make
    for site in made:
        site.close()


@pytest.fixture
def fresh(site_of: Callable[..., ServedFleet]) -> ServedFleet:
    site = site_of()
    site.play_until_open()
    site.serve()
    return site


@pytest.fixture
def visit(chromium: Browser, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """A window at the fresh site; nothing may go wrong in it."""
    site = request.getfixturevalue("fresh")
    person = Visit(chromium, site.url, viewport=SCREEN)
    yield person
    person.close()
    assert person.problems == []


def look(person: Visit, path: str) -> None:
    """On a screen and on a phone, light and dark: nothing sticks out, everything can be read."""
    page = person.open(path)
    if page.locator("[data-plots]").count():
        page.locator(".uplot").first.wait_for()
    for window in (SCREEN, PHONE):
        page.set_viewport_size(window)
        assert person.sideways() <= 0, (path, window)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(CONTRAST) == [], (path, window, scheme)


def test_every_page_fits_is_legible_breaks_no_rule_and_asks_nobody_else(chromium, hung):
    person = Visit(chromium, hung.url)
    for path in PATHS:
        look(person, path)
        assert person.page.locator("h1").count() == 1, path
    assert person.problems == []
    assert all(url.startswith(hung.url) for url in person.asked)
    person.close()


def test_strips_and_plots_show_the_hang_and_read_out_by_the_keyboard(chromium, hung):
    person = Visit(chromium, hung.url, viewport=SCREEN)
    page = person.open(f"/runs/{RUN}")
    page.locator(".uplot canvas").first.wait_for()
    assert page.locator(".plots figcaption").all_inner_texts()[0] == "Step: 4,154 now"
    busy = page.locator("canvas[data-what=busy]")
    busy.focus()
    for _ in range(13):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    said = page.locator("output").inner_text()
    assert said.startswith("gpu-node-02 gpu 5, ")
    assert said.endswith(": power 18 %, utilization 0 %")
    bright, odd = busy.evaluate(COLOURS)
    assert sum(bright) > 2 * sum(odd)
    person.close()
    assert person.problems == []


def test_an_incident_is_acknowledged_snoozed_and_ended_by_clicking(fresh, visit):
    page = visit.open("/")
    page.get_by_label("Your name").fill("Ada")
    page.get_by_role("button", name="I have it").click()
    page.locator(".standing", has_text="acknowledged by Ada").wait_for()
    page.get_by_label("Quiet for").select_option(label="4 hours")
    page.get_by_role("button", name="Snooze").click()
    page.get_by_role("button", name="End the snooze").wait_for()
    incident = fresh.daemon.desk.incidents[f"{RUN}/stall"]
    assert (incident.acknowledged_by, incident.snoozed_until_at) == ("Ada", fresh.clock.now + 14_400)
    page.wait_for_function("document.querySelector('input[name=by]').value === 'Ada'")  # remembered
    page.get_by_text("End it").click()
    page.get_by_label("Why").fill("a drill")
    page.get_by_role("button", name="It was a false alarm").click()
    page.get_by_text("How it ended: closed by Ada: a drill").wait_for()


def test_it_follows_the_run_without_being_reloaded_and_leaves_alone_what_is_being_typed(site_of, chromium):
    site = site_of()
    site.play_until_open()
    site.serve()
    person = Visit(chromium, site.url, viewport=SCREEN)
    page = person.open("/")
    page.get_by_label("Your name").fill("Gra")
    page.get_by_text("End it").click()
    page.get_by_label("Why").fill("half a wo")
    page.evaluate("window.same = true")
    site.play(10)
    page.locator(".doing", has_text="for 2 m 20 s").wait_for()
    assert page.get_by_label("Why").input_value() == "half a wo"
    assert page.get_by_label("Your name").input_value() == "Gra"
    assert page.get_by_label("Why").is_visible()
    site.play(600)
    page.get_by_role("heading", name=f"{RUN} is training").first.wait_for()
    page.get_by_text("restarted as attempt 2").wait_for()
    assert page.title() == f"{RUN} is training · runwatch"
    assert page.evaluate("window.same") is True
    person.close()
    assert person.problems == []


def test_a_daemon_that_dies_is_said_and_one_that_comes_back_is_followed_again(site_of, chromium):
    site = site_of(HEALTHY, token=TOKEN)
    site.play(300)
    site.serve()
    person = Visit(chromium, site.url, viewport=PHONE)
    page = person.open("/")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="is training").first.wait_for()
    site.stop()
    page.get_by_text("No data for").last.wait_for()
    assert page.locator("body.is-lost").count() == 1
    site.play(10)
    site.serve()
    page.locator("body:not(.is-lost)").wait_for()
    page.get_by_text("4,125 of 5,000").wait_for()
    person.close()
    assert all(
        "ERR_CONNECTION_REFUSED" in said or "ERR_CONNECTION_RESET" in said or "ERR_EMPTY" in said
        for said in person.problems
    )


def test_the_page_of_a_run_outlives_a_restart_of_the_daemon(site_of, chromium):
    """The new process knows of no run before its first look."""
    old, new = site_of(HEALTHY), site_of(HEALTHY)
    old.play(300)
    old.serve()
    person = Visit(chromium, old.url, viewport=SCREEN)
    page = person.open(f"/runs/{RUN}")
    page.get_by_role("heading", name="is training").first.wait_for()
    old.stop()
    new.serve_in_place_of(old)
    page.reload()  # a look that falls into those seconds, or somebody who comes just then
    page.get_by_text("has not looked at this run yet").wait_for()
    new.play(400)
    page.get_by_role("heading", name="is training").first.wait_for()
    person.close()
    assert all("503" in said or "ERR_" in said for said in person.problems)


def test_a_daemon_that_answers_but_looks_no_more_is_said_too(fresh, visit):
    page = visit.open("/")
    fresh.clock.advance(600)
    page.get_by_text("its last look at the runs was").last.wait_for()


def test_the_login_leads_to_what_was_wanted_and_a_wrong_token_nowhere(site_of, chromium):
    site = site_of(token=TOKEN)
    site.play_until_open()
    site.serve()
    person = Visit(chromium, site.url, viewport=PHONE)
    page = person.open(STALL)
    page.get_by_label("Token").fill("guess")
    page.get_by_role("button", name="Log in").click()
    page.get_by_text("That is not the token").wait_for()
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name=f"{RUN} stands still").wait_for()
    assert person.sideways() <= 0
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Log out").click()
    page.get_by_label("Token").wait_for()
    assert [said for said in person.problems if "401" not in said] == []
    person.close()


def test_hostile_texts_stay_texts_and_move_nothing(chromium, site_of):
    site = site_of()
    site.play_until_open()
    key, desk = f"{RUN}/stall", site.daemon.desk
    evidence = {**desk.incidents[key].evidence, "log_tail": list(HOSTILE), HOSTILE[0]: HOSTILE[2], "why": list(HOSTILE)}
    evil = replace(desk.incidents[key], summary=" ".join(HOSTILE), hint=HOSTILE[2], evidence=evidence)
    desk._incidents = {**desk.incidents, key: evil}
    site.daemon.frames[RUN] = replace(site.daemon.frames[RUN], log_tail=HOSTILE)
    site.serve()
    person = Visit(chromium, site.url)
    for path in ("/", f"/runs/{RUN}", STALL):
        look(person, path)
        page = person.page
        assert "taken" not in page.title()
        assert page.locator("main img, main script").count() == 0
        assert page.get_by_text("<script>document.title").count() >= 1
    person.close()
    assert person.problems == []


def test_without_scripts_everything_is_read_and_an_incident_acknowledged(chromium, fresh):
    person = Visit(chromium, fresh.url, viewport=PHONE, java_script_enabled=False)
    page = person.open("/")
    assert page.get_by_role("heading", name=f"{RUN} stands still", exact=True).is_visible()
    page.get_by_role("button", name="I have it").click()
    page.locator(".standing", has_text="acknowledged by the page").wait_for()
    person.close()


def test_the_keyboard_alone_reaches_the_button_that_matters(fresh, visit):
    page = visit.open("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    for _ in range(3):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "I have it"
    page.keyboard.press("Enter")
    page.locator(".standing", has_text="acknowledged by").wait_for()


def test_a_fleet_of_2048_gpus_is_drawn_with_a_line_for_each_node(chromium, site_of):
    site = site_of(nodes=256)
    site.play(120)
    site.serve()
    person = Visit(chromium, site.url, viewport=PHONE)
    page = person.open("/")
    page.get_by_text("2048 GPUs over time; a line is a node").wait_for()
    assert page.locator("canvas[data-what=busy]").bounding_box()["height"] >= 256
    assert person.sideways() <= 0
    person.close()
    assert person.problems == []
