"""Writes docs/reference/wire.md from the messages: names of workflows, activities, handlers, and fields of all types.

Names and types come from `messages/`, meanings from the docstrings of the constants and fields there. Run it after a
change of a message; `check_docs` compares.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel

from llm_do_temporal import errors
from llm_do_temporal.errors import error_classes
from llm_do_temporal.extension import activity_refs, installed, run_starters
from llm_do_temporal.messages import activities, base
from llm_do_temporal.messages.activities import (
    ALL_ACTIVITIES,
    CALL_FOR_TOOL_UPDATE,
    ActivityRef,
    CalledForTool,
    CallForToolInput,
)
from llm_do_temporal.messages.approvals import (
    Approval,
    Decision,
    DeliverDecisionInput,
    DeliverVotesInput,
    DeskState,
    RequestApprovalInput,
    RevokeGrantInput,
    WithdrawApprovalsInput,
)
from llm_do_temporal.messages.budget import GRANT_SPENDING_SIGNAL, REPORT_SPENDING_SIGNAL
from llm_do_temporal.messages.conversation import ConversationPart, LiveText
from llm_do_temporal.messages.runs import (
    InvocationMemo,
    InvocationResult,
    InvokeWorkerInput,
    PendingApprovalMemo,
    RunMemo,
    RunResult,
    StartRunInput,
)
from llm_do_temporal.messages.sizes import TOO_LARGE
from llm_do_temporal.policy.budget import Action, Report
from scripts.pages.docstrings import assigned, first_paragraph

PAGE = Path("docs/reference/wire.md")
Type = type[BaseModel]


class Handler(NamedTuple):
    """A signal, update or query of a workflow."""

    kind: str
    name: str
    workflow: str
    message: Type | None
    result: Type | None
    sender: str


_RUN, _WORKER = base.RUN_WORKFLOW, base.WORKER_WORKFLOW
HANDLERS = (
    Handler("update", base.DECIDE_UPDATE, _RUN, Decision, Approval, "people, with an answer"),
    Handler("signal", base.DECIDE_SIGNAL, _RUN, Decision, None, "people, without an answer"),
    Handler("signal", base.REVOKE_GRANT_SIGNAL, _RUN, RevokeGrantInput, None, "people"),
    Handler("query", base.DESK_QUERY, _RUN, None, DeskState, "people and commands"),
    Handler(
        "signal", base.REQUEST_APPROVAL_SIGNAL, _RUN, RequestApprovalInput, None, "delegated invocations and items"
    ),
    Handler(
        "signal", base.WITHDRAW_APPROVALS_SIGNAL, _RUN, WithdrawApprovalsInput, None, "delegated invocations and items"
    ),
    Handler("signal", REPORT_SPENDING_SIGNAL, _RUN, Report, None, "delegated invocations and items, with limits"),
    Handler("signal", base.DELIVER_DECISION_SIGNAL, _WORKER, DeliverDecisionInput, None, "the desk"),
    Handler("signal", base.DELIVER_VOTES_SIGNAL, _WORKER, DeliverVotesInput, None, "the desk"),
    Handler("signal", GRANT_SPENDING_SIGNAL, _WORKER, Action, None, "the desk, with limits"),
    *(
        Handler("update", CALL_FOR_TOOL_UPDATE, one, CallForToolInput, CalledForTool, "tools that call workers")
        for one in (_RUN, _WORKER)
    ),
)
_WORKFLOWS = (
    (_RUN, StartRunInput, RunResult),
    (_WORKER, InvokeWorkerInput, InvocationResult),
    *((one.workflow, one.request, one.result) for one in run_starters()),
)
_ATTRIBUTES = (
    (base.STATE_ATTRIBUTE, "Keyword", "state of the run"),
    (base.PENDING_ATTRIBUTE, "Int", "questions that wait for a decision"),
    (base.WORKER_ATTRIBUTE, "Keyword", "entry worker of the run"),
)
_MEMOS = (
    (base.RUN_MEMO, _RUN, RunMemo, ""),
    (base.PENDING_MEMO, _RUN, PendingApprovalMemo, "a list of "),
    (base.INVOCATION_MEMO, _RUN, InvocationMemo, "of the entry invocation: "),
    (base.INVOCATION_MEMO, _WORKER, InvocationMemo, ""),
    *((one.memo, one.workflow, one.facts, "") for one in run_starters()),
)
_OTHER_TYPES: tuple[Type, ...] = (ConversationPart, LiveText)
"""Types that travel inside of other values: the settings of a request to a model, and details of a heartbeat."""
_OTHER_FAILURES = (base.FILES_ELSEWHERE, base.NOT_BEGUN, base.TIME_IS_UP, TOO_LARGE)

_INTRODUCTION = f"""\
# Names on the wire

<!-- Written by scripts/pages/wire.py from `llm_do_temporal/messages/`; change that, and run it again. -->

Stable, because open runs and stored histories depend on them: a field may be added with a default, and nothing is
renamed or removed. The task queue is `{base.TASK_QUEUE}`, or `LLM_DO_TASK_QUEUE`.

