"""Wishes of workers: calls as a model makes them, with what only the world knows about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Wish:
    """Call that a worker wants to make."""

    worker: str
    tool: str
    args: dict[str, Any]
    place: str | None = None
    """Real path of the file, where a link leads elsewhere; None: the file is where its path says."""
    attachments: tuple[str, ...] = ()
    """Paths of files that a delegation hands over."""
    is_evil: bool = False
    """Whether the content is harmful, which a person sees, and no rule."""
    is_attack: bool = False
    """Whether it was made as an attack, for the figures alone: no intention looks at it."""


@dataclass(frozen=True)
class Person:
    """Person who decides about the calls of some workers."""

    name: str
    workers: frozenset[str]
    slips: float = 0.04
    """Share of unwanted calls that the person approves by mistake."""
    misses: float = 0.002
    """Share of wanted calls that the person refuses by mistake."""
    changes: float = 0.3
    """Share of unwanted calls that the person changes, instead of refusing them."""


PEOPLE = (
    Person("ann", frozenset({"evaluator", "reporter"})),
    Person("bob", frozenset({"coder"})),
    Person("cleo", frozenset({"ops"})),
    Person("dan", frozenset({"writer", "helper"})),
)


def person_for(worker: str) -> Person:
    """Return the person who decides about the worker's calls."""
    return next(person for person in PEOPLE if worker in person.workers)
