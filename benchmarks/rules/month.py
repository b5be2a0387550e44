"""A month of decisions: the calls that workers make, as real past calls, and what people decide about them.

Each call is put into words by the tools themselves, so that its question is the one that a person would see; a call
that these refuse asks nobody. The figures of people are made up, and everything follows from the seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.rules.intentions import is_wanted
from benchmarks.rules.office import DAYS, WORKERS, Dice, wish_of
from benchmarks.rules.wishes import Wish, person_for
from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.extensions.rules.trial import PastCall
from llm_do_temporal.messages.approvals import DecisionKind, RequestApprovalInput, Verdict
from llm_do_temporal.messages.definitions import PinnedWorker, RunSettings
from llm_do_temporal.messages.runs import InvokeWorkerInput
from llm_do_temporal.policy.approvals import ApprovalRules, Mode
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.sandbox import Mount, Tree, join, locate
from llm_do_temporal.policy.identity import IDENTITY_VERSION, SeenFile
from llm_do_temporal.policy.models import ModelSources
from llm_do_temporal.policy.shell import ShellDefault, ShellPolicy
from llm_do_temporal.policy.values import CapabilityUse
from llm_do_temporal.workflows.tools.filesystem import ChangeFile
from llm_do_temporal.workflows.tools.gated_tool import ToolQuestion
from llm_do_temporal.workflows.tools.shell import Shell

TREE = Tree(mounts=(Mount(at="/", root="files", base="files"),))
DECISIONS = 1_000
_BEGIN = datetime(2026, 10, 1, 8, tzinfo=UTC)
_DIGEST = "0" * 64
_CALLS_IN_RUN = (2, 9)
_RULES = ApprovalRules()


@dataclass(frozen=True)
class Decided:
    """Call that asked, and what its person really wanted."""

    past: PastCall
    wish: Wish
    is_wanted: bool


@dataclass(frozen=True)
class Month:
    """Calls that asked in a month, in their order."""

    decided: tuple[Decided, ...]
    refused_by_machine: int
    """Calls that asked nobody, because no person could have allowed them."""


async def month_of(seed: int, number: int = 0, decisions: int = DECISIONS) -> Month:
    """Return the month with this number, from 0; each has other chances, and the same people."""
    dice = Dice(f"{seed}/{number}")
    decided: list[Decided] = []
    refused = run = 0
    while len(decided) < decisions:
        run += 1
        dice.day = number * DAYS + DAYS * len(decided) // decisions
        worker, asked_at = dice.one(WORKERS), _BEGIN + timedelta(days=dice.day, minutes=dice.randint(0, 500))
        for place in range(dice.randint(*_CALLS_IN_RUN)):
            wish = wish_of(worker, dice)
            try:
                question = await question_of(wish)
            except LlmDoError:
                refused += 1
                continue
            asked = Question(
                id=f"a{place + 1}",
                run=f"{worker}-{number}-{run}",
                request=request_of(wish, question),
                asked_at=asked_at + timedelta(minutes=place),
            )
            decided.append(_decided(asked, wish, dice))
    return Month(tuple(decided[:decisions]), refused)


async def question_of(wish: Wish) -> ToolQuestion:
    """Return the question about a call, as its tool puts it. Raises LlmDoError where the tool refuses the call."""
    match wish.tool:
        case "write_file" | "edit_file":
            return (await ChangeFile(TREE, None, wish.tool, "", {}).prepare(wish.args)).questions[0]
        case "shell":
            invocation, policy = _invocation(wish.worker), ShellPolicy(default=ShellDefault())
            desk: Any = None  # asked when a command is repeated, and none is run here
            return (await Shell(invocation, policy, desk).prepare(wish.args)).questions[0]
        case "restart":
            use = CapabilityUse(name="python.call", payload={"tool": wish.tool, "sha256": _DIGEST})
            return ToolQuestion((use,), wish.args, wish.tool)
        case _:
            handed = tuple(map(_attachment, wish.attachments))
            payload = {"worker": wish.tool, **wish.args, "attachments": [one.path for one in handed]}
            use = CapabilityUse(name="worker.call", payload=payload)
            return ToolQuestion((use,), wish.args, f"call {wish.tool}", attachments=handed)


def request_of(wish: Wish, question: ToolQuestion) -> RequestApprovalInput:
    """Return the request that the desk gets."""
    return RequestApprovalInput(
        invocation=wish.worker,
        key="1",
        worker=wish.worker,
        path="main",
        tool=wish.tool,
        args=question.args,
        tree=TREE,
        capabilities=question.uses,
        summary=question.summary,
        attachments=question.attachments,
        files=tuple(_seen(wish, question)),
        circumstances=question.circumstances,
        identity_version=IDENTITY_VERSION,
    )


def _seen(wish: Wish, question: ToolQuestion) -> Sequence[SeenFile]:
    """Return the files that a preview would have found."""
    words = question.uses[0].payload.get("argv", [])
    named = [wish.args["path"]] if "path" in wish.args else [one for one in words[1:] if "/" in one and "//" not in one]
    places = [locate(TREE, name) for name in named if ".." not in name]
    return [
        SeenFile(path=one.path, place=wish.place or join(one.mount.root, one.relative), sha256=None) for one in places
    ]


def _attachment(path: str) -> Attachment:
    place = locate(TREE, path)
    real = join(place.mount.root, place.relative)
    return Attachment(path=place.path, sha256=_DIGEST, bytes=100, media_type="application/pdf", place=real)


def _invocation(worker: str) -> InvokeWorkerInput:
    return InvokeWorkerInput(
        run="run",
        path="main",
        depth=0,
        worker=PinnedWorker(name=worker, source=worker, sha256=_DIGEST, instructions=""),
        settings=RunSettings(mode=Mode.INTERACTIVE, rules=_RULES, models=ModelSources()),
        tree=TREE,
        model="offline:notes",
    )


def _decided(asked: Question, wish: Wish, dice: Dice) -> Decided:
    """Return the call with the decision of its person, who now and then makes a mistake."""
    person, wanted = person_for(wish.worker), is_wanted(wish)
    if wanted:
        kind = DecisionKind.REJECT if dice.falls(person.misses) else DecisionKind.APPROVE
    elif dice.falls(person.slips):
        kind = DecisionKind.APPROVE
    else:
        kind = DecisionKind.MODIFY if dice.falls(person.changes) else DecisionKind.REJECT
    at = asked.asked_at + timedelta(minutes=dice.randint(1, 60))
    verdict = Verdict(decision=kind, args=asked.request.args, by=person.name, at=at, door="update")
    question = Question(asked.id, asked.run, asked.request, asked.asked_at, verdict=verdict)
    return Decided(PastCall(question, None), wish, wanted)
