"""Serves model turns: builds models from their names and gives them what the history only refers to.

Owns the capabilities of the one generic agent that touch models. `build_model` runs on both sides: in
workflow code it returns a stand-in that knows the model's profile and never sends anything; in an
activity it builds the real one. `BlobContent` puts the bytes of attachments back where the conversation
carries only their digests, so that no history ever holds them.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from pydantic_ai import BinaryContent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import AgentRunError, ModelAPIError
from pydantic_ai.messages import DocumentUrl, ImageUrl, ModelMessage, ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models import (
    Model,
    ModelRequestParameters,
    ModelResolutionContext,
    StreamedResponse,
    infer_model,
    parse_model_id,
)
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.profiles import DEFAULT_PROFILE
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext
from temporalio import activity, workflow
from temporalio.exceptions import ApplicationError

from llm_do_temporal.activities.answers import storable
from llm_do_temporal.activities.failures import as_failure
from llm_do_temporal.blobs import BlobStore
from llm_do_temporal.errors import LlmDoError, ModelFailed, ModelRefusal

BLOB_SCHEME = "llmdo-blob:sha256/"
_KEY_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*_(?:API_)?(?:KEY|TOKEN)")
MALFORMED_ANSWER = "MalformedAnswer"
_MALFORMED_ANSWER_ATTEMPTS = 3
"""A model that answers garbage is asked again twice; a fourth identical question seldom helps."""

_building = threading.Lock()
_log = logging.getLogger(__name__)
_blobs: BlobStore | None = None


def install_blobs(blobs: BlobStore) -> None:
    """Tell this process where attachments are. Called once, by the worker service, before it polls."""
    global _blobs
    _blobs = blobs


async def build_model(_context: ModelResolutionContext[Any], model_id: str) -> Model:
    """The model called `provider:name`. Raises ModelRefusal for an unknown provider, ModelFailed without a key.

    In an activity these are final: a missing key is still missing a minute later.
    """
    if workflow.in_workflow():
        return NamedModel(model_id)
    try:
        return await asyncio.to_thread(_real_model_in_turn, model_id)
    except LlmDoError as error:
        raise (as_failure(error) if activity.in_activity() else error) from error


def _real_model_in_turn(model_id: str) -> Model:
    """Build one model at a time: the first of a provider imports its library, and half an import is of no use."""
    with _building:
        return _real_model(model_id)


def _real_model(model_id: str) -> Model:
    provider, name = parse_model_id(model_id)
    if provider in ("offline", "test"):
        from llm_do_temporal.activities.offline import offline_model

        return offline_model(name if provider == "offline" else model_id)
    check_provider(model_id)
    try:
        return infer_model(model_id)
    except Exception as error:
        # Each provider's library has exceptions of its own for a key that is missing or malformed.
        variable = _KEY_VARIABLE.search(str(error))
        if variable is None:
            raise ModelFailed(f"model '{model_id}' cannot be used: {error}") from error
        raise ModelFailed(
            f"model '{model_id}' cannot be used: {variable[0]} is not set where the worker service runs",
            next_step=f"Set {variable[0]} there and start the service again; with the embedded server that is "
            "`llm-do-temporal dev` from a shell that has it.",
        ) from error


def check_provider(model_id: str) -> None:
    """Raise ModelRefusal unless the part before the colon is a provider that exists."""
    provider, _ = parse_model_id(model_id)
    if provider in ("offline", "test"):
        return
    try:
        infer_provider_class(provider or "")
    except (ValueError, ImportError) as error:
        raise ModelRefusal(
            f"model '{model_id}' names the unknown provider '{provider}'",
            next_step="Known are openai, anthropic, google and the others Pydantic AI lists; "
            "offline:<name> needs no key.",
        ) from error


class NamedModel(Model):
    """Stands for a model in workflow code: it has the name, and never sends a request.

    Its profile is the same for all models. What a provider's library knows of them changes from release to
    release, and must not change what a workflow does when it replays; the activity has the real profile.
    """

    def __init__(self, model_id: str) -> None:
        self._provider_name, self._name = parse_model_id(model_id)
        super().__init__(profile=DEFAULT_PROFILE)

    @property
    def model_name(self) -> str:
        """The name without its provider."""
        return self._name

    @property
    def system(self) -> str:
        """The provider."""
        return self._provider_name or ""

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Never called: requests are activities."""
        raise NotImplementedError("a model request must run as an activity")


