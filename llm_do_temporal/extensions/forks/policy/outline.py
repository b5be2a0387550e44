"""Outline of a run for a fork of it: its steps by their content keys, with what each of them spent, and no contents."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from llm_do_temporal.policy.values import Value


class KeyedCall(Value):
    """Tool call of a turn."""

    key: str
    tool: str
    number: int
    """Number of the call in its turn, from 1."""
    known: bool = True
    """Whether its outcome is known; a call whose outcome is unknown is never reused."""
    children: tuple[str, ...] = ()
    """Paths of the invocations that it began."""
    of_function: bool = False
    """Whether it calls a Python function of the author's, which may call others that no answer of a model has."""


class KeyedTurn(Value):
    """Model turn of an invocation."""

    number: int
    """Number of the turn in its invocation, from 1."""
    key: str
    model: str = ""
    """Model that answered, as its provider calls it."""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Part of `input_tokens` that the provider had in its cache."""
    cost: Decimal | None = None
    """US dollars; None: the price is not known."""
    calls: tuple[KeyedCall, ...] = ()


class KeyedInvocation(Value):
    """Invocation of a run."""

    path: str
    """Place in the tree, like `main/evaluator-2`."""
    worker: str
    """Name of the worker; of a template, its path."""
    sha256: str = ""
    """Digest of the worker's file as it was."""
    model: str = ""
    """Effective model as `provider:name`."""
    delegation_key: str = ""
    """Content key by its inputs; empty for an entry invocation."""
    called_by: str = ""
    """Key of the call that began it; empty: an entry invocation, or an item of a batch."""
    turns: tuple[KeyedTurn, ...] = ()
    ended: bool = True
    """Whether it has completed, with a result."""

    @property
    def caller(self) -> str:
        """Path of the invocation above it; empty for a root of the tree."""
        return self.path.rpartition("/")[0]


class KeyedQuestion(Value):
    """Question of a run to people."""

    id: str
    """Id of the approval, like `a3`."""
    path: str
    """Place of the asking invocation."""
    tool: str
    content_key: str = ""
    """Key of the call that it is about; empty: it is about no call."""
    decision: str = ""
    """`approve`, `reject` or `modify`; empty: nobody has decided."""
    by_person: bool = False
    """Whether a person decided, and no rule, grant or timer."""
    is_review: bool = False
    """Whether it asks for a review of changes."""


class RunOutline(Value):
    """A run's steps, as far as its histories have them."""

    run: str
    invocations: tuple[KeyedInvocation, ...] = ()
    """Invocations in the order of their paths, those above before those below."""
    questions: tuple[KeyedQuestion, ...] = ()

    @property
    def turns(self) -> int:
        """Number of all turns."""
        return sum(len(one.turns) for one in self.invocations)

    def at(self, path: str) -> KeyedInvocation | None:
        """Return the invocation at this path; None: there is none."""
        return next((one for one in self.invocations if one.path == path), None)

    def below(self, path: str) -> Iterator[KeyedInvocation]:
        """Yield the invocation at this path and all below it."""
        return (one for one in self.invocations if one.path == path or one.path.startswith(f"{path}/"))

    def above(self, path: str) -> Iterator[KeyedInvocation]:
        """Yield the invocation at this path and all above it, the nearest first."""
        while path:
            found = self.at(path)
            if found is not None:
                yield found
            path = path.rpartition("/")[0]
