"""The page of the rules: those of today in plain words, and what they, or more of them, would make of past calls.

It writes nothing: a person takes the difference over into `workshop.yaml` and commits it. Past calls are read only
where a visitor asks for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from llm_do_temporal.errors import DefinitionError, UsageError
from llm_do_temporal.extensions.rules.policy.sentences import rules_in_words
from llm_do_temporal.extensions.rules.policy.verdicts import ChangeKind, Policy
from llm_do_temporal.extensions.rules.trial import (
    PastCalls,
    RuleAdvice,
    SharedPastCalls,
    Trial,
    advice_on,
    answer_in_words,
    policy_of_workshop,
    proposed_change,
    try_policy,
    with_entries,
)
from llm_do_temporal.ui.content.renderer import render
from llm_do_temporal.ui.requests import settings_of, shared

DAYS = (7, 30, 90)
"""Numbers of days that can be looked back."""
MOST_ROWS = 100
"""Calls of one kind that the page lists; `rules test` lists all."""
MAX_ENTRY_CHARS = 4_000


@dataclass(frozen=True)
class Suggestion:
    """Entries that past calls speak for, with the change of the file and its trial."""

    advice: RuleAdvice
    change: str
    """Unified difference of `workshop.yaml`."""
    problem: str
    """Reason why there is no such difference; empty where there is one."""
    trial: Trial


async def show_rules(request: Request) -> Response:
    """Show the rules; with `days` in the address what they make of the calls of so many days, with `add` more rules."""
    folder = settings_of(request).workshop
    policy, problem = _policy(folder)
    asked = request.query_params
    added = asked.get("add", "").strip()
    days = next((number for number in DAYS if asked.get("days") == str(number)), None)
    shown: dict[str, Any] = {"today": None, "suggested": None, "tried": None, "wrong": ""}
    if folder is not None and policy is not None:
        if added:
            days = days or DAYS[1]
            shown |= await _with_entry(request, policy, added, days)
        elif days is not None:
            shown |= await _past_calls(request).tried(days, policy.model_dump_json(), partial(_trials, folder, policy))
    return render(
        request,
        "rules/rules.html",
        status=422 if shown["wrong"] else 200,
        policy=policy,
        problem=problem,
        sentences=() if policy is None else rules_in_words(policy.approvals),
        days=days,
        choices=DAYS,
        added=added[:MAX_ENTRY_CHARS],
        max_entry_chars=MAX_ENTRY_CHARS,
        changes=list(ChangeKind),
        most_rows=MOST_ROWS,
        answer_in_words=answer_in_words,
        **shown,
    )


async def _with_entry(request: Request, policy: Policy, added: str, days: int) -> dict[str, Any]:
    """Return the trial of one more entry, or what is wrong with it."""
    try:
        if len(added) > MAX_ENTRY_CHARS:
            raise UsageError(f"the entry is longer than {MAX_ENTRY_CHARS:,} characters")
        changed = with_entries(policy, [added])
    except UsageError as error:
        return {"wrong": f"{error.message}. {error.next_step or ''}".strip()}
    key = f"{policy.model_dump_json()} {added}"
    return {"tried": await _past_calls(request).tried(days, key, partial(try_policy, changed, today=policy))}


def _trials(folder: Path, policy: Policy, past: PastCalls) -> dict[str, Any]:
    """Return the trial of the rules of today, and that of the rules that are suggested."""
    advice = advice_on(past.calls, policy.approvals)
    more = tuple(one.entry for one in advice.entries)
    approvals = policy.approvals.model_copy(update={"allow": (*policy.approvals.allow, *more)})
    trial = try_policy(policy.model_copy(update={"approvals": approvals}), past, today=policy)
    try:
        change, problem = proposed_change(folder, advice), ""
    except UsageError as error:
        change, problem = "", f"{error.message}. {error.next_step or ''}".strip()
    return {"today": try_policy(policy, past), "suggested": Suggestion(advice, change, problem, trial)}


def _policy(folder: Path | None) -> tuple[Policy | None, str]:
    """Return the policy of the workshop; where it cannot be read None, and why not."""
    if folder is None:
        return None, "The workshop's folder is not on this machine, so its rules are not known here."
    try:
        return policy_of_workshop(folder), ""
    except DefinitionError as error:
        return None, error.message


def _past_calls(request: Request) -> SharedPastCalls:
    return shared(request, "past_calls", SharedPastCalls)


routes = [Route("/rules", show_rules, methods=["GET"])]
