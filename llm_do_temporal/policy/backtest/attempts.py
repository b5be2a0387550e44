"""Calls that nobody made: a past call with other arguments, judged from the beginning as the gate would.

The files of the worker are taken to be there, with no links among them but those that the attempt is about.
"""

from __future__ import annotations

from typing import Any

from llm_do_temporal.errors import Refusal
from llm_do_temporal.policy.approvals import ApprovalRules
from llm_do_temporal.policy.backtest.facts import with_places
from llm_do_temporal.policy.backtest.verdicts import GateOutcome, PastVerdict, judge
from llm_do_temporal.policy.files.protection import PATH_TOOLS, file_use, judge_path
from llm_do_temporal.policy.kinds.kind import AskedCall
from llm_do_temporal.policy.shell import ShellPolicy, judge_command

_NO_POLICY = "which commands the worker may run is not in the history"


def judge_attempt(
    rules: ApprovalRules, call: AskedCall, args: dict[str, Any], shell: ShellPolicy | None, *, is_linked: bool = False
) -> GateOutcome:
    """Return the outcome of `call` with other arguments.

    `shell` is the policy of the worker's commands; None: the history does not tell it. `is_linked`: the files that the
    call names are links that lead elsewhere.
    """
    try:
        attempt = _attempt(call, args, shell)
    except Refusal as refusal:
        return GateOutcome(verdict=PastVerdict.REFUSED, reason=refusal.message)
    if attempt is None:
        return GateOutcome(verdict=PastVerdict.UNKNOWN, reason=_NO_POLICY)
    return judge(rules, with_places(attempt, are_linked=is_linked))


def _attempt(call: AskedCall, args: dict[str, Any], shell: ShellPolicy | None) -> AskedCall | None:
    """Return the call with other arguments; None where the facts for it are missing. Raises Refusal."""
    changed = call.model_copy(update={"args": args})
    if call.tool in PATH_TOOLS:
        place = judge_path(call.tool, call.tree, args)
        return changed.model_copy(update={"uses": (file_use(call.tool, place, args),)})
    if call.tool != "shell":
        return changed
    if shell is None:
        return None
    command = judge_command(shell, call.tree, args["command"])
    return changed.model_copy(update={"uses": (command.use, *command.more)})
