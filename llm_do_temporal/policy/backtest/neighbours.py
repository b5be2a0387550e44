"""Neighbours of a kind: calls just beside the calls that it covers, each with the verdict of the gate.

They are made of one call that the kind covers, so that tools, folders and workers are those of real runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llm_do_temporal.errors import Refusal
from llm_do_temporal.policy.approvals import ApprovalRules
from llm_do_temporal.policy.backtest.attempts import judge_attempt
from llm_do_temporal.policy.backtest.edges import arguments_beside, commands_beside, names_beside, paths_beside
from llm_do_temporal.policy.backtest.facts import with_places
from llm_do_temporal.policy.backtest.verdicts import GateOutcome, PastVerdict, judge
from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.sandbox import locate
from llm_do_temporal.policy.kinds.kind import AskedCall, CallKind, argv_of, form_of
from llm_do_temporal.policy.shell import ShellPolicy
from llm_do_temporal.policy.values import Value, canonical

_ORDER = [PastVerdict.PASSES, PastVerdict.UNKNOWN, PastVerdict.ASKS, PastVerdict.BLOCKED, PastVerdict.REFUSED]


class Neighbour(Value):
    """Call beside one that a kind covers."""

    trick: str
    """Difference from the call that is covered, in words."""
    subject: str
    """Text in which the difference lies: a path, a command line, the name of a worker, or arguments as JSON."""
    outcome: GateOutcome


def neighbours_of(
    kind: CallKind, call: AskedCall, rules: ApprovalRules, shell: ShellPolicy | None
) -> tuple[Neighbour, ...]:
    """Return the neighbours of a call that the kind covers, those that pass first, judged by these rules.

    `shell` is the policy of the worker's commands; None: the history does not tell it.
    """
    made = {"files": _of_file, "command": _of_command, "callee": _of_callee, "exact": _of_exact}[kind.shape]
    found = [*made(kind, call, rules, shell), _of_another_worker(call, rules)]
    return tuple(sorted(found, key=lambda one: _ORDER.index(one.outcome.verdict)))


def _of_file(kind: CallKind, call: AskedCall, rules: ApprovalRules, shell: ShellPolicy | None) -> Iterator[Neighbour]:
    path = locate(call.tree, str(call.args["path"])).path
    folder = kind.below or kind.folder or path.rpartition("/")[0] or "/"
    for edge in paths_beside(path, folder, kind.suffix):
        args = {**call.args, "path": edge.text}
        outcome = judge_attempt(rules, call, args, shell, is_linked=edge.is_linked)
        yield Neighbour(trick=edge.trick, subject=edge.text, outcome=outcome)


def _of_command(
    kind: CallKind, call: AskedCall, rules: ApprovalRules, shell: ShellPolicy | None
) -> Iterator[Neighbour]:
    free = form_of(kind.command or "").free
    for edge in commands_beside(argv_of(call) or (), free):
        args = {**call.args, "command": edge.text}
        outcome = judge_attempt(rules, call, args, shell, is_linked=edge.is_linked)
        yield Neighbour(trick=edge.trick, subject=edge.text, outcome=outcome)


def _of_callee(
    kind: CallKind, call: AskedCall, rules: ApprovalRules, _shell: ShellPolicy | None
) -> Iterator[Neighbour]:
    for edge in names_beside(kind.worker or ""):
        outcome = judge(rules, _calling(call, edge.text))
        yield Neighbour(trick=edge.trick, subject=edge.text, outcome=outcome)
    example = next((one.path for one in call.attachments), "/notes/example.txt")
    folder = kind.attachments or kind.folder or example.rpartition("/")[0] or "/"
    for edge in paths_beside(example, folder, kind.suffix):
        outcome = _handing_over(call, edge.text, rules, is_linked=edge.is_linked)
        yield Neighbour(trick=f"an attachment: {edge.trick}", subject=edge.text, outcome=outcome)


def _of_exact(_kind: CallKind, call: AskedCall, rules: ApprovalRules, shell: ShellPolicy | None) -> Iterator[Neighbour]:
    for trick, args in arguments_beside(call.args):
        outcome = judge_attempt(rules, call, args, shell)
        yield Neighbour(trick=trick, subject=canonical(args), outcome=outcome)
    uses = tuple(use.model_copy(update={"payload": {**use.payload, "sha256": "f" * 64}}) for use in call.uses)
    outcome = judge(rules, call.model_copy(update={"uses": uses}))
    yield Neighbour(trick="other code of the tool", subject=canonical(call.args), outcome=outcome)


def _of_another_worker(call: AskedCall, rules: ApprovalRules) -> Neighbour:
    name = f"another_{call.worker}"
    outcome = judge(rules, call.model_copy(update={"worker": name}))
    return Neighbour(trick="the same call of another worker", subject=name, outcome=outcome)


def _calling(call: AskedCall, name: str) -> AskedCall:
    """Return the delegation, or the handing over of a file, to the worker of this name."""
    uses = tuple(
        use.model_copy(update={"payload": {**use.payload, _callee_key(use.payload): name}}) for use in call.uses
    )
    is_generic = "worker_name" in call.args
    changes: dict[str, Any] = {"args": {**call.args, "worker_name": name}} if is_generic else {"tool": name}
    return call.model_copy(update={"uses": uses, **changes})


def _callee_key(payload: dict[str, Any]) -> str:
    return "worker" if "worker" in payload else "target_worker"


def _handing_over(call: AskedCall, path: str, rules: ApprovalRules, *, is_linked: bool) -> GateOutcome:
    """Return the outcome of the delegation with one file more, or with that file in the place of the one it hands
    over."""
    try:
        place = locate(call.tree, path)
    except Refusal as refusal:
        return GateOutcome(verdict=PastVerdict.REFUSED, reason=refusal.message)
    file = Attachment(path=place.path, sha256="0" * 64, bytes=1, media_type="text/plain")
    kept = call.attachments[1:]
    return judge(rules, with_places(call.model_copy(update={"attachments": (file, *kept)}), are_linked=is_linked))
