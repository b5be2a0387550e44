"""What the scripted model is to do in a job. The plan travels in the prompt, so the model needs no state of its own."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any

MARK = "PLAN:"
_OBJECT = re.compile(rf"{MARK}(\{{.*\}})", re.DOTALL)


@dataclass(frozen=True)
class Plan:
    """`turns` turns that each call a tool `width` times, then a turn with the final text."""

    job: str
    """Names the job in the model's log; that of a child is its caller's with `.turn.call` after it."""
    turns: int = 1
    tool: str = "lookup"
    width: int = 1
    arguments: dict[str, Any] | None = None
    """Of each call, beside `key`, which is different for each; `{key}` in a text stands for it."""
    keyed: bool = True
    """Whether the tool takes a `key`."""
    child: Plan | None = None
    """For a tool that delegates: what the callee does. Its `job` is set for each call."""
    wait: float = 0.0
    """Seconds before each answer."""
    hold: int | None = None
    """A turn that gets no answer the first time it is asked."""

    def prompt(self) -> str:
        """The user's text that makes the model follow this plan."""
        return MARK + json.dumps(asdict(self))

    def calls(self, turn: int) -> list[dict[str, Any]]:
        """The arguments of each call of this turn; none on the last."""
        if turn >= self.turns:
            return []
        keys = [f"{self.job}.{turn}.{number}" for number in range(self.width)]
        if self.child is None:
            return [({"key": key} if self.keyed else {}) | self._arguments(key) for key in keys]
        child = asdict(self.child)
        return [{"input": MARK + json.dumps({**child, "job": key})} for key in keys]

    def _arguments(self, key: str) -> dict[str, Any]:
        given = self.arguments or {}
        return {name: value.replace("{key}", key) if isinstance(value, str) else value for name, value in given.items()}


def plan_in(text: str) -> Plan:
    """The plan in a prompt. Raises ValueError where there is none."""
    found = _OBJECT.search(text)
    if found is None:
        raise ValueError("the prompt holds no plan")
    # Text around the plan is nobody's business: the object ends where JSON says it does.
    fields, _ = json.JSONDecoder().raw_decode(found[1])
    return _plan(fields)


def _plan(fields: dict[str, Any]) -> Plan:
    child: dict[str, Any] | None = fields.pop("child", None)
    return Plan(**fields, child=_plan(child) if child else None)
