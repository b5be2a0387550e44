"""Open tool calls of a workflow by what each may have started, so that none is searched for among all the others.

A turn may have thousands of calls, each of which starts an invocation.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any, cast


class OpenCalls:
    """Calls that are open and have started no invocation yet, in the order in which they were made."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        """Number of each call, by the key of its span."""
        self._made = 0
        self._alike: defaultdict[tuple[str, str], deque[str]] = defaultdict(deque)
        """Calls of a worker that are alike in something; some of them may no longer be open."""

    def add(self, key: str, tool: str, arguments: Any) -> None:
        """Add a call whose span has this key."""
        named = cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else {}
        self._places[key] = self._made = self._made + 1
        files: Any = named.get("attachments") or []
        traits = {""} | {_trait(files=files)}
        for said in (named.get("input"), named.get("input_data")):
            traits |= {_trait(said=said), _trait(said=said, files=files)}
        worker = named.get("worker_name")
        for callee in {tool, worker} if isinstance(worker, str) else {tool}:
            for trait in traits:
                self._alike[callee, trait].append(key)

    def remove(self, key: str) -> None:
        """Remove a call that has returned."""
        self._places.pop(key, None)

    def take(self, worker: str, said: Any, files: Sequence[Any]) -> str | None:
        """Remove the call that is most like the start of an invocation, and return its key; None: there is none."""
        given = list(files)
        for traits in (
            (_trait(said=said, files=given),),
            (_trait(said=said), _trait(files=given)),
            ("",),
        ):
            found = [key for trait in traits if (key := self._first(worker, trait)) is not None]
            if found:
                first = min(found, key=self._places.__getitem__)
                self.remove(first)
                return first
        return None

    def _first(self, worker: str, trait: str) -> str | None:
        calls = self._alike.get((worker, trait))
        while calls:
            if calls[0] in self._places:
                return calls[0]
            calls.popleft()
        return None


def _trait(**what: Any) -> str:
    return json.dumps(what, sort_keys=True)
