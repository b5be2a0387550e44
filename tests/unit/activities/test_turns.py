"""What becomes of a turn that the Temporal server gets in the way of."""

from __future__ import annotations

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.serving import ServedModel


def busy(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    raise RPCError("too many requests", RPCStatusCode.RESOURCE_EXHAUSTED, b"")


async def test_a_server_that_is_busy_is_asked_again_and_ends_no_run() -> None:
    model = ServedModel(FunctionModel(busy))
    with pytest.raises(RPCError):
        await ActivityEnvironment().run(model.request, [ModelRequest([])], None, ModelRequestParameters())
