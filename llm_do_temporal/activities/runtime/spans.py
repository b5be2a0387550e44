"""A span for each attempt of an activity."""

from __future__ import annotations

from typing import Any

from temporalio import activity
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from llm_do_temporal.messages.activities import RECORD_AT_DESK, REQUEST_MODEL
from llm_do_temporal.telemetry.spans import span

MODEL_REQUEST = "model_request"
"""Name of the spans of a turn's attempts, in place of their activity's, which is technical."""


class SpanInterceptor(Interceptor):
    """Gives activities their spans, below that of what scheduled them; a record at the desk is no work."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002
        """See Interceptor."""
        return _Spanned(next)


class _Spanned(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002
        info = activity.info()
        if info.activity_type == RECORD_AT_DESK.name:
            return await self.next.execute_activity(input)
        name = MODEL_REQUEST if info.activity_type == REQUEST_MODEL.name else info.activity_type
        with span(name, {"llm_do.activity": info.activity_type, "llm_do.attempt": info.attempt}):
            return await self.next.execute_activity(input)
