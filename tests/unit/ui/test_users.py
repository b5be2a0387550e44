"""Who may come in: tokens, sessions, and a proxy that names the user."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.datastructures import Headers

from llm_do_temporal.errors import UsageError
from llm_do_temporal.ui.access import Caller, ProxyAccess, TokenAccess, new_token, read_token_file

ADA, BOB = "a" * 20, "b" * 20


def caller(cookie: str | None = None, *, peer: str = "10.0.0.5", **headers: str) -> Caller:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Caller(peer, Headers(named), cookie)


def test_a_token_opens_a_session_of_its_user() -> None:
    access = TokenAccess({"ada": ADA, "Bob van der Berg": BOB})
    for user, token in (("ada", ADA), ("Bob van der Berg", BOB)):
        visitor = access.visitor(caller(access.open_session(token)))
        assert visitor is not None
        assert visitor.user == user


@pytest.mark.parametrize("token", ["", "a", ADA + "a", ADA[:-1], "ä" * 20, "\ud800"])
def test_another_token_opens_none(token: str) -> None:
    assert TokenAccess({"ada": ADA}).open_session(token) is None


def test_two_sessions_have_different_cookies_and_forms() -> None:
    access = TokenAccess({"ada": ADA})
    one, other = access.open_session(ADA), access.open_session(ADA)
    assert one != other
    forms = {getattr(access.visitor(caller(cookie)), "csrf", None) for cookie in (one, other)}
    assert len(forms) == 2


def test_a_cookie_says_nothing_of_its_token() -> None:
    assert ADA not in str(TokenAccess({"ada": ADA}).open_session(ADA))


def spoiled(cookie: str) -> list[str | None]:
    """Cookies that were changed, or are none."""
    session, _, signature = cookie.rpartition(".")
    # "bob" in the place of "ada", with ada's signature
    bobs = "Ym9i" + cookie[4:]
    return [
        None,
        "",
        cookie[:-1],
        cookie + "0",
        bobs,
        session,
        f"{session}.",
        f".{signature}",
        "....",
        "\u00e4.\u00e4.\u00e4",
    ]


def test_a_cookie_that_was_changed_opens_nothing() -> None:
    access = TokenAccess({"ada": ADA, "bob": BOB})
    cookie = access.open_session(ADA)
    assert cookie is not None
    for changed in spoiled(cookie):
        assert access.visitor(caller(changed)) is None, changed


def test_a_session_ends_with_its_token() -> None:
    cookie = TokenAccess({"ada": ADA}).open_session(ADA)
    assert TokenAccess({"ada": ADA}).visitor(caller(cookie)) is not None
    assert TokenAccess({"ada": BOB}).visitor(caller(cookie)) is None
    assert TokenAccess({"bob": ADA}).visitor(caller(cookie)) is None


def test_made_up_tokens_differ() -> None:
    assert len({new_token() for _ in range(10)}) == 10


def test_a_proxy_names_the_user() -> None:
    access = ProxyAccess("X-Forwarded-User", ("10.0.0.5",))
    visitor = access.visitor(caller(x_forwarded_user="ada"))
    assert visitor is not None
    assert visitor.user == "ada"
    other = access.visitor(caller(x_forwarded_user="bob"))
    assert other is not None
    assert other.csrf != visitor.csrf


@pytest.mark.parametrize("name", ["", "  ", "a\x00b", "a" * 101, "a\u202eb"])
def test_a_name_that_is_none_counts_for_nothing(name: str) -> None:
    raw = [(b"x-forwarded-user", name.encode("utf-8").decode("latin-1").encode("latin-1"))]
    assert ProxyAccess("X-Forwarded-User", ("10.0.0.5",)).visitor(Caller("10.0.0.5", Headers(raw=raw), None)) is None


def test_nobody_else_names_the_user() -> None:
    access = ProxyAccess("X-Forwarded-User", ("10.0.0.5",))
    assert access.visitor(caller(peer="10.0.0.6", x_forwarded_user="ada")) is None
    assert access.visitor(caller()) is None
    assert access.open_session(ADA) is None


def test_a_header_that_the_proxy_only_added_to_counts_for_nothing() -> None:
    raw = [(b"x-forwarded-user", b"root"), (b"x-forwarded-user", b"ada")]
    access = ProxyAccess("X-Forwarded-User", ("10.0.0.5",))
    assert access.visitor(Caller("10.0.0.5", Headers(raw=raw), None)) is None


def test_a_token_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"# who may decide\nada: {ADA}\n\n  Bob van der Berg :  {BOB}  \n")
    assert read_token_file(path) == {"ada": ADA, "Bob van der Berg": BOB}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "names nobody"),
        ("# nobody\n", "names nobody"),
        (f"ada {ADA}\n", ":1: not a line like"),
        (f": {ADA}\n", ":1: not a line like"),
        ("ada: short\n", ":1: the token of 'ada' is not 16 or more"),
        (f"ada: {ADA} x\n", ":1: the token of 'ada'"),
        (f"ada: {ADA}\nada: {BOB}\n", ":2: the name or the token"),
        (f"ada: {ADA}\nbob: {ADA}\n", ":2: the name or the token"),
    ],
)
def test_a_bad_token_file_is_refused_and_never_repeated(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(text)
    with pytest.raises(UsageError) as refused:
        read_token_file(path)
    assert complaint in refused.value.message
    assert ADA not in str(refused.value)


def test_a_token_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_token_file(tmp_path / "none")
