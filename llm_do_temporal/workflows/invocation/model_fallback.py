"""The models of an invocation, and which of them is asked: where one fails, the next takes over for that turn.

Every request is an activity of its own, so the history tells which model was asked, what it said and which answered.
"""

from __future__ import annotations

from typing import cast

from pydantic_ai.settings import ModelSettings
from temporalio import workflow
from temporalio.exceptions import FailureError

from llm_do_temporal.errors import ModelFailed
from llm_do_temporal.messages.conversation import FIRST_TRIES, OtherModel
from llm_do_temporal.messages.runs import InvokeWorkerInput
from llm_do_temporal.policy.models.ids import full_name, label, merged_settings, models_of, serving_id
from llm_do_temporal.workflows.runtime.failures import explain, fallback_hint

MOST_TRIES = 16
"""Attempts at one model before the next is asked, once all have failed several times: about a quarter of an hour."""
MOST_HANDOVERS = 80
"""Within one turn; whose turn it is then is asked without end. Pydantic AI allows 100 requests for a turn."""


class FallbackChain:
    """Who is asked. A turn begins with the first model; after the last comes the first again."""

    def __init__(self, invocation: InvokeWorkerInput) -> None:
        self._aliases = invocation.settings.models.aliases
        self._given = invocation.settings.model_settings, invocation.worker.model_settings
        self._names = models_of(invocation.model)
        self._queues = invocation.settings.queues
        self.live = invocation.settings.live_text
        self.begin_turn()

    def begin_turn(self) -> None:
        """Start with the first model, whatever became of it before."""
        self.current = self._names[0]
        self.handovers = 0
        self._left = list(self._names)
        self._said: list[str] = []

    @property
    def serving_id(self) -> str:
        """The id of the model that is asked, for the activity."""
        return serving_id(self._aliases, self.current)

    @property
    def full_name(self) -> str:
        """The model that is asked, as `provider:name`, whatever the workshop calls it."""
        return full_name(self._aliases, self.current)

    @property
    def queue(self) -> str | None:
        """The task queue for requests to the model that is asked; None: the workflow's own."""
        return self._queues.of_model(workflow.info().task_queue, self._aliases, self.current)

    @property
    def shown(self) -> str:
        """The model that is asked, for people."""
        return label(self._aliases, self.current)

    def as_shown(self, summary: str) -> str:
        """The summary with the name that people know the asked model by, in the place of its id."""
        return summary.replace(self.serving_id, self.shown)

    @property
    def settings(self) -> ModelSettings | None:
        """The settings of the model that is asked."""
        merged = merged_settings(self._aliases, self.current, *self._given)
        return cast("ModelSettings", merged) if merged else None

    @property
    def tries(self) -> int | None:
        """Attempts before another model is asked; None: there is no other, so it is asked until it answers."""
        if len(self._left) == 1 or self.handovers >= MOST_HANDOVERS:
            return None
        return min(FIRST_TRIES << (self.handovers // len(self._left)), MOST_TRIES)

    def fall_back(self, failure: FailureError) -> bool:
        """Whether another model takes over after this failure. Raises ModelFailed where the last one has failed."""
        other = fallback_hint(failure)
        if other is None or len(self._names) == 1:
            return False
        explained = explain(failure)
        self._said.append(str(explained))
        place = self._left.index(self.current)
        if other is OtherModel.INSTEAD:
            self._left.remove(self.current)
        else:
            place += 1
        if not self._left:
            said = "; ".join(dict.fromkeys(self._said))
            raise ModelFailed(f"no model is left: {said}", next_step=explained.next_step) from failure
        self.current = self._left[place % len(self._left)]
        self.handovers += 1
        return True
