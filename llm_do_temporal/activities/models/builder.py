"""Builds models from their ids.

`build_model` runs on both sides: in workflow code it returns a stand-in that knows the name and never
sends anything; in an activity it builds the real one, with the address of an alias and the key from the variable
that the alias names. Keys are read here and nowhere else, and never leave this process but to the provider.

Models are kept between turns, with their connections open: one that is built for a single turn costs a new HTTP
client, a new set of certificates and a new connection, more processor time than all the rest of the turn.

Many servers put a conversation into the chat template of their model, which is stricter than OpenAI: one system
message and that first, then users and assistants in turn, and no content that is null. Conversations are put in that
order for all of them; it means the same to those that would take any.

The client library walks through all messages and tools of a request to rename keys, though chat completions have none
to rename. For a conversation of 80 turns that is two thirds of the processor time of a turn, and it grows with the
conversation. What is handed over as `extra_body`, which is a documented way to send anything, is sent as it is.

A model may be a script of the workshop, `offline:FILE.py:FUNCTION`. The file is read at each turn, so a changed one
counts from the next turn on. Whatever goes wrong in it is final.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponsePart
from pydantic_ai.models import (
    Model,
    ModelRequestParameters,
    ModelResolutionContext,
    infer_model,
    parse_model_id,
)
from pydantic_ai.native_tools import SUPPORTED_NATIVE_TOOLS, AbstractNativeTool
from pydantic_ai.profiles import DEFAULT_PROFILE, merge_profile
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.settings import ModelSettings
from temporalio import activity, workflow

from llm_do_temporal.activities.models.failures import bounded_model
from llm_do_temporal.activities.runtime.failures import as_failure
from llm_do_temporal.activities.runtime.threads import contained, in_own_thread
from llm_do_temporal.definitions.tools.authors_code import authors_code, importable
from llm_do_temporal.definitions.tools.plays import load_play
from llm_do_temporal.errors import DefinitionError, LlmDoError, ModelFailed, ModelRefusal
from llm_do_temporal.messages.conversation import OtherModel
from llm_do_temporal.offline.play import Play, perform
from llm_do_temporal.offline.script_model import ScriptModel, SeenRequest
from llm_do_temporal.pdf.reader import leashed
from llm_do_temporal.policy.models import ModelAlias, Price, play_of, read_serving_id, stated_price
from llm_do_temporal.redaction.configured_keys import know_variable

PLAY_SECONDS = 120
"""Longest time for one answer: to read a large PDF takes a minute on a busy machine."""


def play_model(play: tuple[str, str], workshop: Path | None) -> Model:
    """Return the model of the workshop whose answers the function of a file gives; it raises ModelFailed."""
    name = ":".join(play)
    if workshop is None:
        raise ModelFailed(f"the model 'offline:{name}' cannot be used: no workshop is known here")
    root = workshop.resolve()

    def answer(seen: SeenRequest) -> Sequence[ModelResponsePart]:
        with contained():
            file, function = load_play(play, root=root)
            with authors_code(file.path, root), importable(root):
                return perform(cast("Play", function))(seen)

    async def script(seen: SeenRequest) -> Sequence[ModelResponsePart]:
        try:
            with leashed():
                async with asyncio.timeout(PLAY_SECONDS):
                    return await in_own_thread(answer, seen)
        except DefinitionError as error:
            failed = f"the model 'offline:{name}' failed: {error}"
            raise ModelFailed(failed, next_step=error.next_step) from error
        except TimeoutError:
            raise ModelFailed(f"the model 'offline:{name}' did not answer within {PLAY_SECONDS} seconds") from None

    return ScriptModel("offline", name, script)


_AS_MADE = ("messages", "tools")
"""The parts of a request that are long, and are plain JSON already."""
_KNOWN = frozenset(("azure", "openrouter"))
"""Providers that take system messages wherever they stand, or whose profiles say which models do."""
_MISTRAL = re.compile("[sx]tral")
"""Part of the names of models of Mistral. Their templates take only ids of calls that have nine letters and digits, and
no user after the result of a call."""
_SEEN = {"role": "assistant", "content": "OK"}
"""Stands between the result of a call and a user for these models, as in the library's adapter for Mistral itself."""


_Message = dict[str, Any]


@cache
def _whole(kind: type[Any]) -> type[Any]:
    """A transformer like `kind` that changes nothing of what a schema takes outside of strict mode."""

    class Whole(kind):
        def walk(self) -> Any:
            """See JsonSchemaTransformer."""
            found = cast("Any", super().walk())
            if self.strict is not None or self.is_strict_compatible:
                return found
            return kind(self.schema, strict=False).walk()

    return Whole


