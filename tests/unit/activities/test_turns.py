"""What becomes of a turn that the Temporal server gets in the way of, and which files a turn has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic_ai import BinaryContent
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import ImageUrl, ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.models.turns import ResolveAttachments, TurnModel, TurnStore
from llm_do_temporal.message_history import BLOB_SCHEME
from llm_do_temporal.storage.local import LocalBlobStore


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


async def test_attempts_that_brought_no_answer_count_for_none_that_made_no_sense() -> None:
    def babble(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        raise UnexpectedModelBehavior("babble")

    model = ResolveAttachments(TurnStore()).get_wrapper_model(FunctionModel(babble))
    assert model is not None
    lost = 7
    for number, turn in enumerate(("one", "other", "one", "one", "other")):
        environment = ActivityEnvironment()
        environment.info = replace(environment.info, activity_id=turn, attempt=lost + number)
        with pytest.raises(ApplicationError) as raised:
            await environment.run(model.request, [ModelRequest([])], None, ModelRequestParameters())
        assert raised.value.non_retryable == (number == 3)


async def test_two_services_of_one_process_read_the_files_of_their_own_workshops(tmp_path: Path) -> None:
    seen: list[object] = []

    def note(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        part = messages[0].parts[0]
        assert isinstance(part, UserPromptPart)
        seen.extend(item.data for item in part.content if isinstance(item, BinaryContent))
        return ModelResponse([TextPart("seen")])

    stores = [LocalBlobStore(tmp_path / name) for name in ("first", "second")]
    digests = [store.put_bytes(f"the picture of {number}".encode()) for number, store in enumerate(stores)]
    models = [ResolveAttachments(TurnStore(store)).get_wrapper_model(FunctionModel(note)) for store in stores]

    for model, digest in zip(models, digests, strict=True):
        assert model is not None
        picture = ImageUrl(f"{BLOB_SCHEME}{digest}#a.png", media_type="image/png")
        request: list[ModelMessage] = [ModelRequest([UserPromptPart([picture])])]
        await ActivityEnvironment().run(model.request, request, None, ModelRequestParameters())

    assert seen == [b"the picture of 0", b"the picture of 1"]


async def test_a_turn_without_a_store_has_no_files() -> None:
    def answer(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        raise AssertionError

    picture = ImageUrl(f"{BLOB_SCHEME}{'0' * 64}#a.png", media_type="image/png")
    with pytest.raises(ApplicationError, match="no blob store"):
        await ActivityEnvironment().run(
            TurnModel(FunctionModel(answer)).request,
            [ModelRequest([UserPromptPart([picture])])],
            None,
            ModelRequestParameters(),
        )
