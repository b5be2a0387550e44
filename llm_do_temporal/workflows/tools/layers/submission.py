"""`submit_changes`: a worker asks for a review of all that was changed so far, before it goes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from llm_do_temporal.messages.reviews import SUBMIT_TOOL
from llm_do_temporal.workflows.tools.gated_tool import PreparedCall, ToolOutcome
from llm_do_temporal.workflows.tools.layers.review import LayerReview, ReviewOutcome


@dataclass
class SubmitChanges:
    """`submit_changes`."""

    review: LayerReview
    name: str = SUBMIT_TOOL
    description: str = (
        "Let a person review all changes of files that were made so far. Until then they are yours alone; accepted "
        "ones are then made for good. You get those that were not accepted, with the reasons, and go on from there. "
        "What is left in the end is reviewed then, so call this only where you need the changes to be real before you "
        "go on."
    )
    schema: dict[str, Any] = field(
        default_factory=lambda: {"type": "object", "properties": {}, "additionalProperties": False}
    )

    async def prepare(self, args: dict[str, Any]) -> PreparedCall:
        """Return the call: the review itself asks, section by section."""

        async def review() -> ToolOutcome:
            return ToolOutcome(told(await self.review.run()))

        return PreparedCall((), review)


def told(outcome: ReviewOutcome) -> str:
    """Return the outcome of a review in words for the worker's model."""
    if outcome.words:
        made = f"Accepted and made: {outcome.made} of the changed paths." if outcome.made else "Nothing was accepted."
        return f"{made}\n\n{outcome.words}"
    if not outcome.made:
        return "There are no changes to review."
    return f"Everything was accepted and is made: {outcome.made} changed path{'' if outcome.made == 1 else 's'}."
