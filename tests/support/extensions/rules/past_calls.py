"""Past calls as the reader of histories returns them, made by hand for tests of rules."""

from __future__ import annotations

import hashlib
import shlex
from datetime import UTC, datetime, timedelta
from typing import Any

from llm_do_temporal.client.history.questions import Question
from llm_do_temporal.extensions.rules.trial import AskingWorker, PastCall, PastCalls
from llm_do_temporal.messages.approvals import DecisionKind, RequestApprovalInput, Verdict
from llm_do_temporal.policy.approvals import ApprovalRules, Mode
from llm_do_temporal.policy.files.protection import file_use
from llm_do_temporal.policy.files.sandbox import Mount, Tree, join, locate
from llm_do_temporal.policy.identity import IDENTITY_VERSION, SeenFile
from llm_do_temporal.policy.shell import ShellPolicy, judge_command
from llm_do_temporal.policy.values import CapabilityUse

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TREE = Tree(mounts=(Mount(at="/", root="files", base="files"),))
COMMANDS = ShellPolicy.model_validate({"rules": [{"pattern": "git"}, {"pattern": "make *"}]})
_SHA = hashlib.sha256(b"worker").hexdigest()


def asked(tool: str, args: dict[str, Any], uses: tuple[CapabilityUse, ...], **more: Any) -> RequestApprovalInput:
    """The question about a call."""
    plain: dict[str, Any] = {
        "invocation": "run",
        "key": "1",
        "worker": "clerk",
        "path": "main",
        "tool": tool,
        "args": args,
        "tree": TREE,
        "capabilities": uses,
        "summary": f"{tool} {next(iter(args.values()), '')}",
        "identity_version": IDENTITY_VERSION,
    }
    return RequestApprovalInput.model_validate(plain | more)


def asked_to_write(path: str = "/notes/a.md", *, linked_to: str | None = None, **more: Any) -> RequestApprovalInput:
    """The question about a `write_file`; `linked_to` is where a link leads, None: there is none."""
    tree: Tree = more.get("tree", TREE)
    place, args = locate(tree, path), {"path": path, "content": "hi"}
    real = linked_to or join(place.mount.root, place.relative)
    seen = SeenFile(path=place.path, place=real)
    return asked("write_file", args, (file_use("write_file", place, args),), **({"files": (seen,)} | more))


def asked_to_run(line: str, policy: ShellPolicy = COMMANDS, **more: Any) -> RequestApprovalInput:
    """The question about a command."""
    command = judge_command(policy, TREE, line)
    words = [f"/{word}" for word in shlex.split(line)[1:] if word[:1].isalnum()]
    seen = tuple(SeenFile(path=word, place=f"files{word}") for word in words)
    return asked("shell", {"command": line}, (command.use,), **({"files": seen} | more))


def past_call(
    request: RequestApprovalInput,
    decision: str | None = "approve",
    *,
    run: str = "r1",
    task: str = "",
    by: str = "ann",
    door: str = "signal",
    note: str = "",
    shell: ShellPolicy | None = COMMANDS,
    days_ago: int = 1,
) -> PastCall:
    """A call with its answer; `decision` None: nobody has decided."""
    at = NOON - timedelta(days=days_ago)
    verdict = None
    if decision is not None:
        kind = DecisionKind(decision)
        given = {"args": request.args, "note": note, "by": by, "at": at, "door": door}
        verdict = Verdict.model_validate({"decision": kind, **given})
    question = Question(id="a1", run=run, request=request, asked_at=at, verdict=verdict)
    asker = AskingWorker(sha256=_SHA, shell=shell, rules=ApprovalRules(), mode=Mode.INTERACTIVE)
    return PastCall(question, asker, task)


def past_calls(*calls: PastCall, **more: Any) -> PastCalls:
    return PastCalls(calls=calls, runs=len({call.run for call in calls}), **more)
