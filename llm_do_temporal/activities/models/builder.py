"""Builds models from their ids.

`build_model` runs on both sides: in workflow code it returns a stand-in that knows the name and never
sends anything; in an activity it builds the real one, with the address of an alias and the key from the variable
that the alias names. Keys are read here and nowhere else, and never leave this process but to the provider.

Models are kept between turns, with their connections open: one that is built for a single turn costs a new HTTP
client, a new set of certificates and a new connection, more processor time than all the rest of the turn.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from weakref import WeakKeyDictionary

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import (
    Model,
    ModelRequestParameters,
    ModelResolutionContext,
    infer_model,
    parse_model_id,
)
from pydantic_ai.native_tools import SUPPORTED_NATIVE_TOOLS, AbstractNativeTool
from pydantic_ai.profiles import DEFAULT_PROFILE
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.settings import ModelSettings
from temporalio import activity, workflow

from llm_do_temporal.activities.models.failures import bounded_model
from llm_do_temporal.activities.models.openai_requests import for_templates, skip_transform, with_whole_schemas
from llm_do_temporal.activities.models.plays import play_model
from llm_do_temporal.activities.runtime.failures import as_failure
from llm_do_temporal.errors import LlmDoError, ModelFailed, ModelRefusal
from llm_do_temporal.messages.conversation import OtherModel
from llm_do_temporal.policy.models import ModelAlias, Price, play_of, read_serving_id, stated_price
from llm_do_temporal.redaction.configured_keys import know_variable

MOST_CACHED = 32
"""Models kept in one process; those used longest ago leave first."""
_KEY_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*_(?:API_)?(?:KEY|TOKEN)")
_building = threading.Lock()
_SHOWN = "llm_do_shown"
"""Attribute of a built model that holds its name as people see it."""
_PRICE = "llm_do_price"
"""Attribute of a built model that holds its price, where that is stated."""
_GATEWAY = "llm_do_gateway"
"""Attribute of a built model that says whether its alias names an address, which may serve several models."""
_NO_KEY = "none"
"""Key for a server behind an address of its own whose alias names none. Without it the library would send such a
server the key of the provider whose protocol it speaks."""


async def build_model(_context: ModelResolutionContext[Any], model_id: str, workshop: Path | None = None) -> Model:
    """Return the model of an id made by `serving_id`; `workshop` is the folder that the models of its own are in.

    Raises ModelRefusal for an unknown provider, ModelFailed for a model that cannot be built. In an activity these are
    final. A model whose key is not set here is a KeylessModel: the next worker service may have the key.
    """
    if workflow.in_workflow():
        return NamedModel(model_id)
    shown, alias = read_serving_id(model_id)
    try:
        try:
            model = await _cached_or_new(model_id, workshop)
        except _KeyNotSet as missing:
            model = KeylessModel(model_id, str(missing))
        setattr(model, _SHOWN, shown)
        setattr(model, _PRICE, stated_price(alias))
        setattr(model, _GATEWAY, alias.base_url is not None)
        return model
    except LlmDoError as error:
        if not activity.in_activity():
            raise
        raise as_failure(error, other_model=OtherModel.INSTEAD) from error


class _KeyNotSet(Exception):
    """A model cannot be built, because the variable with this name, for its key, is not set in this process."""


def shown_name(model: Model) -> str:
    """Return the name of a model as the workshop writes it, with its alias where that has an address."""
    return str(getattr(model, _SHOWN, model.model_id))


def is_behind_address(model: Model) -> bool:
    """Return whether the workshop names the address of a model's server."""
    return bool(getattr(model, _GATEWAY, False))


def price_of(model: Model) -> Price | None:
    """Return the price that the workshop states for a model, and nothing to pay for an offline one; None: neither."""
    return getattr(model, _PRICE, None)


def check_provider(model_id: str) -> None:
    """Raise ModelRefusal unless the part before the colon is a provider that exists."""
    provider, _ = parse_model_id(model_id)
    if provider in ("offline", "test"):
        return
    try:
        infer_provider_class(provider or "")
    except (ValueError, ImportError) as error:
        raise ModelRefusal(
            f"model '{model_id[:80]}' names the unknown provider '{str(provider)[:80]}'",
            next_step="Known are openai, anthropic, google and the others Pydantic AI lists; "
            "offline:<name> needs no key.",
        ) from error


