"""Limits: their values, their words, and the ledger that grants what is left of them."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from llm_do_temporal.messages.runs import workflow_id_of
from llm_do_temporal.policy.budget import (
    Action,
    Amounts,
    Dimension,
    Ledger,
    Limits,
    Report,
    agreed_limit,
    described,
    limited_by,
    opened,
    raised,
    settle,
    with_report,
)

RUN = "r"


def ledger(path: str = "", **limits: Any) -> Ledger:
    return opened(Ledger(), path, RUN, Limits(**limits))


def wants(amount: Amounts, *, who: str = "main", **more: Any) -> Report:
    return Report(invocation=workflow_id_of("r", who), path=who, wants=amount, **more)


def asked(state: Ledger, *reports: Report) -> tuple[Ledger, list[Action]]:
    actions: list[Action] = []
    for report in reports:
        state, more = settle(with_report(state, report))
        actions += more
    return state, actions


def told(actions: list[Action]) -> list[tuple[str, str]]:
    return [(action.kind, action.invocation) for action in actions]


TURN = Amounts(turns=1)
CALLS = Amounts(tool_calls=4)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1800), ("2h", 7200), ("3d", 259_200), (5, 5)])
def test_times_are_written_with_a_unit_or_in_seconds(text: Any, seconds: int) -> None:
    assert Limits(time=text).time == seconds


@pytest.mark.parametrize(
    "given", [{"time": "soon"}, {"time": "0s"}, {"turns": 0}, {"cost": 0}, {"cost": "NaN"}, {"turn": 3}]
)
def test_a_limit_that_is_none_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Limits(**given)


@pytest.mark.parametrize(
    "cost",
    [
        *("1e999999999", "1e1000000", "1e30", "1000000000.01", "NaN", "sNaN", "Infinity", "-Infinity", "-1", "0"),
        *("1e-999999999", "1e-1000000", "1e-21", f"1.{'0' * 50}1", Decimal("1e999999999"), 1e300, float("inf")),
    ],
)
def test_a_cost_that_nobody_can_count_with_is_refused(cost: Any) -> None:
    with pytest.raises(ValidationError):
        Limits(cost=cost)


@pytest.mark.parametrize("cost", ["1E+9", "1000000000", "2.50", "1e-20", 0.1 + 0.2, 0.0011 * 1.1])
def test_a_cost_within_a_billion_dollars_is_kept_as_it_is(cost: Any) -> None:
    kept = Limits(cost=cost)
    assert kept.cost == Decimal(str(cost))
    assert Limits.model_validate_json(kept.model_dump_json()) == kept


@pytest.mark.parametrize("counted", ["turns", "tool_calls", "tokens", "invocations"])
def test_a_count_is_a_million_millions_at_most(counted: str) -> None:
    assert Limits.model_validate({counted: 10**12}).set_ones == (counted,)
    for more in (10**12 + 1, 10**30, 1e300):
        with pytest.raises(ValidationError):
            Limits.model_validate({counted: more})


@pytest.mark.parametrize(
    ("dimension", "agreed", "kept"),
    [
        ("turns", "1e15", 10**12),
        ("tokens", "7", 7),
        ("cost", "1e15", 10**9),
        ("cost", "2.5", "2.5"),
        ("cost", "1e-999999999", "1e-20"),
        ("cost", "999999999.123456789012345678901", "999999999.12345678901234567891"),
    ],
)
def test_what_a_person_agrees_to_is_a_limit_that_can_be_read_again(dimension: str, agreed: str, kept: Any) -> None:
    limits = Limits(turns=1).with_limit(Dimension(dimension), Decimal(agreed))
    assert limits.of(Dimension(dimension)) == Decimal(kept)
    assert Limits.model_validate_json(limits.model_dump_json()) == limits


def test_limits_of_a_start_count_for_more() -> None:
    both = Limits(turns=2, cost=Decimal("0.5")).over(Limits(turns=9, tokens=100))
    assert both == Limits(turns=2, tokens=100, cost=Decimal("0.5"))
    assert both.set_ones == ("turns", "tokens", "cost")


@pytest.mark.parametrize(
    ("dimension", "amount", "text"),
    [
        ("turns", 1, "1 turn"),
        ("tool_calls", 2000, "2,000 tool calls"),
        ("cost", "2.5", "$2.50"),
        ("cost", "0.01625", "$0.01625"),
        ("time", 86400, "1 day"),
        ("time", 7200, "2 hours"),
        ("time", 90, "90 seconds"),
        ("time", 1, "1 second"),
    ],
)
def test_amounts_in_words(dimension: str, amount: Any, text: str) -> None:
    assert described(Dimension(dimension), Decimal(amount)) == text


@pytest.mark.parametrize(
    ("given", "limit"), [({"next": 7}, 7), ({"next": float("nan")}, 4), ({}, 4), ({"next": -1}, 4), ({"next": 1e30}, 4)]
)
def test_the_limit_that_was_agreed_to(given: dict[str, Any], limit: int) -> None:
    assert agreed_limit(Dimension.TURNS, given, {"next": 4}) == limit


def test_a_question_that_names_no_limit_raises_none() -> None:
    with pytest.raises(ValueError, match="names no limit"):
        agreed_limit(Dimension.TIME, {"next": 1e12}, {})


def test_an_invocation_is_limited_by_its_own_limits_and_by_those_above_each_named_once() -> None:
    assert limited_by(Limits()) == ()
    above = limited_by(Limits(turns=9, cost=Decimal(1)))
    assert set(above) == {Dimension.TURNS, Dimension.COST}
    assert limited_by(Limits(), above) == above
    assert limited_by(Limits(turns=2, time=5), above) == (*above, Dimension.TIME)


def test_without_limits_there_is_no_account() -> None:
    assert opened(Ledger(), "", RUN, Limits()) == Ledger()
    state = ledger(turns=3)
    assert opened(state, "", RUN, Limits(turns=9)) == state


def test_a_grant_leaves_something_for_others_and_is_reserved_at_once() -> None:
    state, (grant,) = asked(ledger(turns=12), wants(TURN))
    assert (grant.kind, grant.number, grant.amounts.turns) == ("grant", 1, 6)
    assert state.accounts[0].held.turns == 6
    assert settle(state)[1] == []


def test_a_grant_on_its_way_counts_and_needs_no_second_one() -> None:
    state, _ = asked(ledger(turns=12), wants(TURN))
    state, actions = asked(state, wants(TURN))
    assert actions == []
    assert state.accounts[0].held.turns == 6


def test_calls_get_what_is_left_where_that_is_less_than_they_want() -> None:
    state, (grant,) = asked(ledger(tool_calls=3), wants(CALLS))
    assert grant.amounts.tool_calls == 3
    spent = Amounts(tool_calls=3)
    _, actions = asked(state, wants(Amounts(tool_calls=1), spent=spent, grants=1))
    assert told(actions) == [("reached", RUN)]


def test_who_holds_what_others_lack_is_recalled_once_before_a_limit_is_reached() -> None:
    state, _ = asked(ledger(turns=2), wants(TURN), wants(TURN, who="main/a-1"))
    state, actions = asked(state, wants(TURN, who="main/b-1"))
    assert told(actions) == [("recall", RUN), ("recall", "r/main/a-1")]
    state, actions = asked(state, wants(TURN, who="main/b-1"))
    assert actions == []
    state, (grant,) = asked(state, Report(invocation=RUN, path="main", grants=1))
    assert (grant.invocation, grant.amounts.turns) == ("r/main/b-1", 1)
    state, _ = asked(state, Report(invocation="r/main/a-1", path="main/a-1", grants=1, spent=TURN))
    state, actions = asked(
        state,
        Report(invocation="r/main/b-1", path="main/b-1", grants=1, spent=TURN),
        wants(TURN, grants=1),
    )
    assert told(actions) == [("reached", RUN)]


def test_nothing_is_granted_while_a_limit_is_reached_until_it_is_raised() -> None:
    state, _ = asked(ledger(turns=1), wants(TURN))
    state, actions = asked(state, wants(TURN, spent=TURN, grants=1), wants(TURN, who="main/a-1"))
    assert told(actions) == [("reached", RUN)]
    account = actions[0].account
    assert account is not None
    assert account.reached == "turns"
    state, actions = settle(raised(state, "", Dimension.TURNS, Decimal(4)))
    assert told(actions) == [("grant", RUN), ("grant", "r/main/a-1")]


def test_the_first_turn_holds_everything_and_later_ones_as_much_as_the_largest() -> None:
    state, (grant,) = asked(ledger(tokens=1000), wants(TURN))
    assert grant.amounts == Amounts(turns=1, tokens=1000)
    used = Amounts(turns=1, tokens=300)
    state, (second,) = asked(state, wants(TURN, spent=used, turn=Amounts(tokens=300), grants=1))
    assert second.amounts == Amounts(turns=1, tokens=300)
    state, (third,) = asked(state, wants(TURN, who="main/a-1"))
    assert third.amounts == Amounts(turns=1, tokens=300)
    _, (last,) = asked(state, wants(TURN, who="main/b-1"))
    assert last.amounts == Amounts(turns=1, tokens=100)


def test_the_largest_turn_of_anybody_counts() -> None:
    state, _ = asked(ledger(tokens=1000), wants(TURN))
    first = Report(invocation=RUN, path="main", grants=1, turn=Amounts(tokens=100))
    other = Report(invocation="r/main/a-1", path="main/a-1", turn=Amounts(tokens=40))
    state, _ = asked(state, first, other)
    assert state.accounts[0].turn == Amounts(tokens=100)


def test_what_a_turn_took_beyond_its_share_is_spent_all_the_same() -> None:
    state, _ = asked(ledger(cost="1"), wants(TURN))
    over = Amounts(turns=1, cost=Decimal("1.5"))
    _, (reached,) = asked(state, wants(TURN, spent=over, turn=Amounts(cost=Decimal("1.5")), grants=1))
    assert reached.account is not None
    assert reached.account.spent.cost == Decimal("1.5")


def test_a_free_turn_does_not_divide_by_nothing() -> None:
    state, _ = asked(ledger(tokens=10), wants(TURN))
    _, (grant,) = asked(state, wants(TURN, spent=TURN, turn=Amounts(), grants=1))
    assert grant.kind == "grant"


def test_a_model_without_a_price_reaches_a_limit_on_cost_until_somebody_agrees() -> None:
    state, _ = asked(ledger(cost="1"), wants(TURN))
    report = wants(TURN, spent=TURN, turn=Amounts(), unpriced=("test:x",), grants=1)
    state, actions = asked(state, report)
    assert told(actions) == [("reached", RUN)]
    _, actions = settle(raised(state, "", Dimension.COST, Decimal(1)))
    assert told(actions) == [("grant", RUN)]


def test_time_that_is_up_recalls_everybody_and_stops_every_grant() -> None:
    state, _ = asked(ledger(time="1h", turns=40), wants(TURN), wants(TURN, who="main/a-1"))
    late = Report(invocation=RUN, path="main", grants=1, overdue=("",))
    state, actions = asked(state, late)
    assert told(actions) == [("reached", RUN), ("recall", "r/main/a-1")]
    state, actions = asked(state, wants(TURN, grants=1))
    assert actions == []
    state, actions = settle(raised(state, "", Dimension.TIME, Decimal(7200)))
    assert told(actions) == [("grant", RUN)]
    assert not state.accounts[0].overdue


def test_a_workers_limits_hold_for_what_is_below_it_and_end_with_it() -> None:
    own = wants(TURN, who="main/a-1", limits=Limits(turns=2))
    state, _ = asked(ledger(turns=100), own)
    below = wants(TURN, who="main/a-1/b-1")
    state, actions = asked(state, below, wants(TURN, who="main/a-10"))
    assert [(action.invocation, action.amounts.turns) for action in actions] == [
        ("r/main/a-1/b-1", 1),
        ("r/main/a-10", 16),
    ]
    state, actions = asked(
        state, Report(invocation="r/main/a-1/b-1", path="main/a-1/b-1", spent=TURN, grants=1, ended="yes")
    )
    state, _ = asked(state, Report(invocation="r/main/a-1", path="main/a-1", spent=TURN, grants=1, ended="yes"))
    (account,) = state.accounts
    assert (account.path, account.spent.turns) == ("", 2)


def test_what_is_held_by_one_that_is_lost_counts_as_spent() -> None:
    state, _ = asked(ledger(turns=4), wants(TURN, who="main/a-1"))
    state, _ = asked(state, Report(invocation="r/main/a-1", path="main/a-1", ended="lost"))
    (account,) = state.accounts
    assert (account.spent.turns, account.held.turns, state.holders) == (2, 0, {})


def test_no_order_of_spending_and_reporting_overspends_or_gets_stuck() -> None:
    for seed in range(30):
        _play(random.Random(seed), limit=23, invocations=7)


def _play(dice: random.Random, limit: int, invocations: int) -> None:
    """Invocations spend one turn at a time, in any order, answers arriving late, until all are told it is over."""
    state = ledger(turns=limit)
    names = [f"main/a-{number}" for number in range(invocations)]
    spent = dict.fromkeys(names, 0)
    holds = dict.fromkeys(names, 0)
    grants = dict.fromkeys(names, 0)
    mail: list[Action] = []
    over = False
    while not over:
        who = dice.choice(names)
        if holds[who]:
            holds[who] -= 1
            spent[who] += 1
        arrived = next((action for action in mail if action.invocation == f"r/{who}"), None)
        if arrived is not None:
            mail.remove(arrived)
            if arrived.kind == "grant":
                grants[who] = arrived.number
                holds[who] += arrived.amounts.turns
            else:
                holds[who] = 0
        report = Report(
            invocation=f"r/{who}",
            path=who,
            spent=Amounts(turns=spent[who]),
            holds=Amounts(turns=holds[who]),
            grants=grants[who],
            wants=Amounts() if holds[who] else TURN,
        )
        state, actions = asked(state, report)
        over = any(action.kind == "reached" for action in actions)
        mail += actions
        assert sum(spent.values()) <= limit
    assert sum(spent.values()) == limit
