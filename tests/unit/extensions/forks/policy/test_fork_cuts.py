"""Changes of a fork: what each of them takes out of the record, and what is said of those that mean nothing."""

from __future__ import annotations

import pytest

from llm_do_temporal.errors import UsageError
from llm_do_temporal.extensions.forks.policy.changes import (
    KeyedInvocation,
    RunOutline,
    cut_at,
    cut_of_decision,
    cut_of_paths,
    cut_of_result,
    cut_of_workers,
    cut_turns,
    found_question,
    read_decision,
    read_decisions,
    read_step,
)
from tests.support.extensions.forks.outlines import tree


def test_a_turn_takes_out_itself_what_follows_and_all_that_contains_it() -> None:
    cut = cut_at(tree(), read_step("main/reader-1@1"))
    assert cut.turns == {"r1"}
    assert cut.calls == {"c1", "d1"}
    assert cut.began == {"main/reader-1": 1}


def test_a_turn_of_the_entry_leaves_its_callees() -> None:
    cut = cut_at(tree(), read_step("main@2"))
    assert cut.turns == {"m2", "m3"}
    assert cut.calls == {"c3"}


def test_what_a_function_began_takes_the_calls_of_functions_out() -> None:
    cut = cut_at(tree(), read_step("main/reader-2/checker-1@1"))
    assert cut.calls == {"n1", "d3", "f1", "c2", "d2"}


def test_an_orphan_whose_caller_is_not_kept_is_cut_by_itself() -> None:
    orphan = KeyedInvocation(path="main/gone-1/left-1", called_by="x", delegation_key="y")
    outline = RunOutline(run="run", invocations=(orphan,))
    assert cut_turns(outline, "main/gone-1/left-1", 1).calls == {"x", "y"}
    assert not cut_turns(outline, "nowhere", 1).turns


def test_a_path_is_cut_with_all_below_it() -> None:
    cut = cut_of_paths(tree(), [" main/reader-2 "])
    assert cut.turns == {"s1", "s2", "k1"}
    assert cut.calls == {"c2", "d2", "f1", "n1", "d3"}


def test_another_decision_takes_out_its_call_and_asks() -> None:
    cut = cut_of_decision(tree(), read_decision('a1=reject:"no"'))
    assert cut.calls == {"c3"}
    assert cut.asked == ("c3",)
    assert cut.began == {"main": 3}


def test_another_decision_on_what_a_function_called_takes_the_function_out() -> None:
    cut = cut_of_decision(tree(), read_decision("a2=approve"))
    assert cut.calls == {"n1", "f1", "c2", "d2"}
    assert cut.asked == ("n1",)


def test_another_result_takes_out_its_call() -> None:
    key, cut = cut_of_result(tree(), read_step("main@1#2"))
    assert (key, cut.calls, cut.began) == ("c2", {"c2"}, {"main": 2})
    assert cut_of_result(tree(), read_step("main@2"))[0] == "c3"


def test_changed_workers_are_cut_out_wherever_they_ran() -> None:
    paths = ["main/reader-1", "main/reader-2"]
    cut = cut_of_workers(tree(), paths, sure=True)
    assert cut.calls == {"c1", "c2", "d1", "d2"}
    assert cut.began == dict.fromkeys(paths, 1)
    assert cut_of_workers(tree(), paths, sure=False).began == {}


def test_cuts_add_up_and_the_earlier_turn_counts() -> None:
    cut = cut_at(tree(), read_step("main@3")).plus(cut_at(tree(), read_step("main@2")))
    assert cut.began == {"main": 2}
    assert cut.turns == {"m2", "m3"}


@pytest.mark.parametrize("text", ["", "main", "main@", "main@0", "main@x", "main@1#0", "@1", "main@1#"])
def test_what_names_no_step_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="names no turn"):
        read_step(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a3", "is no decision"),
        ("a3=perhaps", "is no decision"),
        ("b3=approve", "is no decision"),
        ("a3=modify", "says no arguments"),
        ("a3=approve:yes", "write a3=approve"),
        ("a3=reject", "says no reason"),
        ("a3=reject:", "says no reason"),
        ("a3=reject: ", "says no reason"),
        ('a3=reject:""', "says no reason"),
        ("a3=reject:' '", "says no reason"),
    ],
)
def test_what_is_no_decision_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_decision(text)


@pytest.mark.parametrize(
    ("text", "said", "step"),
    [
        ("nobody@1", "has no invocation 'nobody'", "main/reader-1"),
        ("main@4", "it has turns 1 to 3", ""),
        ("main/reader-1@2", "it has turn 1$", ""),
        ("main@1#1", "names a call", "--at main@1"),
    ],
)
def test_a_turn_that_is_not_there_is_refused_with_those_that_are(text: str, said: str, step: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        cut_at(tree(), read_step(text))
    assert step in (caught.value.next_step or "")


def test_an_invocation_without_turns_says_so() -> None:
    outline = RunOutline(run="run", invocations=(KeyedInvocation(path="main"),))
    with pytest.raises(UsageError, match="it has no turn"):
        cut_at(outline, read_step("main@1"))


@pytest.mark.parametrize(
    ("text", "said", "step"),
    [
        ("main@1", "made several calls", r"main@1#1 (reader), main@1#2 (reader)"),
        ("main@1#3", "has no call 3", "main@1#2"),
        ("main@3", "called no tool", ""),
    ],
)
def test_a_call_that_is_not_there_is_refused_with_those_that_are(text: str, said: str, step: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        cut_of_result(tree(), read_step(text))
    assert step in (caught.value.next_step or "")


@pytest.mark.parametrize(
    ("text", "said", "step"),
    [
        ("a9=approve", "has no approval 'a9'", "a1 (write_file)"),
        ("a3=approve", "is a review of changes", "--at"),
        ("a4=approve", "is about no call", ""),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused(text: str, said: str, step: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        found_question(tree(), read_decision(text))
    assert step in (caught.value.next_step or "")


def test_each_call_is_decided_once() -> None:
    first, second = read_decisions(tree(), ['a1=reject:"too long" ', "a2=approve"])
    assert (first.decision, first.more, second.id) == ("reject", "too long", "a2")
    for other in ("a1=approve", "a1=reject:no"):
        with pytest.raises(UsageError, match="'a1' is decided twice"):
            read_decisions(tree(), ["a1=approve", other])
    (again,) = (one for one in tree().questions if one.id == "a1")
    asked_twice = tree().model_copy(update={"questions": (again, again.model_copy(update={"id": "a7"}))})
    with pytest.raises(UsageError, match="'a1' and 'a7' are one call, which is decided twice"):
        read_decisions(asked_twice, ["a1=approve", "a7=reject:no"])


def test_a_run_that_asked_nothing_says_so_and_long_lists_are_cut() -> None:
    invocations = tuple(KeyedInvocation(path=f"main/x-{number}") for number in range(30))
    with pytest.raises(UsageError) as caught:
        found_question(RunOutline(run="run"), read_decision("a1=approve"))
    assert caught.value.next_step == "It asked nobody anything."
    with pytest.raises(UsageError) as caught:
        cut_of_paths(RunOutline(run="run", invocations=invocations), ["main"])
    assert "and 10 more" in (caught.value.next_step or "")