class BlobContent(AbstractCapability[Any]):
    """Wraps the model that sends, so that references to attachments become bytes there and only there."""

    def get_wrapper_model(self, model: Model) -> Model | None:
        """The wrapped model; in workflow code too, where it changes nothing because nothing is sent."""
        return ServedModel(model)


class ServedModel(WrapperModel):
    """Resolves blob references, logs each turn, and sorts failures into those worth another attempt and others."""

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Send one turn."""
        async with _one_turn(self.wrapped.model_id):
            answer = await super().request(
                resolve_blobs(messages), _without_retries(model_settings), model_request_parameters
            )
            return storable(answer, whole={tool.name for tool in model_request_parameters.output_tools})

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Send one turn and stream its answer."""
        async with (
            _one_turn(self.wrapped.model_id),
            super().request_stream(
                resolve_blobs(messages), _without_retries(model_settings), model_request_parameters, run_context
            ) as stream,
        ):
            yield stream


def _without_retries(settings: ModelSettings | None) -> ModelSettings:
    """The provider's own client must not retry: retrying is Temporal's job, where it is seen and survives."""
    return {**(settings or {}), "max_retries": 0}


@asynccontextmanager
async def _one_turn(model_id: str) -> AsyncGenerator[None]:
    info = activity.info()
    turn = f"{info.workflow_id} turn={info.activity_id} attempt={info.attempt} model={model_id}"
    _log.info("model turn asked: %s", turn)
    try:
        yield
    except (ModelAPIError, ApplicationError) as error:
        _log.warning("model turn failed: %s: %s", turn, error)
        raise
    except AgentRunError as error:
        _log.warning("model turn unusable: %s: %s", turn, error)
        if info.attempt < _MALFORMED_ANSWER_ATTEMPTS:
            # Under its own name Pydantic AI's retry policy would not try it again.
            raise ApplicationError(str(error), type=MALFORMED_ANSWER) from error
        raise as_failure(ModelFailed(f"the model's answer could not be used: {error}")) from error
    except LlmDoError as error:
        raise as_failure(error) from error
    except OSError as error:
        # A connection that broke where the provider's library did not expect it, or a disk that is busy.
        _log.warning("model turn failed: %s: %s", turn, error)
        raise
    except Exception as error:
        # Whatever else goes wrong while a turn is prepared or decoded goes wrong every time it is tried.
        _log.exception("model turn broken: %s", turn)
        raise as_failure(ModelFailed(f"the model turn failed: {type(error).__name__}: {error}")) from error
    _log.info("model turn answered: %s", turn)


def resolve_blobs(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """The conversation with every blob reference in user prompts replaced by its bytes."""
    return [_resolved(message) if isinstance(message, ModelRequest) else message for message in messages]


def _resolved(request: ModelRequest) -> ModelRequest:
    parts = [
        replace(part, content=[_content(item) for item in part.content])
        if isinstance(part, UserPromptPart) and not isinstance(part.content, str)
        else part
        for part in request.parts
    ]
    return replace(request, parts=parts)


def _content(item: Any) -> Any:
    if not isinstance(item, DocumentUrl | ImageUrl) or not item.url.startswith(BLOB_SCHEME):
        return item
    if _blobs is None:
        raise ModelFailed("this worker service has no blob store, so attachments cannot be read")
    digest, _, name = item.url.removeprefix(BLOB_SCHEME).partition("#")
    data = _blobs.read(digest)
    if item.media_type.startswith("text/") or item.media_type in ("application/json", "application/yaml"):
        return f"Content of {unquote(name)}:\n{data.decode('utf-8', errors='replace')}"
    return BinaryContent(data=data, media_type=item.media_type, identifier=unquote(name) or None)
