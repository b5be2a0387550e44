"""The page: by which names it is called, whose forms it takes, and whom a token signs in, as bytes at a real port."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import cast
from urllib.parse import quote

import pytest
import pytest_asyncio
from starlette.datastructures import Headers
from starlette.testclient import TestClient

from llm_do_temporal.client import LlmDoClient
from llm_do_temporal.ui import access as counting
from llm_do_temporal.ui.access import (
    MAX_KNOWN,
    PER_ADDRESS,
    SECONDS,
    SESSION_SECONDS,
    TOGETHER,
    Attempts,
    Caller,
    KeptPage,
    LinkAccess,
    TokenAccess,
)
from llm_do_temporal.ui.guard import MAX_FIELD_BYTES
from llm_do_temporal.ui.page_server import build_app
from llm_do_temporal.ui.requests import UiSettings
from tests.support.servers.sockets import ask, request, serving, status_of

ADA, BOB = "a" * 24, "b" * 24
ACCESS = TokenAccess({"ada": ADA, "bob": BOB})
HOST = "127.0.0.1:8234"
NAMED = "approvals.example.com"
NOWHERE = cast("LlmDoClient", None)
"""Nothing here gets as far as the client."""
TYPED = {"sec-fetch-site": "none"}
OURS = {"origin": f"http://{HOST}", "sec-fetch-site": "same-origin"}


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def port() -> AsyncIterator[int]:
    """The page at a real port, which answers as `HOST` and by a name."""
    async with serving(build_app(UiSettings(ACCESS, (HOST, NAMED)), NOWHERE)) as port:
        yield port


@pytest.fixture
def browser() -> Iterator[TestClient]:
    """A browser without a session."""
    app = build_app(UiSettings(ACCESS, (HOST, NAMED)), NOWHERE)
    with TestClient(app, base_url=f"http://{HOST}", follow_redirects=False, raise_server_exceptions=False) as client:
        yield client


def session(user: str) -> str:
    """A cookie that opens a session."""
    return cast("str", ACCESS.open_session(ADA if user == "ada" else BOB))


def user_of(browser: TestClient) -> str | None:
    """As whom the browser is signed in."""
    visitor = ACCESS.visitor(Caller("", Headers({}), browser.cookies.get("llm-do-8234")))
    return None if visitor is None else visitor.user


HOSTS = (
    *("evil.example", "evil.example:8234", "127.0.0.1", "127.0.0.1:8235", "127.0.0.1:80", "localhost:8234", ""),
    *("127.0.0.1.:8234", "127.1:8234", "2130706433:8234", "0x7f.1:8234", "0.0.0.0:8234", "[::ffff:127.0.0.1]:8234"),
    *("127.0.0.1.nip.io:8234", "127.0.0.1:8234.evil.example", "evil.example#127.0.0.1:8234", "127.0.0.1:8234/"),
    *("user@127.0.0.1:8234", "127.0.0.1:8234@evil.example", "evil.example,127.0.0.1:8234", "127.0.0.1:08234"),
    *(f"{NAMED}.", f"x.{NAMED}", f"{NAMED}.evil.example", f"{NAMED}:port", f"{NAMED}:", f"{NAMED}:1234567"),
    *(
        f"evil.example/{NAMED}",
        f"{NAMED}%00",
        f"{NAMED}%2eevil.example",
        f"{NAMED} evil.example",
        "*",
        "127.0.0.1:\uff18\uff12\uff13\uff14",
    ),
)


@pytest.mark.parametrize("host", HOSTS, ids=ascii)
async def test_another_name_is_not_answered(port: int, host: str) -> None:
    cookie = ("Cookie", f"llm-do-8234={session('ada')}; llm-do={session('ada')}")
    answer = await ask(port, request("GET", "/sign-in", ("Host", host), cookie))
    assert status_of(answer) in (400, 421)


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        ("/", (("Host", HOST), ("Host", "evil.example"))),
        ("/", (("Host", "evil.example"), ("Host", HOST))),
        ("/", (("Host", HOST), ("Host", HOST))),
        ("/", ()),
        ("/", (("Host", "evil.example"), ("X-Forwarded-Host", HOST))),
        ("/", (("Host", "evil.example"), ("Forwarded", f"host={HOST}"), ("X-Host", HOST), (":authority", HOST))),
        ("http://127.0.0.1:8234/", (("Host", "evil.example"),)),
        ("/", ((" Host", HOST),)),
        ("/", (("Host ", HOST),)),
        ("/", (("X", f"1\r\n Host: {HOST}"),)),
    ],
    ids=ascii,
)
async def test_one_name_counts_and_no_header_replaces_it(
    port: int, target: str, headers: tuple[tuple[str, str], ...]
) -> None:
    assert status_of(await ask(port, request("GET", target, *headers))) in (400, 421)


@pytest.mark.control
async def test_the_page_answers_by_its_names(port: int) -> None:
    for host in (HOST, NAMED, f"{NAMED}:8443", NAMED.upper()):
        assert status_of(await ask(port, request("GET", "/sign-in", ("Host", host)))) == 401


ORIGINS = (
    *("null", "", "http://evil.example", "http://127.0.0.1", "http://127.0.0.1:8235", "http://localhost:8234"),
    *(f"http://x.{HOST}", f"http://{HOST}.evil.example", f"http://evil.example/{HOST}", f"ftp://{HOST}"),
    *(f"http://user@{HOST}", f"{HOST}", f"//{HOST}", f"http://{HOST}/", f"http://{HOST} http://evil.example"),
    *(
        f"http://evil.example, http://{HOST}",
        "chrome-extension://abc",
        "file://",
        f"http://{HOST}%00",
        "http://[::1]:8234",
    ),
)


@pytest.mark.parametrize("origin", ORIGINS, ids=ascii)
async def test_a_form_of_another_page_is_not_taken(port: int, origin: str) -> None:
    cookie = session("ada")
    visitor = ACCESS.visitor(Caller("", Headers({}), cookie))
    assert visitor is not None
    body = f"decision=approve&csrf={visitor.csrf}".encode()
    headers = (("Host", HOST), ("Origin", origin), ("Cookie", f"llm-do-8234={cookie}"))
    kind = ("Content-Type", "application/x-www-form-urlencoded")
    answer = await ask(port, request("POST", "/runs/r/approvals/a1", *headers, kind, body=body))
    assert status_of(answer) == 403
    assert b"not sent from a page" in answer


@pytest.mark.parametrize("second", ["http://evil.example", f"http://{HOST}", "null"])
async def test_two_origins_are_none(port: int, second: str) -> None:
    headers = (("Host", HOST), ("Origin", f"http://{HOST}"), ("Origin", second))
    assert status_of(await ask(port, request("POST", "/sign-in", *headers, body=b"token=x"))) == 403


ELSEWHERE: tuple[dict[str, str], ...] = (
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "same-origin"},  # a page of ours that another has sent here goes on by itself
    {"sec-fetch-site": "None"},
    {"sec-fetch-site": "none, cross-site"},
    {"sec-fetch-site": ""},
    {},
)


@pytest.mark.parametrize("headers", ELSEWHERE, ids=str)
@pytest.mark.parametrize("signed_in", [True, False])
@pytest.mark.parametrize("path", ["/", "/runs/r/approvals/a1"])
def test_a_link_on_another_page_signs_nobody_in(
    browser: TestClient, headers: dict[str, str], path: str, *, signed_in: bool
) -> None:
    # A cookie that is strict does not come along when the link is on another site.
    if signed_in and headers.get("sec-fetch-site") != "cross-site":
        browser.cookies.set("llm-do-8234", session("ada"))
    answer = browser.get(f"{path}?token={BOB}", headers=headers)
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert "Sign in by this link?" in answer.text


@pytest.mark.parametrize("path", ["/", "/sign-in", "/runs", "/runs/r/approvals/a1?x=1", "/nowhere", "//evil.example"])
def test_a_typed_link_of_somebody_else_asks_before_it_replaces_a_session(browser: TestClient, path: str) -> None:
    browser.cookies.set("llm-do-8234", session("ada"))
    answer = browser.get(f"http://{HOST}{path}{'&' if '?' in path else '?'}token={BOB}", headers=TYPED)
    assert (answer.status_code, user_of(browser)) == (409, "ada")
    assert "set-cookie" not in answer.headers
    assert "Sign in as bob" in answer.text


@pytest.mark.parametrize("csrf", [None, "", "0" * 64, "other", "\u00e4", "[]"])
@pytest.mark.parametrize("more", [{}, {"to": "/runs"}])
def test_a_form_without_the_sessions_own_token_does_not_replace_it(
    browser: TestClient, csrf: str | None, more: dict[str, str]
) -> None:
    browser.cookies.set("llm-do-8234", session("ada"))
    if csrf == "other":
        visitor = ACCESS.visitor(Caller("", Headers({}), session("ada")))
        csrf = visitor.csrf if visitor is not None else None
    form = {"token": BOB, **more} | ({} if csrf is None else {"csrf": csrf})
    answer = browser.post("/sign-in", data=form, headers=OURS)
    assert (answer.status_code, user_of(browser)) == (409, "ada")


@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"])
def test_no_other_method_signs_in(browser: TestClient, method: str) -> None:
    answer = browser.request(method, f"/?token={BOB}", headers=TYPED)
    assert answer.status_code in (400, 401, 403, 405)
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "to",
    [
        *("//evil.example", "/\\evil.example", "https://evil.example", "evil.example", "\\\\evil.example", "/\t/evil"),
        *("javascript:alert(1)", " //evil.example", "/\r\nX: 1", "", "/\u2028/evil.example", "data:text/html,x"),
    ],
    ids=ascii,
)
def test_signing_in_leads_to_no_other_page(browser: TestClient, to: str) -> None:
    answer = browser.post("/sign-in", data={"token": ADA, "to": to}, headers=OURS)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


TOKENS = (
    *("", " ", ADA[:-1], ADA + "a", ADA.upper(), f"{ADA}\0", f"{ADA},{BOB}", "ada", "null", "true", "*", "%", "[]"),
    *("a" * 16_000, "\u0430" * 24, "\U0001f600", "a" * 23 + "\u0430", f"ada:{ADA}", f"'{ADA}'", "' OR 1=1 --"),
)


@pytest.mark.parametrize("token", TOKENS, ids=lambda token: ascii(token)[:40])
def test_a_token_that_is_none_opens_nothing(browser: TestClient, token: str) -> None:
    by_link = browser.get(f"/?token={quote(token)}", headers=TYPED)
    by_form = browser.post("/sign-in", data={"token": token}, headers=OURS)
    assert (by_link.status_code, by_form.status_code) == (401, 401)
    assert "set-cookie" not in by_link.headers | by_form.headers


@pytest.mark.parametrize("query", [f"token[]={ADA}", f"token%00={ADA}", f"TOKEN={ADA}", f"token=x&token[]={ADA}"])
def test_a_token_by_another_name_is_none(browser: TestClient, query: str) -> None:
    assert browser.get(f"/?{query}", headers=TYPED).status_code == 401


def test_a_token_that_is_a_file_is_none(browser: TestClient) -> None:
    answer = browser.post("/sign-in", files={"token": ("t.txt", ADA)}, headers=OURS)
    assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)


def forged() -> list[str]:
    """Cookies that nobody was given."""
    ours, bobs = session("ada"), session("bob")
    user, nonce, signature = ours.split(".")
    return [
        *(f"Ym9i.{nonce}.{signature}", f"{user}.{nonce}.{'0' * 64}", f"{user}.{nonce}.", f"{user}..{signature}"),
        *(f"{user}.{bobs.split('.')[1]}.{signature}", f"{ours}.{signature}", ours.upper(), ours[:-1], f'"{ours}"x'),
        *("YWRh", "YWRh.x.y", ADA, "ada", f"{user}={nonce}.{signature}", f"{user}\n.{nonce}.{signature}", "." * 5_000),
    ]


@pytest.mark.parametrize("number", range(len(forged())))
async def test_a_cookie_that_nobody_was_given_opens_nothing(port: int, number: int) -> None:
    cookie = forged()[number].replace("\n", "%0a")
    answer = await ask(port, request("GET", "/runs", ("Host", HOST), ("Cookie", f"llm-do-8234={cookie}")))
    assert status_of(answer) in (400, 401)


@pytest.mark.parametrize("way", ["link", "form"])
def test_after_some_wrong_tokens_not_even_a_right_one_is_looked_at(
    browser: TestClient, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine may take longer than a minute for so many.
    monkeypatch.setattr(counting, "SECONDS", 3_600)

    def tried(token: str) -> int:
        if way == "link":
            return browser.get(f"/?token={token}", headers=TYPED).status_code
        return browser.post("/sign-in", data={"token": token}, headers=OURS).status_code

    assert {tried(f"wrong-{number}") for number in range(PER_ADDRESS)} == {401}
    assert [tried(ADA), tried("wrong"), tried(BOB)] == [429, 429, 429]
    # Whoever has a session notices nothing.
    browser.cookies.set("llm-do-8234", session("ada"))
    assert browser.get("/nowhere").status_code == 404


def test_another_page_cannot_use_up_the_attempts_of_a_browser(browser: TestClient) -> None:
    for number in range(3 * PER_ADDRESS):
        browser.get(f"/?token=wrong-{number}", headers={"sec-fetch-site": "cross-site"})
        browser.post("/sign-in", data={"token": "wrong"}, headers={"origin": "http://evil.example"})
    assert browser.get(f"/?token={ADA}", headers=TYPED).status_code == 303


def _spread(number: int) -> str:
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "peers",
    [
        ["203.0.113.9"] * 10_000,
        ["::ffff:203.0.113.9", "203.0.113.9"] * 5_000,
        [f"2001:db8::{number:x}" for number in range(10_000)],
        [f"fe80::{number:x}%eth0" for number in range(10_000)],
        [_spread(number) for number in range(10_000)],
        [f"{number}" * 1_000 for number in range(10_000)],
        [""] * 10_000,
    ],
    ids=["one address", "two spellings", "one network", "zones", "many addresses", "no addresses", "nothing"],
)
def test_the_throttle_is_bounded_and_ends(peers: list[str]) -> None:
    now = 0.0
    attempts = Attempts(clock=lambda: now)
    attempts.was_right("192.0.2.1")
    looked_at = 0
    for peer in peers:
        if attempts.may_try(peer):
            looked_at += 1
            attempts.was_wrong(peer)
    assert looked_at <= TOGETHER
    # An address from which somebody came in before is not held up, and after a while nobody is.
    assert attempts.may_try("192.0.2.1")
    now += SECONDS
    assert all(attempts.may_try(peer) for peer in {*peers[:3], "198.51.100.1"})


def test_trying_while_it_is_refused_does_not_make_it_longer() -> None:
    now = 0.0
    attempts = Attempts(clock=lambda: now)
    for _ in range(100):
        now += 1
        if attempts.may_try("203.0.113.9"):
            attempts.was_wrong("203.0.113.9")
    now += SECONDS
    assert attempts.may_try("203.0.113.9")


def test_addresses_that_are_known_are_not_kept_for_ever() -> None:
    attempts = Attempts(clock=lambda: 0.0)
    for number in range(3 * MAX_KNOWN):
        attempts.was_right(_spread(number))
    for number in range(TOGETHER):
        attempts.was_wrong(f"203.0.113.{number}")
    assert sum(attempts.may_try(_spread(number)) for number in range(3 * MAX_KNOWN)) == MAX_KNOWN


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/x-www-form-urlencoded", b"a&" * 100_000),
        ("application/x-www-form-urlencoded", b"a=" + b"x" * (MAX_FIELD_BYTES + 1)),
        ("application/x-www-form-urlencoded", b"x" * (MAX_FIELD_BYTES + 1)),
        ("multipart/form-data; boundary=b", b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n' * 2_000),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="a"; filename="f"\r\n\r\n\r\n' * 2_000,
        ),
        ("multipart/form-data; boundary=b", b'--b\r\nContent-Disposition: form-data; name="' + b"a" * 100_000),
        ("multipart/form-data; boundary=b", b"--b\r\n" + b"A: b\r\n" * 10_000),
        ("multipart/form-data; boundary=" + "b" * 5_000, b"--b\r\n"),
        ("multipart/form-data", b"--b\r\n"),
    ],
    ids=["fields", "field", "name", "parts", "files", "part name", "part headers", "boundary", "no boundary"],
)
def test_a_form_of_too_many_or_too_big_parts_is_refused(browser: TestClient, kind: str, body: bytes) -> None:
    browser.cookies.set("llm-do-8234", session("ada"))
    answer = browser.post("/runs/r/approvals/a1", content=body, headers={**OURS, "content-type": kind})
    assert answer.status_code in (400, 413)


@pytest.mark.control
def test_a_person_who_follows_the_link_and_says_so_is_signed_in(browser: TestClient) -> None:
    browser.cookies.set("llm-do-8234", session("ada"), domain="127.0.0.1")
    asked = browser.get(f"/runs?x=1&token={BOB}", headers={"sec-fetch-site": "cross-site"})
    named = browser.post("/sign-in", data=_hidden(asked.text), headers=OURS)
    assert named.status_code == 409
    answer = browser.post("/sign-in", data=_hidden(named.text), headers=OURS)
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs?x=1")
    assert "Ym9i." in answer.headers["set-cookie"]


@pytest.mark.control
def test_the_link_of_a_session_that_is_there_already_leads_on(browser: TestClient) -> None:
    browser.cookies.set("llm-do-8234", session("ada"))
    assert browser.get(f"/?token={ADA}", headers=TYPED).status_code == 303


def _hidden(html: str) -> dict[str, str]:
    """The hidden fields of the one form of a page."""
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', html)
    return {name: value.replace("&amp;", "&") for name, value in found}


NOW = 1_800_000_000.0


def access_of(key: str = "k" * 64, *, port: int = 8234, at: float = NOW, token: str = ADA) -> LinkAccess:
    return LinkAccess("ada", token, key, port, clock=lambda: at)


def sees(access: LinkAccess, cookie: str | None) -> str | None:
    visitor = access.visitor(Caller("", Headers({}), cookie))
    return None if visitor is None else visitor.user


COOKIE = cast("str", access_of().open_session(ADA))
ENCODED, BEGAN, NONCE, SIGNATURE = COOKIE.split(".")
NO_SESSIONS = (
    *(None, "", ".", "...", "....", "a.b.c.d", SIGNATURE, f".{SIGNATURE}", COOKIE[:-1], f"{COOKIE}0", COOKIE.upper()),
    *(f"{ENCODED}.{int(BEGAN) + 1}.{NONCE}.{SIGNATURE}", f"{ENCODED}.{BEGAN}.{NONCE}x.{SIGNATURE}"),
    *(f"Ym9i.{BEGAN}.{NONCE}.{SIGNATURE}", f"{ENCODED}.{BEGAN}.{SIGNATURE}", f"{ENCODED}.{NONCE}.{SIGNATURE}"),
    *(f"{ENCODED}.{BEGAN}.{NONCE}.{'0' * 64}", f"{ENCODED}.{BEGAN}.{NONCE}.\u00e4", "\udc80", session("ada")),
)


@pytest.mark.control
def test_a_session_outlives_the_page_and_its_token() -> None:
    assert sees(access_of(token=BOB), COOKIE) == "ada"
    assert sees(access_of(at=NOW + SESSION_SECONDS - 1), COOKIE) == "ada"


@pytest.mark.parametrize("cookie", NO_SESSIONS, ids=[str(number) for number in range(len(NO_SESSIONS))])
def test_no_cookie_that_was_made_up_is_a_session_after_a_restart(cookie: str | None) -> None:
    assert sees(access_of(token=BOB), cookie) is None


@pytest.mark.parametrize(
    "other",
    [
        access_of("j" * 64),  # that of another workshop
        access_of(port=8235),  # a program at the old port hands the cookie on to the page at its new one
        access_of(port=80),
        access_of(at=NOW + SESSION_SECONDS),
        access_of(at=NOW - 3_600),  # a clock that was ahead when the session began
        LinkAccess("bob", ADA, "k" * 64, 8234, clock=lambda: NOW),
    ],
)
def test_a_kept_session_opens_no_other_page_and_ends(other: LinkAccess) -> None:
    assert sees(other, COOKIE) is None


@pytest.mark.parametrize("token", ["", BOB, ADA[:-1], "k" * 64, COOKIE, SIGNATURE], ids=list("123456"))
def test_the_link_of_an_earlier_start_signs_nobody_in(token: str) -> None:
    assert access_of().open_session(token) is None


def test_a_form_of_one_session_is_not_one_of_another_and_no_session() -> None:
    other = cast("str", access_of().open_session(ADA))
    forms = {one: access_of().visitor(Caller("", Headers({}), one)) for one in (COOKIE, other)}
    csrf = {visitor.csrf for visitor in forms.values() if visitor is not None}
    assert len(csrf) == 2
    assert all(sees(access_of(), f"{ENCODED}.{BEGAN}.{NONCE}.{one}") is None for one in csrf)


def _loosen(path: Path) -> None:
    path.chmod(0o644)


def _let_group_write(path: Path) -> None:
    path.chmod(0o620)


def _link(path: Path) -> None:
    elsewhere = path.parent.parent / "elsewhere.json"
    path.replace(elsewhere)
    path.symlink_to(elsewhere)


def _hard_link(path: Path) -> None:
    os.link(path, path.parent.parent / "other.json")


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir(0o700)


def _weak(path: Path) -> None:
    path.write_text('{"key": "short"}')


def _odd(path: Path) -> None:
    path.write_text(f'{{"key": "{"k" * 64}", "ports": ["x"], "user": "bob"}}')


def _huge(path: Path) -> None:
    path.write_text(f'{{"key": "{"k" * 64}"{" " * 5_000}}}')


def _foreign_folder(path: Path) -> None:
    real = path.parent.parent / "real"
    path.parent.rename(real)
    path.parent.symlink_to(real)


@pytest.mark.parametrize(
    "spoil",
    [_loosen, _let_group_write, _link, _hard_link, _pipe, _folder, _weak, _odd, _huge, _foreign_folder],
)
def test_a_key_that_others_could_know_or_choose_signs_no_session(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    first = KeptPage.of_workshop(tmp_path)
    first.keep(tmp_path)
    path = tmp_path / ".llm-do" / "page.json"
    assert (KeptPage.of_workshop(tmp_path).key, path.stat().st_mode & 0o777) == (first.key, 0o600)
    assert ADA not in path.read_text()
    spoil(path)
    second = KeptPage.of_workshop(tmp_path)
    assert second.key not in (first.key, "short", "k" * 64)
    assert second.ports == ()
    second.keep(tmp_path)  # whatever is in its place, the page begins
    if not path.parent.is_symlink() and not path.is_dir():
        assert KeptPage.of_workshop(tmp_path).key == second.key
        assert (path.is_symlink(), path.stat().st_mode & 0o777) == (False, 0o600)