class NamedModel(Model):
    """Stands for a model in workflow code: it has the name, and never sends a request.

    Its profile is the same for all models. What a provider's library knows of them changes from release to
    release, and must not change what a workflow does when it replays; the activity has the real profile.
    """

    def __init__(self, model_id: str) -> None:
        _, alias = read_serving_id(model_id)
        self._provider_name, self._name = parse_model_id(alias.model)
        super().__init__(profile={**DEFAULT_PROFILE, "supported_native_tools": SUPPORTED_NATIVE_TOOLS})

    @classmethod
    def supported_native_tools(cls) -> frozenset[type[AbstractNativeTool]]:
        """All of them: what the real model has is known where it is built."""
        return SUPPORTED_NATIVE_TOOLS

    @property
    def model_name(self) -> str:
        """The name without its provider."""
        return self._name

    @property
    def system(self) -> str:
        """The provider."""
        return self._provider_name or ""

    def prepare_messages(
        self, messages: list[ModelMessage], model_request_parameters: ModelRequestParameters | None = None
    ) -> list[ModelMessage]:
        """The messages as they are: the model that sends prepares them, and the conversation is kept as it was."""
        return messages

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Never called: requests are activities."""
        raise NotImplementedError("a model request must run as an activity")


class KeylessModel(NamedModel):
    """Stands for a model in an activity of a process that has no key for it: each turn of it waits for the key."""

    def __init__(self, model_id: str, variable: str) -> None:
        super().__init__(model_id)
        self.variable = variable


async def _cached_or_new(model_id: str, workshop: Path | None) -> Model:
    """Return a provider's model from the cache, and a model that plays a script anew each time."""
    _, alias = read_serving_id(model_id)
    play = play_of(alias.model)
    if play is not None:
        return play_model(play, workshop)
    if parse_model_id(alias.model)[0] in ("offline", "test"):
        return await asyncio.to_thread(_real_model_in_turn, model_id)
    return await _cache.get(model_id)


def _real_model_in_turn(model_id: str) -> Model:
    """Build one model at a time: the first of a provider imports its library, and half an import is of no use."""
    with _building:
        return _real_model(model_id)


def _real_model(model_id: str) -> Model:
    name, alias = read_serving_id(model_id)
    provider, rest = parse_model_id(alias.model)
    if provider in ("offline", "test"):
        from llm_do_temporal.offline import offline_model

        return offline_model(rest if provider == "offline" else alias.model)
    check_provider(alias.model)
    key = _key_of(alias)
    try:
        if alias.base_url is None and key is None:
            return _careful(infer_model(alias.model))
        return _careful(infer_model(alias.model, provider_factory=_providers_at(alias, key, name)))
    except LlmDoError:
        raise
    except Exception as error:
        # Each provider's library has exceptions of its own for a key that is missing or malformed.
        variable = _KEY_VARIABLE.search(str(error))
        if variable is None or os.environ.get(variable[0]):
            raise ModelFailed(f"model '{name}' cannot be used: {error}") from error
        raise _KeyNotSet(variable[0]) from error


def _careful(model: Model) -> Model:
    """The model, with what is done to the requests and the sizes of all of them."""
    return bounded_model(with_whole_schemas(for_templates(skip_transform(model))))


def _key_of(alias: ModelAlias) -> str | None:
    if alias.api_key_env is None:
        return None
    know_variable(alias.api_key_env)
    # Files of secrets end with a line end, which no key has.
    key = os.environ.get(alias.api_key_env, "").strip()
    if not key:
        raise _KeyNotSet(alias.api_key_env)
    return key


def _providers_at(alias: ModelAlias, key: str | None, name: str) -> Callable[[str], Provider[Any]]:
    """Makes the provider with the alias's address and key. Raises ModelRefusal where it can be given neither."""

    def make(provider: str) -> Provider[Any]:
        kind = cast("Callable[..., Provider[Any]]", infer_provider_class(provider))
        given = {"api_key": key or _NO_KEY}
        if alias.base_url is not None:
            given["base_url"] = alias.base_url
        takes = inspect.signature(kind).parameters
        missing = [option for option in given if option not in takes]
        if missing:
            raise ModelRefusal(
                f"model '{name}' cannot be used: provider '{provider}' takes no {' and no '.join(missing)}",
                next_step="Use openai-chat for servers that speak the OpenAI protocol.",
            )
        return kind(**given)

    return make


_Key = tuple[str, int]
"""Id of a model, and a hash of the environment."""


class ModelCache:
    """Models of one process, for each of its event loops, because connections belong to a loop."""

    def __init__(self, build: Callable[[str], Model]) -> None:
        self._build = build
        self._models: WeakKeyDictionary[asyncio.AbstractEventLoop, OrderedDict[_Key, Model]] = WeakKeyDictionary()

    async def get(self, model_id: str) -> Model:
        """Return the model with this id; a new one when the environment, which has keys and addresses, has changed."""
        models = self._models.setdefault(asyncio.get_running_loop(), OrderedDict())
        key = (model_id, hash(frozenset(os.environ.items())))
        model = models.get(key)
        if model is None:
            model = await asyncio.to_thread(self._build, model_id)
            # Entered once more than it is left, its connections stay open while turns enter and leave it.
            await model.__aenter__()
            models[key] = model
            while len(models) > MOST_CACHED:
                _, dropped = models.popitem(last=False)
                await dropped.__aexit__(None, None, None)
        models.move_to_end(key)
        return model


_cache = ModelCache(_real_model_in_turn)