```bash
temporal workflow start --type {_RUN} --task-queue {base.TASK_QUEUE} \\
  --input '{{"worker":"deck_clerk","prompt":"evaluate every deck"}}'
```

A malformed input ends the run with a message (`malformed start: worker: Field required`).
"""


def _messages_of_extensions() -> list[ModuleType]:
    """Return the modules with the wire values of the capabilities that have activities."""
    return [import_module(f"{type(one).__module__}.messages") for one in installed() if one.activity_refs()]


def render() -> str:
    """Return the whole page."""
    meanings: dict[str, str] = {}
    names: dict[str, str] = {}
    for module in (activities, *_messages_of_extensions()):
        meanings |= assigned(ast.parse(inspect.getsource(module)).body)
        names |= {value.name: name for name, value in vars(module).items() if isinstance(value, ActivityRef)}
    sections = [
        _INTRODUCTION,
        _section(
            "Workflows", ("workflow", "input", "result"), ((f"`{n}`", _link(i), _link(r)) for n, i, r in _WORKFLOWS)
        ),
        _section(
            "Activities",
            ("activity", "request", "result", "meaning"),
            (
                (f"`{ref.name}`", _link(ref.request), _link(ref.result), _line(meanings.get(names[ref.name], "")))
                for ref in (*ALL_ACTIVITIES, *activity_refs())
            ),
        ),
        _section(
            "Signals, updates and queries",
            ("kind", "name", "workflow", "message", "result", "sent by"),
            ((h.kind, f"`{h.name}`", f"`{h.workflow}`", _link(h.message), _link(h.result), h.sender) for h in HANDLERS),
        ),
        _section("Search attributes", ("attribute", "type", "meaning"), ((f"`{n}`", k, m) for n, k, m in _ATTRIBUTES)),
        _section(
            "Memos", ("key", "workflow", "value"), ((f"`{k}`", f"`{w}`", text + _link(m)) for k, w, m, text in _MEMOS)
        ),
        _failures(),
        "## Types\n",
        *(_fields(model) for model in sorted(_reachable(), key=lambda model: model.__name__)),
    ]
    return "\n".join(sections)


def _section(title: str, heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return f"## {title}\n\n{_table(heads, rows)}"


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [" | ".join(heads), "|".join("---" for _ in heads), *(" | ".join(row) for row in rows)]
    return "".join(f"| {line} |\n" if "---" not in line else f"|{line}|\n" for line in lines)


def _link(model: type[Any] | None) -> str:
    """Return a link to the fields of a type; nothing where there is no value, or one of Pydantic AI."""
    if model is None or not issubclass(model, BaseModel):
        return "Pydantic AI's" if model is object else ""
    return f"[`{model.__name__}`](#{model.__name__.lower()})"


def _failures() -> str:
    classes = sorted(name for name, cls in error_classes().items() if cls.__module__ == errors.__name__)
    names = ", ".join(f"`{name}`" for name in [*classes, *_OTHER_FAILURES])
    return f"""\
## Types of failures

Errors travel by the names of their [classes](errors.md): {names}.
"""


def _reachable() -> set[Type]:
    """Return every type of a value that travels, those of its fields included."""
    waiting: list[Any] = [*_OTHER_TYPES, *(model for _, *models in _WORKFLOWS for model in models)]
    waiting += [model for ref in (*ALL_ACTIVITIES, *activity_refs()) for model in (ref.request, ref.result)]
    waiting += [model for handler in HANDLERS for model in (handler.message, handler.result)]
    waiting += [model for _, _, model, _ in _MEMOS]
    found: set[Type] = set()
    while waiting:
        kind = waiting.pop()
        waiting += get_args(kind)
        if isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in found:
            found.add(kind)
            waiting += [field.annotation for field in kind.model_fields.values()]
    assert len({model.__name__ for model in found}) == len(found), "two types have one name"
    return found


def _fields(model: Type) -> str:
    about = first_paragraph(model.__doc__)
    if not model.model_fields:
        return f"### {model.__name__}\n\n{about}\n"
    rows = ((f"`{name}`", f"`{kind}`".replace("|", "\\|"), meaning) for name, kind, meaning in _described(model))
    return f"### {model.__name__}\n\n{about}\n\n{_table(('field', 'type', 'meaning'), rows)}"


def _described(model: Type) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and meaning of each field, as the source of the class or of one of its bases has them."""
    kinds: dict[str, str] = {}
    meanings: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if issubclass(cls, BaseModel) and cls is not BaseModel:
            (definition,) = ast.parse(inspect.getsource(cls)).body
            assert isinstance(definition, ast.ClassDef)
            meanings |= assigned(definition.body)
            for node in definition.body:
                if isinstance(node, ast.AnnAssign):
                    kinds[ast.unparse(node.target)] = ast.unparse(node.annotation)
    return ((name, kinds[name], _line(meanings.get(name, ""))) for name in model.model_fields)


def _line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    (Path(sys.argv[1] if len(sys.argv) > 1 else ".") / PAGE).write_text(render(), encoding="utf-8")