def is_of_mistral(model: object) -> bool:
    """Whether a model is one of Mistral, by its name."""
    return _MISTRAL.search(str(model).lower()) is not None


def in_order(messages: list[_Message], *, seen: bool = False) -> list[_Message]:
    """Return the conversation as the strictest chat template takes it; the messages given stay as they are.

    Where `seen`, an answer stands between the result of a call and a user.
    """
    found: list[_Message] = []
    for message in messages:
        role = message.get("role")
        if seen and role == "user" and found and found[-1].get("role") == "tool":
            found.append(_SEEN)
        before = found[-1] if found and role in {"user", "assistant"} else {}
        if before and role == before.get("role") and before.get("name") == message.get("name"):
            found[-1] = _joined(before, message)
        elif message.get("content") is None and role == "assistant":
            found.append({**message, "content": ""})
        else:
            found.append(message)
    return found


def _joined(before: _Message, message: _Message) -> _Message:
    joined = {**before, **{key: value for key, value in message.items() if key not in {"content", "tool_calls"}}}
    calls = [*(before.get("tool_calls") or ()), *(message.get("tool_calls") or ())]
    joined["content"] = _contents(before.get("content"), message.get("content"))
    return {**joined, "tool_calls": calls} if calls else joined


def _contents(first: Any, second: Any) -> Any:
    if not first or not second:
        return first or second or ""
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*_parts(first), *_parts(second)]


def _parts(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


@cache
def _quick(kind: type[Any]) -> type[Any]:
    from openai.resources.chat import AsyncChat, AsyncCompletions

    class Completions(AsyncCompletions):
        async def create(self, **given: Any) -> Any:
            """See AsyncCompletions."""
            if isinstance(given.get("messages"), list):
                given["messages"] = in_order(given["messages"], seen=is_of_mistral(given.get("model")))
            body = {name: given[name] for name in _AS_MADE if isinstance(given.get(name), list)}
            # An empty list in its place, because the library insists on messages.
            given |= {name: cast("list[Any]", []) for name in body}
            given["extra_body"] = {**(given.get("extra_body") or {}), **body}
            return await cast("Any", super()).create(**given)

    class Chat(AsyncChat):
        @cached_property
        def completions(self) -> AsyncCompletions:  # pyright: ignore[reportIncompatibleMethodOverride]
            """See AsyncChat."""
            return Completions(self._client)

    class Client(kind):
        @cached_property
        def chat(self) -> AsyncChat:
            """See AsyncOpenAI."""
            return Chat(cast("Any", self))

        def with_options(self, **options: Any) -> Any:
            """See AsyncOpenAI. What would be a copy with the same options is the client itself.

            Each copy asks in a thread of its own which platform it runs on.
            """
            same: dict[str, Any] = {"http_client": self._client, "max_retries": self.max_retries, "_extra_kwargs": {}}
            return self if options == same else kind.with_options(self, **options)

    return Client


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
    """The model, with what is done to the requests and the sizes of all of them.

    The schemas of tools are sent as they are where OpenAI's strict mode cannot hold them. The library closes each
    object of such a schema, too: what takes any arguments would be offered as taking none.
    """
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer

    changed: dict[str, Any] = {}
    if isinstance(model, OpenAIChatModel):
        # Options make a copy of a client, of the same class: so it is the class that must know.
        client = cast("Any", model.client)
        client.__class__ = _quick(cast("type[Any]", type(client)))
        vars(client).pop("chat", None)
        client.max_retries = 0
        # Servers of OpenAI take system texts anywhere, and profiles of others of these say which models do.
        provider = cast("Any", model.provider)
        host = urlsplit(str(provider.base_url)).hostname or ""
        if provider.name not in _KNOWN and not (provider.name == "openai" and host.endswith(".openai.com")):
            changed["supports_inline_system_prompts"] = False
            changed["openai_chat_supports_multiple_system_messages"] = False
            changed |= {"tool_call_id_length": 9} if is_of_mistral(model.model_name) else {}
    kind: Any = model.profile.get("json_schema_transformer")
    if isinstance(kind, type) and issubclass(kind, OpenAIJsonSchemaTransformer):
        changed["json_schema_transformer"] = _whole(kind)
    if changed:
        # A profile is looked up once, and kept there.
        vars(model)["profile"] = merge_profile(model.profile, cast("Any", changed))
    return bounded_model(model)


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
