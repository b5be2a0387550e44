"""Bases of everything on the wire, the names it goes by, and JSON values that people and programs hand in."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Sized
from datetime import timedelta
from typing import Any, NoReturn, cast

from pydantic import BaseModel, ConfigDict

RUN_WORKFLOW = "LlmDoRun"
WORKER_WORKFLOW = "LlmDoWorker"
AGENT_NAME = "llmdo"
TASK_QUEUE = "llm-do"
TASK_TIMEOUT = timedelta(seconds=5)
"""Longest time that a worker service which was killed within a workflow task goes unnoticed; Temporal's own is 10 s.
The server gives more from the fourth attempt at a task on, so a replay that takes longer ends, too."""
FILES_ELSEWHERE = "FilesElsewhere"
"""Type of the failure of an activity that came to a worker service without the workshop's files."""
TIME_IS_UP = "TimeIsUp"
"""Type of the failure of an attempt at a tool that took longer than the tool may."""
NOT_BEGUN = "NotBegun"
"""Type of the failure of an attempt that came too late to begin, or perhaps so: the server could not be asked."""
MISSING_EXTENSION = "MissingExtension"
"""Type of the failure of an attempt by a service that lacks an extension which the run needs."""
EXTENSION_HEADER = "llm-do-extension-"
"""Beginning of the names of activity headers that only one extension reads; the rest is its name."""
WAITS_FOR_BATCH = "WaitsForBatch"
"""Type of the failure of an attempt at a model turn that has only found its provider's batch under way."""

ENTRY_PATH = "main"
"""Place of the entry invocation in the tree of its run."""

DECIDE_SIGNAL = "decide"
DECIDE_UPDATE = "decide_now"
REQUEST_APPROVAL_SIGNAL = "request_approval"
WITHDRAW_APPROVALS_SIGNAL = "withdraw_approvals"
DELIVER_DECISION_SIGNAL = "deliver_decision"
DELIVER_VOTES_SIGNAL = "deliver_votes"
REVOKE_GRANT_SIGNAL = "revoke_grant"
DESK_QUERY = "desk"

STATE_ATTRIBUTE = "LlmDoState"
PENDING_ATTRIBUTE = "LlmDoPendingApprovals"
WORKER_ATTRIBUTE = "LlmDoWorker"
SCHEDULE_ATTRIBUTE = "TemporalScheduledById"
"""Search attribute of the server's own: the name of the schedule that has started a workflow."""
PENDING_MEMO = "llm_do_pending"
RUN_MEMO = "llm_do_run"
INVOCATION_MEMO = "llm_do_invocation"

Json = Any
"""Any JSON value."""


def is_none(value: object) -> bool:
    """Return whether a field that most messages lack is left out, as it was before the field existed."""
    return value is None


def is_empty(value: Sized) -> bool:
    """Return whether a field that holds several values, and is mostly empty, is left out."""
    return not value


def is_false(value: bool) -> bool:
    """Return whether a field that is mostly false is left out."""
    return not value


def is_zero(value: int) -> bool:
    """Return whether a count that is mostly zero is left out."""
    return value == 0


class Message(BaseModel):
    """Base of everything on the wire: frozen, and tolerant of fields that a newer version added."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Strict(BaseModel):
    """Base of what people write by hand: an unknown field is a mistake and is named."""

    model_config = ConfigDict(frozen=True, extra="forbid")


MAX_DEPTH = 100
"""Lists and objects within each other."""
_TOO_DEEP = f"it has more than {MAX_DEPTH} levels"


class RepeatedKey(ValueError):
    """A key that stands twice in an object: readers take one value or the other."""


def read_json(text: str) -> Json:
    """Return the value of a JSON text. Raises ValueError, also for what `unique_object` and `check_json` refuse."""
    try:
        value = json.loads(text, object_pairs_hook=unique_object, parse_constant=_refuse)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    check_json(value)
    return value


def unique_object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of a JSON text: the `object_pairs_hook` of Python's reader. Raises RepeatedKey."""
    found = dict(pairs)
    if len(found) < len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise RepeatedKey(f"an object has the key {json.dumps(name[:80])} twice")
    return found


def check_json(value: object) -> None:
    """Raise ValueError for numbers and texts that JSON does not have, and for values of too many levels.

    Python's reader lets NaN and halves of characters through, which nobody else could read any more.
    """
    level: Iterable[object] = [value]
    for _ in range(MAX_DEPTH):
        inner: list[object] = []
        for one in level:
            if isinstance(one, float) and not math.isfinite(one):
                raise ValueError(f"{one} is no number of JSON")
            if isinstance(one, str) and not is_text(one):
                raise ValueError("a text has half a character, a surrogate without its other half")
            if isinstance(one, Mapping):
                known = cast("Mapping[object, object]", one)
                inner += (*known.keys(), *known.values())
            elif isinstance(one, list | tuple):
                inner += cast("Iterable[object]", one)
        level = inner
        if not level:
            return
    raise ValueError(_TOO_DEEP)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


def is_text(text: str) -> bool:
    """Return whether UTF-8 can hold the text: it has no half characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
