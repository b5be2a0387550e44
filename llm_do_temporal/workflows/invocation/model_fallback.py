"""The models of an invocation, of which one is asked: where it fails, the next takes over for that turn.

Every request is an activity of its own, so the history tells which models were asked, their errors, and the answer.
"""

from __future__ import annotations

from typing import cast

from pydantic_ai.settings import ModelSettings
from temporalio import workflow
from temporalio.exceptions import FailureError

from llm_do_temporal.errors import ModelFailed
from llm_do_temporal.messages.conversation import FIRST_TRIES, OtherModel
from llm_do_temporal.messages.runs import InvokeWorkerInput
from llm_do_temporal.policy.models import full_name, label, merged_settings, models_of, serving_id
from llm_do_temporal.workflows.runtime.failures import explain, fallback_hint

MOST_TRIES = 16
"""Attempts at one model before the next is asked, once all have failed several times: about a quarter of an hour."""
MOST_HANDOVERS = 80
"""Largest number of times that a model takes over within one turn; the model that is asked then is asked without end.
Pydantic AI allows 100 requests for a turn."""


class FallbackChain:
    """The models of an invocation in their order. A turn begins with the first model; after the last comes the first
    again."""

    def __init__(self, invocation: InvokeWorkerInput) -> None:
        self._aliases = invocation.settings.models.aliases
        self._given = invocation.settings.model_settings, invocation.worker.model_settings
        self._names = models_of(invocation.model)
        self._queues = invocation.settings.queues
        self.live = invocation.settings.live_text
        self.batched = (invocation.worker.turns or invocation.settings.turns) == "batch"
        self.begin_turn()

    def begin_turn(self) -> None:
        """Start with the first model, even where it failed in an earlier turn."""
        self.current = self._names[0]
        self.handovers = 0
        self._left = list(self._names)
        self._failures: list[str] = []

    @property
    def serving_id(self) -> str:
        """Id of the asked model, for the activity."""
        return serving_id(self._aliases, self.current)

    @property
    def full_name(self) -> str:
        """Asked model as `provider:name`, even where the workshop has an alias for it."""
        return full_name(self._aliases, self.current)

    @property
    def queue(self) -> str | None:
        """Task queue for requests to the asked model; None: the workflow's own."""
        return self._queues.of_model(workflow.info().task_queue, self._aliases, self.current)

    @property
    def shown(self) -> str:
        """Name of the asked model for people."""
        return label(self._aliases, self.current)

    def as_shown(self, summary: str) -> str:
        """The summary with the name that people know the asked model by, in the place of its id."""
        return summary.replace(self.serving_id, self.shown)

    @property
    def settings(self) -> ModelSettings | None:
        """Settings of the asked model."""
        merged = merged_settings(self._aliases, self.current, *self._given)
        return cast("ModelSettings", merged) if merged else None

    @property
    def tries(self) -> int | None:
        """Number of attempts before another model is asked; None: there is no other, so this one is asked until it
        answers."""
        if len(self._left) == 1 or self.handovers >= MOST_HANDOVERS:
            return None
        return min(FIRST_TRIES << (self.handovers // len(self._left)), MOST_TRIES)

    def fall_back(self, failure: FailureError) -> bool:
        """Let the next model take over after this failure, and return whether there is one for it.

        Raises ModelFailed where the last model has failed.
        """
        other = fallback_hint(failure)
        if other is None or len(self._names) == 1:
            return False
        explained = explain(failure)
        self._failures.append(str(explained))
        place = self._left.index(self.current)
        if other is OtherModel.INSTEAD:
            self._left.remove(self.current)
        else:
            place += 1
        if not self._left:
            failures = "; ".join(dict.fromkeys(self._failures))
            raise ModelFailed(f"no model is left: {failures}", next_step=explained.next_step) from failure
        self.current = self._left[place % len(self._left)]
        self.handovers += 1
        return True
