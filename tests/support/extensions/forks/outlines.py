"""Outlines of runs, for tests of what forks do with them."""

from __future__ import annotations

from llm_do_temporal.extensions.forks.policy.changes import (
    KeyedCall,
    KeyedInvocation,
    KeyedQuestion,
    KeyedTurn,
    RunOutline,
)


def turn(number: int, key: str, *calls: KeyedCall) -> KeyedTurn:
    return KeyedTurn(number=number, key=key, input_tokens=100, output_tokens=10, calls=calls)


def tree() -> RunOutline:
    """A run: main calls two readers, the second of which calls a checker by a function."""
    main = KeyedInvocation(
        path="main",
        turns=(
            turn(
                1,
                "m1",
                KeyedCall(key="c1", tool="reader", number=1, children=("main/reader-1",)),
                KeyedCall(key="c2", tool="reader", number=2, children=("main/reader-2",)),
            ),
            turn(2, "m2", KeyedCall(key="c3", tool="write_file", number=1)),
            turn(3, "m3"),
        ),
    )
    first = KeyedInvocation(path="main/reader-1", called_by="c1", delegation_key="d1", turns=(turn(1, "r1"),))
    second = KeyedInvocation(
        path="main/reader-2",
        called_by="c2",
        delegation_key="d2",
        turns=(
            turn(1, "s1", KeyedCall(key="f1", tool="look", number=1, of_function=True)),
            turn(2, "s2"),
        ),
    )
    checker = KeyedInvocation(
        path="main/reader-2/checker-1", called_by="n1", delegation_key="d3", turns=(turn(1, "k1"),)
    )
    return RunOutline(
        run="run",
        invocations=(main, first, second, checker),
        questions=(
            KeyedQuestion(id="a1", path="main", tool="write_file", content_key="c3"),
            KeyedQuestion(id="a2", path="main/reader-2", tool="checker", content_key="n1"),
            KeyedQuestion(id="a3", path="main", tool="submit_changes", content_key="c9", is_review=True),
            KeyedQuestion(id="a4", path="main", tool="budget"),
        ),
    )
