"""The offline bootstrapper, and the workers it makes: it chooses a trade, creates a worker of it, and calls that.

The script knows the trades below and no others. The work of a made worker follows from its instructions alone,
so a worker of an earlier run is played as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from dataclasses import dataclass

from llm_do_temporal.offline.model.play import PlaySteps, Say, ask
from llm_do_temporal.offline.model.seen import SeenRequest, ToolResult, fields_of
from llm_do_temporal.offline.summarizer import key_sentences

CREATE, CALL = "worker_create", "worker_call"
_SUFFIXES = ("_2", "_3")
"""Endings for a name that is taken, tried in this order."""
_BORDER = re.compile(r"[;\n]+|,\s*(?:and\s+)?|\.\s+|\s+and\s+")
_MATERIAL = re.compile(r":\s")


@dataclass(frozen=True)
class Trade:
    """Kind of work: the word that asks for it, the worker that does it, and the function that plays this worker."""

    word: str
    name: str
    description: str
    instructions: str
    work: Callable[[str], str]


def _checklist(text: str) -> str:
    return "\n".join(f"- [ ] {point.strip(' .')}" for point in _BORDER.split(text) if point.strip(" ."))


def _gist(text: str) -> str:
    return " ".join(key_sentences(text, 1)) or text


TRADES = (
    Trade(
        word="summar",
        name="gist_writer",
        description="Says a text in one sentence.",
        instructions="You say in one sentence what the text that you are given is about. Add nothing to it.",
        work=_gist,
    ),
    Trade(
        word="list",
        name="checklist_writer",
        description="Turns a text into a checklist.",
        instructions="You turn the text that you are given into a checklist: a line `- [ ] …` for each thing in it.",
        work=_checklist,
    ),
)


def bootstrap(seen: SeenRequest) -> PlaySteps:
    """Make the worker that the request needs, under a name that is free, and hand it the material."""
    trade = next((trade for trade in TRADES if trade.word in seen.prompt.lower()), TRADES[-1])
    made = yield from _create(trade.name, trade)
    for suffix in _SUFFIXES:
        if made.ok or "exists already" not in made.text:
            break
        made = yield from _create(f"{trade.name}{suffix}", trade)
    if not made.ok:
        return f"No worker was made: {made.text}"
    name = _made_name(made)
    done = yield from ask(CALL, f"Handing it to {name}.", worker_name=name, input_data=material(seen.prompt))
    if not done.ok:
        return f"{name} was made, and could not do it: {done.text}"
    return f"{done.text}\n\nDone by {name}, which was made for it."


def do_trade(seen: SeenRequest) -> PlaySteps:
    """Do the work of a made worker, as its instructions say."""
    yield from ()
    trade = next(trade for trade in TRADES if trade.instructions in seen.instructions)
    return {"text": trade.work(seen.prompt)}


def material(prompt: str) -> str:
    """Return the text after the first colon of a request; without a colon, all of it."""
    return _MATERIAL.split(prompt, maxsplit=1)[-1].strip()


def _create(name: str, trade: Trade) -> Generator[Say, list[ToolResult], ToolResult]:
    return ask(CREATE, f"Making {name}.", name=name, description=trade.description, instructions=trade.instructions)


def _made_name(made: ToolResult) -> str:
    """Return the name as the tool reports it: a person may have changed it."""
    return str(fields_of(made.data).get("name") or made.args["name"])
