"""Access to the page and other servers: users, their tokens and sessions, and the tries of wrong tokens.

Tokens are compared in constant time, are never logged, and leave the address bar at once for a cookie that is signed
with them: removing a token ends the sessions that were opened with it, and nothing has to be stored. The token of a
link is new with each start; `.llm-do/page.json` of a workshop keeps the key of its sessions and the ports of the page,
so that a link which was sent to a person goes on working. A file that another account could have read or written does
not count, and neither does a broken one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import logging
import os
import re
import secrets
import stat
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import Field, ValidationError
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from llm_do_temporal.client.batches import read_given
from llm_do_temporal.client.embedded.server import state_folder
from llm_do_temporal.errors import UsageError
from llm_do_temporal.login import login_name
from llm_do_temporal.messages.base import Strict
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER
from llm_do_temporal.redaction.configured_keys import know_value
from llm_do_temporal.storage.private_files import write_private
from llm_do_temporal.ui.http_server import is_loopback

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


def set_session(request: Request, response: Response, name: str, cookie: str) -> None:
    """Give the sender of a request the cookie of a session."""
    secure = request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"
    response.set_cookie(name, cookie, httponly=True, samesite="strict", secure=secure, path="/")


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


SESSION_SECONDS = 7 * 24 * 3_600
"""Time after which a person signs in again."""
MOST_PORTS = 4
_FILE = "page.json"
_MAX_BYTES = 4_096
_CLOCK_SECONDS = 60
"""Difference by which the clock may have been set back since a session began."""
_log = logging.getLogger(__name__)


class KeptPage(Strict):
    """Facts of the page of one workshop."""

    key: str = Field(min_length=40, max_length=200)
    """Key that signs sessions."""
    ports: tuple[int, ...] = Field(default=(), max_length=MOST_PORTS)
    """Ports that the page chose by itself, the first one first."""

    @classmethod
    def of_workshop(cls, workshop: Path | None) -> KeptPage:
        """Return the facts that the workshop keeps; a new key, and no ports, where it keeps none that counts."""
        kept = None if workshop is None else _read(workshop / STATE_FOLDER / _FILE)
        found = kept or cls(key=secrets.token_urlsafe(48))
        know_value("of the page", found.key)
        return found

    def with_port(self, port: int) -> KeptPage:
        """Return the facts with one more port. The newest stays where there are too many."""
        if port in self.ports:
            return self
        return self.model_copy(update={"ports": (*self.ports[: MOST_PORTS - 1], port)})

    def keep(self, workshop: Path | None) -> None:
        """Write the facts for the account's own eyes. Where that is not possible the page works without."""
        if workshop is None:
            return
        try:
            write_private(state_folder(workshop) / _FILE, self.model_dump_json() + "\n")
        except (OSError, UsageError) as error:
            _log.warning("The page cannot keep its sessions, so people sign in again after a restart: %s", error)


class LinkAccess:
    """Access by the token of a link, which is new with each start of the page.

    A session outlives the page: a key that is kept signs it. It counts at one port, so that a program which has taken
    an old port gets nothing for the page at the new one, and it ends after SESSION_SECONDS.
    """

    way = "link"

    def __init__(self, user: str, token: str, key: str, port: int, clock: Callable[[], float] = time.time) -> None:
        self._user = user
        self._token = token
        self._key = key
        self._port = port
        self._clock = clock

    def visitor(self, caller: Caller) -> Visitor | None:
        """Return the user whose session the cookie belongs to; None for a wrong cookie and for an old one."""
        session, _, signature = (caller.cookie or "").rpartition(".")
        if not is_same_text(signature, self._signed("session", session)):
            return None
        encoded, began, _ = session.split(".")
        age = self._clock() - int(began)
        if decoded_user(encoded) != self._user or not -_CLOCK_SECONDS <= age < SESSION_SECONDS:
            return None
        return Visitor(self._user, csrf=self._signed("csrf", session))

    def owner(self, token: str) -> str | None:
        """Return the user of a token; None for a wrong token."""
        return self._user if is_same_text(self._token, token) else None

    def open_session(self, token: str) -> str | None:
        """Return the cookie of a new session for the owner of a token; None for a wrong token."""
        user = self.owner(token)
        if user is None:
            return None
        session = f"{encoded_user(user)}.{int(self._clock())}.{secrets.token_urlsafe(16)}"
        return f"{session}.{self._signed('session', session)}"

    def _signed(self, purpose: str, session: str) -> str:
        return sign(self._key, f"{purpose} at {self._port}", session)


