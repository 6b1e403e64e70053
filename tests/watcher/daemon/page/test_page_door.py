"""Who may see the page and who may change something through it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.asgi_browser import Browser
from tests.support.served_fleet import RUN, ServedFleet
from watcher.daemon.page.session import SESSION_SECONDS

TOKEN = "correct horse battery staple"
STALL = f"/incidents/{RUN}%2Fstall"


@pytest.fixture(scope="module")
def hung(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedFleet]:
    site = ServedFleet(tmp_path_factory.mktemp("hung"), token=TOKEN)
    site.play_until_open()
    yield site
    site.close()


@pytest.fixture(scope="module")
def locked(hung: ServedFleet):
    return hung.app


@pytest.fixture(scope="module")
def open_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedFleet]:
    site = ServedFleet(tmp_path_factory.mktemp("open"))
    site.play_until_open()
    yield site
    site.close()


def log_in(app, **more) -> Browser:
    browser = Browser(app, **more)
    assert browser.post("/login", {"token": TOKEN, "next": "/"}).status == 303
    return browser


@pytest.mark.parametrize("path", ["/", f"/runs/{RUN}", "/incidents", STALL, "/nodes"])
def test_a_stranger_is_led_to_the_login_and_back(locked, path):
    answer = Browser(locked).get(path)
    assert answer.status == 303
    assert answer.header("location").startswith("/login")
    browser = Browser(locked)
    assert browser.post("/login", {"token": TOKEN, "next": path}).header("location") == path
    assert browser.get(path).status == 200


@pytest.mark.parametrize("path", ["/", f"/pictures/strip/{RUN}", f"/pictures/plots/{RUN}", "/api/runs", "/metrics"])
def test_a_program_without_the_token_is_refused(locked, path):
    assert Browser(locked, headers={"accept": "*/*"}).get(path).status == 401


def test_the_page_of_a_person_opens_the_api_for_reading_and_never_for_changing(locked):
    browser = log_in(locked)
    assert browser.get("/api/runs").status == 200
    assert browser.post(f"/api/incidents/{RUN}%2Fstall/do/ack").status == 401


@pytest.mark.parametrize("path", ["/docs", "/docs/crash", "/static/page.css", "/login"])
def test_what_holds_no_secret_needs_no_login(locked, path):
    assert Browser(locked).get(path).status == 200


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_cookie_is_kept_from_scripts_and_other_sites_and_from_plain_http_where_there_is_tls(locked, scheme):
    answer = Browser(locked, scheme=scheme).post("/login", {"token": TOKEN})
    cookie = answer.header("set-cookie").lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert f"max-age={int(SESSION_SECONDS)}" in cookie
    assert ("; secure" in cookie) == (scheme == "https")
    assert TOKEN not in cookie


def test_a_proxy_that_ends_tls_makes_the_cookie_secure_too(locked):
    answer = Browser(locked).post("/login", {"token": TOKEN}, x_forwarded_proto="https")
    assert "; secure" in answer.header("set-cookie").lower()


def test_an_altered_or_foreign_cookie_opens_nothing(locked):
    browser = log_in(locked)
    ((name, value),) = browser.cookies.items()
    expires, nonce, mark = value.split(".")
    for forged in (
        f"{int(expires) + 9}.{nonce}.{mark}", f"{expires}.{nonce}.{'0' * 64}", f"{expires}.x.{mark}", "", "a.b.c",
        "..", value + "0", "9" * 5000, "é",
    ):  # fmt: skip
        browser.cookies = {name: forged}
        assert browser.get("/").status == 303, forged


def test_a_session_ends_after_its_time(tmp_path):
    site = ServedFleet(tmp_path, token=TOKEN)
    browser = log_in(site.app)
    site.clock.advance(SESSION_SECONDS - 10)
    assert browser.get("/").status == 200
    site.clock.advance(11)
    assert browser.get("/").status == 303
    site.close()


def test_a_session_outlives_the_daemon_and_ends_with_the_token(tmp_path):
    site = ServedFleet(tmp_path, token=TOKEN)
    browser = log_in(site.app)
    site.close()
    for token, status in ((TOKEN, 200), ("another", 303)):
        again = ServedFleet(tmp_path, token=token)
        browser.app = again.app
        assert browser.get("/").status == status
        again.close()


def test_logging_out_takes_the_cookie_away(locked):
    browser = log_in(locked)
    assert browser.post("/logout", {"csrf": "0" * 64}).status == 403
    assert browser.post("/logout", {"csrf": browser.get("/").csrf}).status == 303
    assert browser.get("/").status == 303


def test_wrong_tokens_are_slowed_down_for_their_address_alone(locked):
    guesser = Browser(locked, address="198.51.100.1")
    assert [guesser.post("/login", {"token": str(n)}).status for n in range(10)] == [401] * 10
    refused = guesser.post("/login", {"token": TOKEN})
    assert refused.status == 429
    assert int(refused.header("retry-after")) > 0
    assert log_in(locked, address="198.51.100.2").get("/").status == 200


@pytest.mark.parametrize(
    "place",
    ["//evil.example", "https://evil.example", "/\\evil.example", "evil", "/a\r\nSet-Cookie: x=y", "/login", ""],
)
def test_the_login_leads_nowhere_else(locked, place):
    assert Browser(locked).post("/login", {"token": TOKEN, "next": place}).header("location") == "/"


def test_the_login_cannot_be_framed_and_holds_nothing_inline(locked):
    answer = Browser(locked).get("/login?next=%22%3E%3Cscript%3E")
    assert "frame-ancestors 'none'" in answer.header("content-security-policy")
    assert "<script>" not in answer.text


def test_a_login_form_of_another_site_is_refused(locked):
    assert Browser(locked).post("/login", {"token": TOKEN}, origin="https://evil.example").status == 403


@pytest.mark.parametrize(
    ("field", "headers", "status"),
    [
        ("right", {}, 303),
        ("right", {"sec_fetch_site": "same-origin"}, 303),
        ("right", {"origin": "http://127.0.0.1:9877"}, 303),
        ("wrong", {}, 403),
        ("none", {}, 403),
        ("right", {"sec_fetch_site": "cross-site"}, 403),
        ("right", {"sec_fetch_site": "same-site"}, 403),
        ("right", {"origin": "https://evil.example"}, 403),
        ("right", {"origin": "null"}, 403),
        ("right", {"content_type": "text/plain"}, 415),
    ],
)
def test_only_a_form_of_this_session_from_this_site_changes_something(locked, field, headers, status):
    browser = log_in(locked)
    csrf = {"right": browser.get(STALL).csrf, "wrong": "f" * 64, "none": ""}[field]
    fields = {"csrf": csrf, "action": "snooze", "seconds": "3600"}
    assert browser.post(STALL, fields, **headers).status == status


def test_the_form_token_of_one_session_is_worth_nothing_in_another(locked):
    other = log_in(locked).get(STALL).csrf
    assert log_in(locked).post(STALL, {"csrf": other, "action": "ack"}).status == 403


def test_a_form_sent_after_the_session_ended_leads_to_the_login_and_back(locked):
    answer = Browser(locked).post(STALL, {"action": "ack"})
    assert (answer.status, answer.header("location")) == (303, f"/login?next=%2Fincidents%2F{RUN}%2Fstall")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9877", "127.0.0.1.evil.example", "[::2]", "x]["])
def test_without_a_token_no_other_name_leads_here(open_site, host):
    for path in ("/", "/api/runs", "/metrics"):
        assert Browser(open_site.app, host=host).get(path).status == 403


@pytest.mark.parametrize("host", ["localhost:9877", "127.0.0.1", "127.1.2.3:1", "[::1]:9877"])
def test_without_a_token_every_name_of_loopback_does(open_site, host):
    assert Browser(open_site.app, host=host).get("/").status == 200


def test_without_a_token_another_site_cannot_use_the_api_through_a_browser(open_site):
    path = f"/api/incidents/{RUN}%2Fstall/do/ack"
    foreign = Browser(open_site.app).post(path, content_type="text/plain", origin="https://evil.example")
    assert foreign.status == 403
    assert open_site.daemon.desk.incidents[f"{RUN}/stall"].acknowledged_at is None


def test_on_loopback_without_a_token_there_is_no_login_and_forms_are_guarded_all_the_same(open_site):
    browser = Browser(open_site.app)
    shown = browser.get(STALL)
    assert shown.status == 200
    assert "Log out" not in shown.text
    assert Browser(open_site.app).post(STALL, {"csrf": shown.csrf, "action": "ack"}).status == 403
    assert browser.post(STALL, {"csrf": shown.csrf, "action": "ack"}).status == 303
    assert open_site.daemon.desk.incidents[f"{RUN}/stall"].acknowledged_by == "the page"
