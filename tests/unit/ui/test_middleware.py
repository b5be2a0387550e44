"""What every request passes: Host, session, Origin and CSRF token; and what every answer carries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

import pytest
from starlette.datastructures import Headers
from starlette.testclient import TestClient

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.ui.access import MAX_SIGN_IN_BYTES, Access, Caller, LinkAccess, ProxyAccess, TokenAccess
from llm_do_temporal.ui.guard import MAX_BODY_BYTES
from llm_do_temporal.ui.page_server import build_app
from llm_do_temporal.ui.requests import UiSettings

TOKEN = "t" * 24
HOST = "127.0.0.1:8234"
ORIGIN = {"origin": f"http://{HOST}"}
NOWHERE = cast("LlmDoClient", None)
"""Nothing here gets as far as the client."""
_URLENCODED = "application/x-www-form-urlencoded"
PAGE = "/runs/r/approvals/a1"


@pytest.fixture
def stranger() -> Iterator[TestClient]:
    """A browser without a session."""
    app = build_app(UiSettings(TokenAccess({"ada": TOKEN}), (HOST, "approvals.example.com")), NOWHERE)
    with TestClient(app, base_url=f"http://{HOST}", follow_redirects=False, raise_server_exceptions=False) as client:
        # Addresses are typed, as far as the page can tell.
        client.headers["sec-fetch-site"] = "none"
        yield client


@pytest.fixture
def ada(stranger: TestClient) -> TestClient:
    """A browser in which Ada has signed in."""
    assert stranger.get(f"/?token={TOKEN}").status_code == 303
    return stranger


def test_nobody_comes_in_without_a_token(stranger: TestClient) -> None:
    for path in ("/", PAGE, "/runs/r/grants", f"{PAGE}/attachments/{'0' * 64}", "/nowhere"):
        answer = stranger.get(path)
        assert answer.status_code == 401
        assert "Sign in" in answer.text
    assert stranger.post(PAGE, data={"decision": "approve"}, headers=ORIGIN).status_code == 401


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], "%00", "ä"])
def test_nobody_comes_in_with_a_wrong_token(stranger: TestClient, token: str) -> None:
    answer = stranger.get(f"/?token={token}")
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert stranger.post("/sign-in", data={"token": token}, headers=ORIGIN).status_code == 401


def test_a_link_with_a_token_leaves_a_clean_address_and_a_cookie_that_no_script_and_no_other_site_gets(
    stranger: TestClient,
) -> None:
    answer = stranger.get(f"{PAGE}?token={TOKEN}&sent=1")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{PAGE}?sent=1")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert TOKEN not in cookie


def test_an_address_is_the_same_without_its_token(stranger: TestClient) -> None:
    answer = stranger.get(f"/runs/a%3Fb%23c?token={TOKEN}")
    assert answer.headers["location"] == "/runs/a%3Fb%23c"


def test_over_https_the_cookie_stays_there(stranger: TestClient) -> None:
    answer = stranger.get(f"/?token={TOKEN}", headers={"x-forwarded-proto": "https"})
    assert "Secure" in answer.headers["set-cookie"]


def test_a_link_never_leads_to_another_host(stranger: TestClient) -> None:
    for path in ("//evil.example/", "/\\evil.example/", "///evil.example"):
        answer = stranger.get(f"http://{HOST}{path}?token={TOKEN}")
        location = answer.headers["location"]
        assert location.startswith("/")
        assert not location.startswith(("//", "/\\"))


def test_the_page_that_asks_who_you_are_leads_to_no_other_host(stranger: TestClient) -> None:
    answer = stranger.get(f"http://{HOST}//evil.example/inbox")
    assert answer.status_code == 401
    assert 'href="/evil.example/inbox"' in answer.text


def test_a_token_in_an_address_is_none_of_a_forms(ada: TestClient) -> None:
    answer = ada.post(f"{PAGE}?token=x", data={"csrf": ""}, headers=ORIGIN)
    assert answer.status_code == 403
    assert "not of this session" in answer.text


def test_signing_in_by_a_form_needs_an_origin_of_ours(stranger: TestClient) -> None:
    assert stranger.post("/sign-in", data={"token": TOKEN}).status_code == 403
    answer = stranger.post("/sign-in", data={"token": TOKEN}, headers=ORIGIN)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "127.0.0.1", "127.0.0.1:8235", "localhost", "", "a b", "[::1", "@"),
        *("approvals.example.com:/static/x?", "approvals.example.com:x", "approvals.example.com:", f"{HOST}/static/"),
    ],
)
def test_another_host_is_refused_even_with_a_session(ada: TestClient, host: str) -> None:
    answer = ada.get("/sign-in", headers={"host": host})
    assert answer.status_code == 421
    assert ada.get("/static/style.css", headers={"host": host}).status_code == 421


def test_a_name_that_was_allowed_answers_at_any_port(stranger: TestClient) -> None:
    for host in ("approvals.example.com", "approvals.example.com:8443", "Approvals.Example.COM"):
        assert stranger.get("/sign-in", headers={"host": host}).status_code == 401


@pytest.mark.parametrize(
    "origin",
    [
        *("http://evil.example", "null", "", "http://127.0.0.1", "http://127.0.0.1:8235", "file://127.0.0.1:8234"),
        *("http://[", f"http://{HOST}@evil.example", f"http://{HOST}.evil.example"),
    ],
)
def test_a_form_of_another_origin_is_refused(ada: TestClient, origin: str) -> None:
    answer = ada.post(PAGE, data={"decision": "approve", "csrf": _csrf(ada)}, headers={"origin": origin})
    assert answer.status_code == 403
    assert "not sent from a page" in answer.text


def test_a_form_without_an_origin_is_refused(ada: TestClient) -> None:
    assert ada.post(PAGE, data={"decision": "approve", "csrf": _csrf(ada)}).status_code == 403


@pytest.mark.parametrize("csrf", [None, "", "0" * 64])
def test_a_form_without_the_sessions_csrf_token_is_refused(ada: TestClient, csrf: str | None) -> None:
    data = {"decision": "approve"} | ({} if csrf is None else {"csrf": csrf})
    answer = ada.post(PAGE, data=data, headers=ORIGIN)
    assert answer.status_code == 403
    assert "not of this session" in answer.text


def test_a_csrf_token_of_another_session_is_refused(ada: TestClient) -> None:
    first = _csrf(ada)
    ada.cookies.clear()
    ada.get(f"/?token={TOKEN}")
    assert _csrf(ada) != first
    assert ada.post(PAGE, data={"csrf": first}, headers=ORIGIN).status_code == 403


def test_methods_that_no_form_sends_are_checked_too(ada: TestClient) -> None:
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        assert ada.request(method, PAGE).status_code == 403


def test_no_page_can_be_framed_run_foreign_scripts_or_be_kept(ada: TestClient) -> None:
    policies: list[str] = []
    for path in ("/sign-in", "/nowhere", "/static/style.css"):
        headers = ada.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "same-origin"
        policies.append(headers["content-security-policy"])
    for policy in policies:
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "base-uri 'none'" in policy
        assert "unsafe" not in policy
    assert len({re.findall(r"'nonce-([^']+)'", policy)[0] for policy in policies}) == len(policies)


def test_every_script_carries_the_nonce_of_its_page(ada: TestClient) -> None:
    answer = ada.get("/nowhere")
    (nonce,) = re.findall(r"'nonce-([^']+)'", answer.headers["content-security-policy"])
    scripts = re.findall(r"<script[^>]*>", answer.text)
    assert scripts
    assert all(f'nonce="{nonce}"' in script for script in scripts)


def test_a_link_from_elsewhere_is_followed_once_more_from_here(stranger: TestClient) -> None:
    first = stranger.get(PAGE, headers={"sec-fetch-site": "cross-site"})
    second = stranger.get(PAGE, headers={"sec-fetch-site": "same-origin"})
    assert 'http-equiv="refresh"' in first.text
    assert 'http-equiv="refresh"' not in second.text


def test_static_files_are_only_those_that_are_there(ada: TestClient) -> None:
    assert ada.get("/static/style.css").status_code == 200
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd"):
        assert ada.get(path).status_code == 404


def test_too_much_is_refused(ada: TestClient) -> None:
    answer = ada.post(PAGE, content=b"x" * (MAX_BODY_BYTES + 1), headers={**ORIGIN, "content-type": _URLENCODED})
    assert answer.status_code == 413


def test_somebody_unknown_cannot_send_much(stranger: TestClient) -> None:
    headers = {**ORIGIN, "content-type": _URLENCODED}
    answer = stranger.post("/sign-in", content=b"x" * (MAX_SIGN_IN_BYTES + 1), headers=headers)
    assert answer.status_code == 413


def test_a_broken_form_is_refused(ada: TestClient) -> None:
    headers = {**ORIGIN, "content-type": "multipart/form-data"}
    assert ada.post(PAGE, content=b"x", headers=headers).status_code == 400


def test_an_error_is_a_page_without_a_traceback(ada: TestClient) -> None:
    # The client is None: whatever a page asks of it is an error that nobody thought of.
    answer = ada.get(PAGE)
    assert answer.status_code == 500
    assert "Something went wrong here" in answer.text
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert "Traceback" not in answer.text
    assert "site-packages" not in answer.text


def test_a_user_that_a_proxy_names_needs_no_cookie() -> None:
    app: Any = build_app(UiSettings(ProxyAccess("X-Forwarded-User", ("10.0.0.5",)), (HOST,)), NOWHERE)
    proxy = TestClient(app, base_url=f"http://{HOST}", client=("10.0.0.5", 1))
    stranger = TestClient(app, base_url=f"http://{HOST}", client=("10.0.0.6", 1))
    named = {"x-forwarded-user": "ada", "x-forwarded-for": "10.0.0.5"}
    assert "ada" in proxy.get("/nowhere", headers=named).text
    assert stranger.get("/nowhere", headers=named).status_code == 401
    assert proxy.get("/nowhere").status_code == 401


def _csrf(client: TestClient) -> str:
    """The CSRF token that the forms of this session carry."""
    (cookie,) = [cookie.value for cookie in client.cookies.jar]
    assert cookie is not None
    access = TokenAccess({"ada": TOKEN})
    visitor = access.visitor(Caller("", Headers({}), cookie))
    assert visitor is not None
    return visitor.csrf


def test_who_signs_in_is_led_to_what_the_link_was_about(stranger: TestClient) -> None:
    asked = stranger.get(f"{PAGE}?sent=1")
    assert "Your link leads to a request for approval" in asked.text
    assert f'name="to" value="{PAGE}?sent=1"' in asked.text
    wrong = stranger.post("/sign-in", data={"token": "wrong", "to": PAGE}, headers=ORIGIN)
    assert (wrong.status_code, "That token is not known here." in wrong.text) == (401, True)
    assert f'name="to" value="{PAGE}"' in wrong.text
    right = stranger.post("/sign-in", data={"token": TOKEN, "to": PAGE}, headers=ORIGIN)
    assert (right.status_code, right.headers["location"]) == (303, PAGE)


@pytest.mark.parametrize(
    "place",
    ["/sign-in", "//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", "", "/\u00e4"],
)
def test_signing_in_leads_to_no_other_page(stranger: TestClient, place: str) -> None:
    wrong = stranger.post("/sign-in", data={"token": "wrong", "to": place}, headers=ORIGIN)
    assert 'name="to" value="/"' in wrong.text
    right = stranger.post("/sign-in", data={"token": TOKEN, "to": place}, headers=ORIGIN)
    assert right.headers["location"] == "/"


@pytest.mark.parametrize(
    ("access", "words", "absent"),
    [
        (TokenAccess({"ada": TOKEN}), "ask the person who runs this page", "<code>ui</code>"),
        (LinkAccess("ada", TOKEN, "k" * 64, 8234), "Open your sign-in link in this browser", "password of your own"),
        (ProxyAccess("X-User", ("10.0.0.5",)), "Your organisation's sign-in lets you in", "Token"),
    ],
)
def test_people_without_a_terminal_read_first_what_they_can_do(access: Access, words: str, absent: str) -> None:
    app = build_app(UiSettings(access, (HOST,)), NOWHERE)
    with TestClient(app, base_url=f"http://{HOST}", follow_redirects=False) as browser:
        text = browser.get("/runs/r", headers={"sec-fetch-site": "none"}).text.replace("&#39;", "'")
        assert words in text
        assert absent not in text
        assert "Your link leads to a run;" in text
        assert text.find("<code>") in (-1, *range(text.index(words), len(text)))
        old = browser.get("/runs/r?token=old", headers={"sec-fetch-site": "none"})
        assert "This sign-in link does not work any more" in old.text


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/runs/r/nothing", "Your link leads to a run, which is not here."),
        ("/groups/k/nothing", "Your link leads to a group of similar requests"),
        ("/runs/r/approvals/a1/nothing", "Your link leads to a request for approval"),
        ("/nothing", "There is no such page."),
        ("/runs/<b>\u202e/x", "Your link leads to a run"),
    ],
)
def test_a_page_that_is_not_there_says_what_the_link_was_about(ada: TestClient, path: str, words: str) -> None:
    answer = ada.get(path)
    assert answer.status_code == 404
    assert words in answer.text
    assert ("Ask the person who sent it" in answer.text) is (path != "/nothing")
    assert "<b>" not in answer.text
