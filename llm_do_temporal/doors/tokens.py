"""Tokens of people and programs: made, listed, revoked, and found again by nothing but their digest.

A token is 256 random bits, so that its SHA-256 tells nobody anything about it; a list of names and digests is all that
is kept, for its owner alone. The file is read at each use: what was revoked opens nothing any more.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from pydantic import AwareDatetime, Field, TypeAdapter, ValidationError

from llm_do_temporal.client.embedded.server import locked
from llm_do_temporal.doors.principal import Principal, TokenScope, is_named_as_program, is_reserved
from llm_do_temporal.errors import UsageError
from llm_do_temporal.messages.base import Strict
from llm_do_temporal.policy.approvals import person
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER
from llm_do_temporal.storage.private_files import make_private, write_private

PREFIX = "lldt_"
"""Beginning of every token, by which scanners of repositories know one."""
MAX_NAME_CHARS = 100
_FILE = "tokens.json"
_log = logging.getLogger(__name__)


class TokenRecord(Strict):
    """Facts of one token, without the token."""

    name: str = Field(min_length=1, max_length=MAX_NAME_CHARS)
    is_person: bool
    scopes: tuple[TokenScope, ...]
    sha256: str
    created_at: AwareDatetime

    def principal(self, via: str) -> Principal:
        """Return its owner, who came through the door of a protocol like `http`."""
        if not self.is_person:
            return Principal.program(self.name, self.scopes, via)
        return Principal(self.name, frozenset(self.scopes), is_person=True, via=via)


_RECORDS = TypeAdapter(tuple[TokenRecord, ...])


class TokenFile:
    """Tokens of one workshop, in its `.llm-do`, or in another file that an operator names."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def of_workshop(cls, workshop: Path) -> TokenFile:
        """Return the tokens of the workshop in this folder."""
        return cls(workshop / STATE_FOLDER / _FILE)

    def records(self) -> tuple[TokenRecord, ...]:
        """Return all tokens, in the order of their names. Raises UsageError for a file that is none of ours."""
        try:
            return _RECORDS.validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return ()
        except (OSError, ValidationError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no list of tokens"
            raise UsageError(
                f"the tokens in '{self._path}' cannot be read: {reason}",
                next_step="Move the file away, and make the tokens anew with `llm-do-temporal token create`.",
            ) from error

    def create(self, name: str, scopes: frozenset[TokenScope], *, is_person: bool) -> str:
        """Keep a new token, and return it: nothing can show it again. Raises UsageError for a name that has one."""
        _check_name(name, is_person=is_person)
        token = PREFIX + secrets.token_urlsafe(32)
        record = TokenRecord(
            name=name,
            is_person=is_person,
            scopes=tuple(sorted(scopes)),
            sha256=_digest(token),
            created_at=datetime.now(UTC),
        )
        with self._changing() as known:
            if (same := next((one.name for one in known if person(one.name) == person(name)), None)) is not None:
                raise UsageError(
                    f"'{same}' has a token already",
                    next_step=f"Choose another name, or take the old one back: `llm-do-temporal token revoke {same}`.",
                )
            self._write((*known, record))
        return token

    def revoke(self, name: str) -> TokenRecord:
        """Take back the token of this name, and return its facts. Raises UsageError where there is none."""
        with self._changing() as known:
            found = next((one for one in known if one.name == name), None)
            if found is None:
                names = ", ".join(one.name for one in known) or "none"
                raise UsageError(f"nobody called '{name[:40]}' has a token; there are: {names}")
            self._write(tuple(one for one in known if one is not found))
        return found

    def find(self, token: str) -> TokenRecord | None:
        """Return the facts of a token; None for one that is not known here, and where the file cannot be read.

        Who asks has no token yet: the log has the reason, and the file's place.
        """
        digest = _digest(token)
        try:
            records = self.records()
        except UsageError as error:
            _log.error("nobody's token counts: %s %s", error.message, error.next_step)
            return None
        matching = [one for one in records if hmac.compare_digest(one.sha256, digest)]
        return matching[0] if matching else None

    @contextmanager
    def _changing(self) -> Generator[tuple[TokenRecord, ...]]:
        """Hold the file for one change, and yield what stands in it. Raises UsageError."""
        if self._path.parent.name == STATE_FOLDER:
            make_private(self._path.parent)
        with locked(self._path.with_name(f"{self._path.name}.lock")) as lock:
            if lock is None:
                raise UsageError("another program changes the tokens at this moment", next_step="Try it again.")
            yield self.records()

    def _write(self, records: tuple[TokenRecord, ...]) -> None:
        ordered = tuple(sorted(records, key=lambda one: one.name))
        write_private(self._path, _RECORDS.dump_json(ordered, indent=2).decode() + "\n")


def _check_name(name: str, *, is_person: bool) -> None:
    """Raise UsageError for a name that shows as nothing, as a program's, or as that of a door's own programs."""
    if not person(name) or not name.isprintable() or len(name) > MAX_NAME_CHARS or name != name.strip():
        raise UsageError(f"'{name[:40]}' is no name; it has 1 to {MAX_NAME_CHARS} characters that can be printed")
    if is_named_as_program(name):
        raise UsageError(f"'{name[:40]}' is how a program is recorded", next_step="Leave out what it begins with.")
    if not is_person and is_reserved(name):
        raise UsageError(
            f"'{name[:40]}' is kept for programs that have no token: agents of this machine, endpoints of Nexus",
            next_step="Choose another name.",
        )


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
