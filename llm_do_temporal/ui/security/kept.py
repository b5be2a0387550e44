"""Whatever outlives a restart of the page, so that a link which was sent to a person goes on working.

Owns `.llm-do/page.json` of a workshop: the key that signs sessions, and the ports that the page has had. No token of a
link is in it. A file that another account could have read or written does not count, and neither does a broken one.
"""

from __future__ import annotations

import logging
import os
import secrets
import stat
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import Field, ValidationError

from llm_do_temporal.client.embedded.server import state_folder
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.base import Strict
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER
from llm_do_temporal.redaction.configured_keys import know_value
from llm_do_temporal.storage.private_files import write_private
from llm_do_temporal.ui.security.users import Caller, Visitor, decoded_user, encoded_user, is_same_text, sign

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
