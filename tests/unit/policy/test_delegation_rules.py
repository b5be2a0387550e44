"""Who may call whom, how deep, and under which names."""

from __future__ import annotations

import pytest

from llm_do_temporal.errors import DefinitionError, DelegationRefusal, DepthExceeded
from llm_do_temporal.policy.delegation import (
    DEFAULT_MAX_DEPTH,
    MAX_WORKER_NAME_CHARS,
    RESERVED_NAMES,
    check_allowed,
    check_depth,
    check_name,
)


@pytest.mark.parametrize(
    "name", ["a", "evaluator", "pitch_deck-2", "a" * MAX_WORKER_NAME_CHARS, "worker_calls", "final"]
)
def test_plain_names_are_valid(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a" * (MAX_WORKER_NAME_CHARS + 1),
        "Evaluator",
        "1st",
        "_private",
        "-flag",
        "two words",
        "a.b",
        # a name becomes a path
        "../evil",
        "/etc/passwd",
        "a/b",
        "a\\b",
        "pkg:a",
        # a pattern that ends in $ would let this one through
        "evaluator\n",
        "evaluator\0",
        # letters and digits that only look like the allowed ones
        "\u0435valuator",
        "a\u0661",
        "éval",
    ],
)
def test_other_names_are_not(name: str) -> None:
    with pytest.raises(DefinitionError, match="is not valid; a name is a lower-case letter"):
        check_name(name)


def test_the_message_about_a_long_name_is_short() -> None:
    with pytest.raises(DefinitionError) as wrong:
        check_name("A" * 100_000)
    assert len(str(wrong.value)) < 300


OF_THE_REFERENCE = {"worker_call", "worker_create", "shell", "read_file", "write_file", "list_files"}


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES | OF_THE_REFERENCE))
def test_the_names_of_tools_are_reserved(name: str) -> None:
    with pytest.raises(DefinitionError, match="is reserved for a tool"):
        check_name(name)


@pytest.mark.parametrize("allow", [("evaluator",), ("writer", "evaluator"), ("*",), ("writer", "*")])
def test_a_listed_worker_may_be_called(allow: tuple[str, ...]) -> None:
    check_allowed("evaluator", allow, caller="main")


@pytest.mark.parametrize(
    ("allow", "listed"),
    [
        # nobody is nobody
        ((), "it may call nobody"),
        (("writer", "reader"), "it may call 'writer', 'reader'"),
        # names are whole, in small letters, and no patterns
        (("evaluator2",), "'evaluator2'"),
        (("Evaluator",), "'Evaluator'"),
        (("eval*",), "'eval*'"),
        (("**",), r"'**'"),
    ],
)
def test_any_other_worker_may_not(allow: tuple[str, ...], listed: str) -> None:
    with pytest.raises(DelegationRefusal) as refused:
        check_allowed("evaluator", allow, caller="main")
    assert str(refused.value).startswith("worker 'main' may not call 'evaluator'; ")
    assert listed in str(refused.value)


@pytest.mark.parametrize(("depth", "limit"), [(0, 0), (0, 5), (5, 5), (4, 5)])
def test_workers_run_down_to_the_limit(depth: int, limit: int) -> None:
    check_depth(depth, limit, worker="evaluator")


@pytest.mark.parametrize(("depth", "limit"), [(1, 0), (6, DEFAULT_MAX_DEPTH), (100, 5)])
def test_and_no_deeper(depth: int, limit: int) -> None:
    with pytest.raises(DepthExceeded) as refused:
        check_depth(depth, limit, worker="evaluator")
    assert str(refused.value) == (
        f"RecursionError: maximum worker depth exceeded: 'evaluator' would run at depth {depth}, "
        f"the limit is {limit} (max_depth)"
    )
