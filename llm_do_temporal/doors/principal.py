"""Principals: the people and programs that come through a door, and what each of them may do.

Owns the rules about programs, once for all doors: a program starts exported workers only, in no mode that asks less,
sees what it has started, and never decides about that. A program is recorded as `program:NAME`, so that it is nobody
else. What people may decide, the run's desk knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from llm_do_temporal.client import Question
from llm_do_temporal.errors import AccessRefused, UsageError
from llm_do_temporal.messages.approvals import PROGRAM
from llm_do_temporal.policy.approvals import Mode, person

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
