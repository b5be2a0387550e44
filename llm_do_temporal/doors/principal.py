"""Principals: the people and programs that come through a door, what each of them may do, and their tokens.

Owns the rules about programs, once for all doors: a program starts exported workers only, in no mode that asks less,
sees what it has started, and never decides about that. A program is recorded as `program:NAME`, so that it is nobody
else. What people may decide, the run's desk knows.

A token is 256 random bits, so that its SHA-256 tells nobody anything about it; a list of names and digests is all that
is kept, for its owner alone. The file is read at each use: what was revoked opens nothing any more.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from pydantic import AwareDatetime, Field, TypeAdapter, ValidationError

from llm_do_temporal.client import Question
from llm_do_temporal.client.embedded.server import locked
from llm_do_temporal.errors import AccessRefused, UsageError
from llm_do_temporal.messages.approvals import PROGRAM
from llm_do_temporal.messages.base import Strict
from llm_do_temporal.policy.approvals import Mode, person
from llm_do_temporal.policy.files.sandbox import STATE_FOLDER
from llm_do_temporal.storage.private_files import make_private, write_private

AGENT_PROTOCOLS = ("mcp", "nexus")
"""Protocols by which programs hand on what a person is said to have decided."""
LOCAL_AGENT = "mcp"
"""Name of an agent of this machine that has no token: a program, which starts and reads."""
NEXUS_PREFIX = "nexus-"
"""Beginning of the names of programs that come through an endpoint of Nexus."""


class TokenScope(StrEnum):
    """Things that a token allows."""

    START = "start"
    """Start runs, and cancel them."""
    READ = "read"
    """Read runs, their questions, results and files."""
    DECIDE = "decide"
    """Answer questions."""


@dataclass(frozen=True)
class Principal:
    """Person or program that speaks through a door."""

    name: str
    """Name by which its runs and decisions are recorded."""
    scopes: frozenset[TokenScope]
    is_person: bool
    via: str
    """Protocol of the door, like `http`."""

    def __post_init__(self) -> None:
        """Raise AccessRefused for a person who is named like a program."""
        if self.is_person and is_named_as_program(self.name):
            raise AccessRefused(f"{self.name[:40]!a} is no name of a person: names of programs begin with '{PROGRAM}'")

    @classmethod
    def program(cls, name: str, scopes: Iterable[TokenScope], via: str) -> Principal:
        """Return the program of this name."""
        return cls(f"{PROGRAM}{name}", frozenset(scopes), is_person=False, via=via)

    @property
    def is_present(self) -> bool:
        """Whether a person speaks, and no agent that has been given the person's token."""
        return self.is_person and self.via not in AGENT_PROTOCOLS

    @property
    def fills_forms(self) -> bool:
        """Whether a form that its client shows is filled in by a person who may decide."""
        return self.is_person and TokenScope.DECIDE in self.scopes

    @property
    def _kind(self) -> str:
        return "speaks through an agent" if self.is_person else "is a program"

    def check(self, scope: TokenScope) -> None:
        """Raise AccessRefused where the scope is missing."""
        if scope not in self.scopes:
            have = ", ".join(sorted(self.scopes)) or "nothing"
            raise AccessRefused(
                f"'{self.name}' may not {scope}: its token allows {have}",
                next_step=f"Make one that does: `llm-do-temporal token create NAME --scopes …,{scope}`.",
            )

    @property
    def sees_all(self) -> bool:
        """Whether it may know of all runs: a person, and a program that decides, as it answers for others."""
        return self.is_person or TokenScope.DECIDE in self.scopes

    def sees(self, started_by: str) -> bool:
        """Whether it may know of runs that this name has started. Of others a program learns nothing."""
        return self.sees_all or started_by == self.name

    def check_mode(self, mode: Mode | None, *, has_limits: bool) -> None:
        """Raise AccessRefused where a program, a person's agent too, asks for less control than the workshop has."""
        if self.is_present:
            return
        if mode not in (None, Mode.STRICT):
            raise AccessRefused(
                f"'{self.name}' {self._kind}, and may not start runs in the mode '{mode}'",
                next_step="Leave the mode out, so that the run asks as the workshop says, or use 'strict'.",
            )
        if has_limits:
            raise AccessRefused(
                f"'{self.name}' {self._kind}, and may not set the limits of runs",
                next_step="Leave them out; the workshop and its workers have limits.",
            )

    def check_own(self, started_by: str, does: str) -> None:
        """Raise AccessRefused where a program wants to change a run of somebody else; `does` is a word like `stops`."""
        if not self.is_person and started_by != self.name:
            raise AccessRefused(f"'{self.name}' is a program, and {does} only runs that it has started")

    def check_present(self, deed: str) -> None:
        """Raise AccessRefused for a program, a person's agent too; `deed` is what only people do, like `forks runs`."""
        if not self.is_present:
            raise AccessRefused(
                f"'{self.name}' {self._kind}, and no program {deed}",
                next_step="Use the token of a person: `llm-do-temporal token create NAME --person`.",
            )

    def check_person(self) -> None:
        """Raise AccessRefused for a program: it hands on no decision of people about calls that it has caused."""
        if not self.is_person:
            raise AccessRefused(
                f"'{self.name}' is a program: what runs ask is for people to decide",
                next_step="A person decides on the page, in a terminal, or through a client with a token of their own.",
            )

    def check_decision(self, question: Question, starters: Iterable[str | None]) -> None:
        """Raise AccessRefused where it may not answer the question of a run.

        `starters` have started it and the runs that it does again; None: one of these is not known any more.
        """
        self.check(TokenScope.DECIDE)
        if question.request.names_people and not self.is_present:
            raise AccessRefused(
                f"'{question.id}' is for people to decide, whom the workshop's rule names: not for a program",
                next_step="They decide on the page, in a terminal, or with a token of their own.",
            )
        if self.is_person:
            return
        if any(one is None or person(one) == person(self.name) for one in starters):
            raise AccessRefused(
                f"'{self.name}' is a program that has started run '{question.run}', or may have started what that does "
                "again: it never decides about its calls",
                next_step="A person decides: on the page, in a terminal, or with a token of their own.",
            )


def is_named_as_program(name: str) -> bool:
    """Return whether people would read this as the name of a program in a run or a decision."""
    return person(name).startswith(PROGRAM)


def is_reserved(name: str) -> bool:
    """Return whether the name is that of a program without a token: an agent of this machine, an endpoint of Nexus.

    A program's token cannot have such a name, nor can a person whom a program names as the one who decided.
    """
    return person(name) == LOCAL_AGENT or person(name).startswith(NEXUS_PREFIX)


def read_scopes(text: str) -> frozenset[TokenScope]:
    """Return the scopes of a list like `start,read`. Raises UsageError."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in tuple(TokenScope)]
    if unknown or not names:
        wrong = f"there is no scope '{unknown[0][:40]}'" if unknown else "no scope is named"
        raise UsageError(f"{wrong}; scopes are {', '.join(TokenScope)}", next_step="Write them like start,read.")
    return frozenset(map(TokenScope, names))


def check_named_person(caller: Principal, by: str) -> None:
    """Raise AccessRefused where `by`, whom a caller says to have decided, is the caller itself or another program."""
    name = person(by)
    if not name or name == person(caller.name) or is_reserved(name) or is_named_as_program(name):
        raise AccessRefused(f"'{by}' is no person: programs decide nothing, and `by` names who has decided")


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