def _read(path: Path) -> KeptPage | None:
    """Return the content of the file; None where there is none, or where others could have read or written it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        facts, folder = os.fstat(descriptor), path.parent.lstat()
        is_ours = facts.st_uid == folder.st_uid == os.geteuid() and facts.st_nlink == 1
        is_private = not stat.S_IMODE(facts.st_mode) & 0o077 and stat.S_ISDIR(folder.st_mode)
        if not (is_ours and is_private and stat.S_ISREG(facts.st_mode)):
            return None
        return KeptPage.model_validate_json(os.read(descriptor, _MAX_BYTES))
    except (OSError, ValidationError):
        return None
    finally:
        os.close(descriptor)


PER_ADDRESS = 10
"""Wrong tokens from one address within `SECONDS`: more than a person mistypes, and far too few to guess by."""
TOGETHER = 200
"""Wrong tokens from everywhere within `SECONDS`; at most so many are kept, and those of known addresses."""
MAX_SIGN_IN_BYTES = 16 << 10
"""Largest form of signing in, which may be sent without a session."""
SECONDS = 60.0
MAX_KNOWN = 1_000
_IPV6_PREFIX = 64
"""Bits of an IPv6 address that count: the owner of one address usually has all that begin like it."""


class Attempts:
    """Wrong tokens of the last minute, with the addresses they came from."""

    def __init__(
        self, per_address: int = PER_ADDRESS, together: int = TOGETHER, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = per_address
        self._most_together = together
        self._clock = clock
        self._wrong: deque[tuple[float, str]] = deque()
        self._known: OrderedDict[str, None] = OrderedDict()

    def may_try(self, peer: str) -> bool:
        """Whether a token from this address is looked at."""
        while self._wrong and self._wrong[0][0] <= self._clock() - SECONDS:
            self._wrong.popleft()
        place = place_of(peer)
        if sum(one == place for _, one in self._wrong) >= self._most:
            return False
        return place in self._known or len(self._wrong) < self._most_together

    def was_wrong(self, peer: str) -> None:
        """Count a wrong token, which `may_try` let through."""
        self._wrong.append((self._clock(), place_of(peer)))

    def was_right(self, peer: str) -> None:
        """Remember an address from which a right token came."""
        place = place_of(peer)
        self._known[place] = None
        self._known.move_to_end(place)
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)


def place_of(peer: str) -> str:
    """Return the address that counts: the network for IPv6, the IPv4 address for IPv4 written as IPv6."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return peer[:64]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))


@dataclass(frozen=True)
class Admission:
    """Flags that say how people are known; without any, a new token is made."""

    token_file: Path | None = None
    trusted_header: str | None = None
    trusted_proxies: tuple[str, ...] = ()


def admitted(admission: Admission, host: str, *, what: str) -> tuple[Access, str | None]:
    """Return the access to `what`, like "the page", at this address; and the new token, None unless one was made.

    Raises UsageError for flags that cannot be used, and for an address that others reach without a way to know them.
    """
    if (admission.trusted_header is None) != (not admission.trusted_proxies):
        raise UsageError(
            "--trusted-header and --trusted-proxy need each other: a header counts only from a proxy that is known",
            next_step="Like: --trusted-header X-Forwarded-User --trusted-proxy 10.0.0.5",
        )
    if admission.trusted_header is not None and admission.token_file is not None:
        raise UsageError("--token-file and --trusted-header are two ways to know people; choose one")
    if admission.trusted_header is not None:
        return ProxyAccess(admission.trusted_header, tuple(_ip(one) for one in admission.trusted_proxies)), None
    if admission.token_file is not None:
        return TokenAccess(read_token_file(admission.token_file)), None
    if not is_loopback(host):
        raise UsageError(
            f"{what} would be open to others at '{host}', and nothing says who they are",
            next_step="Give --token-file FILE (lines `name: token`), or --trusted-header and --trusted-proxy.",
        )
    token = new_token()
    return TokenAccess({login_name() or "somebody": token}), token


def _ip(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise UsageError(f"--trusted-proxy '{text}' is not an IP address") from None
