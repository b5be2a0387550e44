"""The scripted job, held back in the middle."""

from __future__ import annotations

import json
from typing import Any

from tests.support.providers.answers import Answer, Gate, Gated
from tests.support.providers.pitch_decks import pitch_decks


class HeldJob:
    """The scripted job, whose answers to some requests wait at a gate until they are let through."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.gate = Gate()
        self.held: list[str] = []
        self._script = pitch_decks()

    def __call__(self, request: dict[str, Any], number: int) -> Answer:
        """Answer, or stop at the gate first."""
        answer = self._script(request, number)
        if self._concerns(request):
            self.held.append(request_identity(request))
            return Gated(self.gate, answer)
        return answer

    def _concerns(self, request: dict[str, Any]) -> bool:
        evaluating = any(tool["function"]["name"] == "final_result" for tool in request["tools"])
        return evaluating == (self.part == "evaluators")


def request_identity(request: dict[str, Any]) -> str:
    """Return all that a request asks for, as a text that is the same when it is asked again."""
    return json.dumps([request["messages"], sorted(tool["function"]["name"] for tool in request.get("tools", []))])
