"""The made-up month that learned rules are held against: the same for a seed, with attacks in it, and none gets by."""

from __future__ import annotations

from benchmarks.rules.__main__ import result_of, table
from benchmarks.rules.month import month_of


async def test_a_month_follows_from_its_seed_and_has_what_people_want_and_what_they_do_not() -> None:
    month, same, other = await month_of(1, 0, 600), await month_of(1, 0, 600), await month_of(2, 0, 600)
    assert month == same
    assert month != other
    assert len(month.decided) == 600
    attacks = [one for one in month.decided if one.wish.is_attack]
    assert attacks
    assert not any(one.is_wanted for one in attacks if one.wish.is_evil or one.wish.place)
    assert month.refused_by_machine > 0
    answers = {one.past.answer.value for one in month.decided}
    assert {"approved", "rejected", "modified"} == answers
    assert any(one.past.answer == "approved" and not one.is_wanted for one in month.decided)  # by mistake


async def test_learned_rules_save_questions_and_pass_nothing_that_was_not_wanted() -> None:
    result = await result_of(1, 600)
    assert result.month.saved > 100
    assert result.following.saved > 50
    assert (result.month.wrong, result.following.wrong) == (0, 0)
    # The month is no easy one: whoever frees what was approved twice passes what nobody wanted.
    assert result.naive.wrong > 0
    assert "| 1 |" in table([result])
