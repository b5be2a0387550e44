"""Which tool call has started an invocation: the one most like it, the first of several, and each once."""

from __future__ import annotations

from typing import Any

from llm_do_temporal.client.traces.open_calls import OpenCalls


def calls(*made: tuple[str, str, Any]) -> OpenCalls:
    """Calls with these keys, tools and arguments."""
    found = OpenCalls()
    for key, tool, arguments in made:
        found.add(key, tool, arguments)
    return found


def test_each_call_starts_one_invocation() -> None:
    made = calls(("a", "reader", {"input": "x"}), ("b", "reader", {"input": "x"}))
    assert [made.take("reader", "x", []) for _ in range(3)] == ["a", "b", None]


def test_what_was_said_and_handed_over_tells_one_call_from_another() -> None:
    made = calls(
        ("other", "writer", {"input": "x", "attachments": ["1.pdf"]}),
        ("said", "reader", {"input": "x"}),
        ("file", "reader", {"input": "y", "attachments": ["1.pdf"]}),
        ("both", "reader", {"input": "x", "attachments": ["1.pdf"]}),
        ("object", "reader", {"input_data": {"a": 1, "b": 2}}),
    )
    assert made.take("reader", "x", ["1.pdf"]) == "both"
    # Of calls that are equally like it, the first.
    assert made.take("reader", "x", ["1.pdf"]) == "said"
    assert made.take("reader", {"b": 2, "a": 1}, []) == "object"
    assert made.take("reader", "neither", ["2.pdf"]) == "file"
    assert made.take("reader", "x", ["1.pdf"]) is None


def test_a_worker_that_the_arguments_name_counts_like_a_tool_of_its_own() -> None:
    made = calls(("a", "worker_call", {"worker_name": "reader", "input": "x"}), ("b", "reader", ["odd"]))
    assert made.take("reader", "x", []) == "a"
    assert made.take("reader", "x", []) == "b"


def test_a_call_that_has_returned_starts_nothing() -> None:
    made = calls(("a", "reader", {"input": "x"}), ("b", "reader", {"input": "x"}), ("c", "reader", {"worker_name": 7}))
    made.remove("a")
    made.remove("unknown")
    assert [made.take("reader", "x", []) for _ in range(3)] == ["b", "c", None]
