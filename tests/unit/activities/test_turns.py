"""What becomes of a turn that the Temporal server gets in the way of."""

from __future__ import annotations

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.models.turns import TurnModel


@pytest.mark.parametrize(
    ("status", "raised"),
    [(RPCStatusCode.RESOURCE_EXHAUSTED, RPCError), (RPCStatusCode.PERMISSION_DENIED, ApplicationError)],
    ids=["passes", "stays"],
)
async def test_a_server_that_is_busy_is_asked_again_and_ends_no_run(
    status: RPCStatusCode, raised: type[Exception]
) -> None:
    def fail(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        raise RPCError("no history", status, b"")

    with pytest.raises(raised):
        await ActivityEnvironment().run(
            TurnModel(FunctionModel(fail)).request, [ModelRequest([])], None, ModelRequestParameters()
        )
