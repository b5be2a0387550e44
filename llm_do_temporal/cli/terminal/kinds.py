"""Asking a person which further calls, of which kind, a decision is to stand for."""

from __future__ import annotations

from pydantic import ValidationError

from llm_do_temporal.cli.terminal.prompts import Prompter
from llm_do_temporal.cli.text import visible_line
from llm_do_temporal.client.decisions import OfferedKind
from llm_do_temporal.policy.kinds.entries import DEFAULT_TIMES, KindGrant


async def ask_for_grant(offers: list[OfferedKind], prompter: Prompter) -> KindGrant | None:
    """Show the kinds, numbered, and return the grant that the person wants; None: none after all."""
    if not offers:
        prompter.tell("no kind of calls fits this call: it is asked about by itself")
        return None
    for number, offer in enumerate(offers, 1):
        prompter.tell(visible_line(f"{number}  {offer.kind.sentence}: {offer.so_far}"))
        for one in offer.covered:
            state = "waits" if one.verdict is None else one.verdict.decision.value
            prompter.tell(visible_line(f"     {one.id}  {state}  {one.request.summary}", 200))
    typed = (await prompter.line("number of the kind (empty: back): ") or "").strip()
    if not typed:
        return None
    if not (typed.isascii() and typed.isdigit() and 1 <= int(typed) <= len(offers)):
        prompter.tell(f"'{typed}' is none of the numbers above")
        return None
    times = await prompter.line(f"how many more calls (empty: {DEFAULT_TIMES}): ")
    time = await prompter.line("for how long, like 30m or 2h (empty: 1h): ")
    if times is None or time is None:
        return None
    return _grant(offers[int(typed) - 1], times.strip(), time.strip(), prompter)


def _grant(offer: OfferedKind, times: str, time: str, prompter: Prompter) -> KindGrant | None:
    given = {name: value for name, value in (("times", times), ("seconds", time)) if value}
    try:
        return KindGrant.model_validate({"kind": offer.kind, **given})
    except ValidationError as error:
        prompter.tell(error.errors()[0]["msg"].removeprefix("Value error, "))
        return None
