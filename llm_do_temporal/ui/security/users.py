"""Users of the page, and the ways to know them.

Tokens are compared in constant time, are never logged, and leave the address bar at once for a cookie that is signed
with them: removing a token ends the sessions that were opened with it, and nothing has to be stored.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from starlette.datastructures import Headers
from starlette.requests import Request

from llm_do_temporal.client.given_texts import read_given
from llm_do_temporal.errors import UsageError
from llm_do_temporal.redaction.configured_keys import know_value

MIN_TOKEN_CHARS = 16
MAX_USER_CHARS = 100
_USER = re.compile(r"[^\s:\x00-\x1f\x7f][^:\x00-\x1f\x7f]*")


@dataclass(frozen=True)
class Visitor:
    """User who may come in, with the session."""

    user: str
    """Name that decisions record."""
    csrf: str
    """Token that every form of this session carries."""


@dataclass(frozen=True)
class Caller:
    """Facts of a request about its sender."""

    peer: str
    """Address of the other end of the connection."""
    headers: Headers
    cookie: str | None


def peer_of(request: Request) -> str:
    """Return the address of the other end of the connection; empty where there is none."""
    return request.client.host if request.client is not None else ""


def is_same_text(one: str, other: str) -> bool:
    """Whether two secrets are the same; how long that takes tells nothing of them."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


class Access(Protocol):
    """Way to know visitors."""

    way: str
    """Thing that lets a person in: a `link`, a `token` of their own, or a `proxy`."""

    def visitor(self, caller: Caller) -> Visitor | None:
        """Return the sender of the request; None for a sender who may not come in."""
        ...

    def owner(self, token: str) -> str | None:
        """Return the user of a token; None for a wrong token."""
        ...

    def open_session(self, token: str) -> str | None:
        """Return the cookie of a new session for the owner of a token; None for a wrong token."""
        ...


class TokenAccess:
    """Access by tokens: each user has one, and a session is a cookie signed with it."""

    way = "token"

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self._tokens = dict(tokens)

    def visitor(self, caller: Caller) -> Visitor | None:
        """Return the user whose session the cookie belongs to; None for a wrong cookie."""
        session, _, signature = (caller.cookie or "").rpartition(".")
        encoded = session.partition(".")[0]
        user = decoded_user(encoded)
        token = self._tokens.get(user or "")
        if user is None or token is None or not is_same_text(signature, sign(token, "session", session)):
            return None
        return Visitor(user, csrf=sign(token, "csrf", session))

    def owner(self, token: str) -> str | None:
        """Return the user of a token; None for a wrong token."""
        found = [user for user, known in self._tokens.items() if is_same_text(known, token)]
        return found[0] if found else None

    def open_session(self, token: str) -> str | None:
        """Return the cookie of a new session for the owner of a token; None for a wrong token."""
        user = self.owner(token)
        if user is None:
            return None
        session = f"{encoded_user(user)}.{secrets.token_urlsafe(16)}"
        return f"{session}.{sign(token, 'session', session)}"


class ProxyAccess:
    """Access by a proxy, which names the user in a header. The header of any other caller means nothing."""

    way = "proxy"

    def __init__(self, header: str, proxies: tuple[str, ...]) -> None:
        self._header = header
        self._proxies = frozenset(proxies)
        self._key = secrets.token_urlsafe(32)

    def visitor(self, caller: Caller) -> Visitor | None:
        """Return the user that the proxy names; None for another caller, and for none or two names."""
        # Two names: the caller sent one, and the proxy added its own instead of replacing it.
        named = caller.headers.getlist(self._header)
        user = named[0].strip() if len(named) == 1 else ""
        if caller.peer not in self._proxies or not user or len(user) > MAX_USER_CHARS or not user.isprintable():
            return None
        return Visitor(user, csrf=sign(self._key, "csrf", user))

    def owner(self, token: str) -> str | None:
        """Return None: no token opens this access."""
        return None

    def open_session(self, token: str) -> str | None:
        """Return None: no token opens this access."""
        return None


def new_token() -> str:
    """Return a token that cannot be guessed."""
    return secrets.token_urlsafe(32)


def read_token_file(path: Path) -> dict[str, str]:
    """Return the tokens of a file with lines `name: token`, by user. Raises UsageError, which names the line."""
    lines = read_given(path, f"the token file '{path}'").splitlines()
    tokens: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            user, token = _read_line(path, number, line)
            if user in tokens or token in tokens.values():
                raise UsageError(f"{path}:{number}: the name or the token of this line stands in the file already")
            tokens[user] = token
            know_value(f"of {user}", token)
    if not tokens:
        raise UsageError(f"the token file '{path}' names nobody", next_step="Write lines like `ada: TOKEN`.")
    return tokens


def _read_line(path: Path, number: int, line: str) -> tuple[str, str]:
    user, separator, token = (part.strip() for part in line.partition(":"))
    if not separator or not _USER.fullmatch(user) or len(user) > MAX_USER_CHARS:
        raise UsageError(f"{path}:{number}: not a line like `name: token`")
    if len(token) < MIN_TOKEN_CHARS or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            f"{path}:{number}: the token of '{user}' is not {MIN_TOKEN_CHARS} or more letters, digits and signs",
            next_step="`openssl rand -base64 32` makes one.",
        )
    return user, token


def sign(key: str, purpose: str, text: str) -> str:
    """Return the signature of a text, which counts for one purpose only."""
    return hmac.new(key.encode(), f"{purpose}:{text}".encode(), hashlib.sha256).hexdigest()


def encoded_user(user: str) -> str:
    """Return a name as a session has it."""
    return base64.urlsafe_b64encode(user.encode()).decode()


def decoded_user(encoded: str) -> str | None:
    """Return the name in a session; None where there is none."""
    try:
        return base64.b64decode(encoded, altchars=b"-_", validate=True).decode()
    except ValueError:
        return None
