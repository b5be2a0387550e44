"""Models: their names, prices and batch APIs, the choice among them, and the part of a conversation that one is sent.

A model is `provider:name`, or the name of an alias that says more: an address, the variable that holds the key,
settings. The alias is pinned with the run. To the activity that serves a turn it travels inside the model's id, so that
a turn is served as it was meant even after `workshop.yaml` was changed. No key is ever part of it.

Several models, of which the next is asked when one fails, are one text with commas between them, wherever a model is
named: so they are chosen, checked and inherited like a single model.

The choice is one chain, first that exists: forced by the run, the worker's own, the caller's effective model, the run's
`--model`, the workshop's, `LLM_DO_MODEL`. In a workshop with `model_resolution: isolated` nothing is inherited:
`--model` counts for the entry worker alone, and before its own. The choice is then checked against the worker's
`compatible_models`: each of its models, where it names several.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, TypeAlias, cast
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, StringConstraints, field_validator, model_validator

from llm_do_temporal.errors import ModelRefusal, UsageError
from llm_do_temporal.policy.key_shapes import begins_like_key, looks_like_key
from llm_do_temporal.policy.values import Value, words

FREE = "free"
"""Text that stands for a price of nothing."""
_TOKENS = 1_000_000
"""Tokens for which a price is stated."""


def _read_amount(value: Any) -> Any:
    """Return a number, or a number's text, as a Decimal; any other value as it is. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return value
    try:
        return Decimal(str(value))
    except InvalidOperation as error:
        raise ValueError(f"'{str(value)[:40]}' is not a number of US dollars, like 0.25") from error


Dollars = Annotated[
    Decimal,
    Field(ge=0, le=1_000_000, allow_inf_nan=False),
    BeforeValidator(_read_amount, json_schema_input_type=float | str),
]
"""US dollars for a million tokens."""


class Price(Value):
    """Price of a model, in US dollars for a million tokens; the text `free` is short for nothing."""

    # Where a workshop states none, prices come from a list that Pydantic AI brings along.

    input: Dollars
    """Tokens that the model is told."""
    output: Dollars
    """Tokens that the model writes."""
    cache_read: Dollars | None = Field(default=None, exclude_if=lambda value: value is None)
    """Tokens that the server had in its cache; None: the price of `input`."""
    cache_write: Dollars | None = Field(default=None, exclude_if=lambda value: value is None)
    """Tokens that the server put into its cache; None: the price of `input`."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        if value == FREE:
            return {"input": Decimal(0), "output": Decimal(0)}
        if isinstance(value, str | int | float):
            raise ValueError("a price is `free`, or has keys: {input: 0.15, output: 0.60}, for a million tokens")
        return value

    def cost_of(self, *, told: int, written: int, cache_read: int = 0, cache_write: int = 0) -> Decimal:
        """Return the US dollars for a turn; `told` counts the tokens that were read from a cache, or put there, too."""
        plain = max(told - cache_read - cache_write, 0)
        dear = (
            plain * self.input
            + cache_read * (self.input if self.cache_read is None else self.cache_read)
            + cache_write * (self.input if self.cache_write is None else self.cache_write)
            + written * self.output
        )
        return dear / _TOKENS


NOTHING_TO_PAY = Price(input=Decimal(0), output=Decimal(0))
"""Price of models that are scripts."""


Accepts = Literal["text", "pdf", "image"]
ALIAS_ID = "alias:"
"""Prefix of an aliased model's id on its way to an activity. Nobody can write such an id: `resolve_model` refuses it.
"""

OFFLINE = "offline:"
"""Beginning of the names of models that are scripts."""

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


def joined_models(value: object) -> object:
    """Return a list of models as one text, any other value as it is. Raises ValueError for a list that names none."""
    if not isinstance(value, list | tuple):
        return value
    names = [str(name) for name in cast("list[object]", value)]
    if not names or any(not name.strip() or "," in name for name in names):
        raise ValueError("a list of models names at least one, like [anthropic:claude-sonnet-5-5, openai:gpt-5]")
    return ",".join(name.strip() for name in names)


ModelNames = Annotated[
    str, StringConstraints(min_length=1), BeforeValidator(joined_models, json_schema_input_type=str | list[str])
]
"""Model, or several models: a list, or a text with commas."""


def models_of(named: str) -> tuple[str, ...]:
    """Return the models in a text, in order."""
    return tuple(name.strip() for name in named.split(",") if name.strip())


def is_full_name(model: str) -> bool:
    """Return whether a text has the form `provider:name` and names one model."""
    return ":" in model and "," not in model and not model.startswith(ALIAS_ID)


def check_no_secret(value: object) -> None:
    """Raise ValueError, without repeating it, for a text in `value` that looks like a key."""
    if isinstance(value, str) and looks_like_key(value):
        raise ValueError(
            "this looks like a key; keys are never written into files: put it into an environment variable of the "
            "worker service and name that variable with api_key_env"
        )
    if isinstance(value, Mapping):
        for inner in cast("Mapping[str, object]", value).values():
            check_no_secret(inner)
    if isinstance(value, list | tuple):
        for inner in cast("list[object]", value):
            check_no_secret(inner)


def check_variable(name: str) -> str:
    """Return the name of an environment variable. Raises ValueError, without repeating a possible secret."""
    if not _VARIABLE.fullmatch(name) or looks_like_key(name):
        raise ValueError("it is the name of an environment variable, like OLLAMA_KEY, and never the key itself")
    return name


class ModelAlias(Value):
    """Entry of `models:`. Text alone is short for `{model: text}`, and so is a list of models and aliases."""

    model: str = Field(min_length=1)
    """Full name `provider:name`; or several models and aliases, and then no other key is set."""
    base_url: str | None = None
    """Address of a server with the provider's protocol, like http://127.0.0.1:11434/v1."""
    api_key_env: str | None = None
    """The environment variable of the worker service that holds the key."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Model settings; a workshop's and a worker's win over them."""
    accepts: tuple[Accepts, ...] | None = None
    """Kinds of files that the model takes as they are; None: those known of the provider."""
    price: Price | None = Field(default=None, exclude_if=lambda value: value is None)
    """Price of its tokens; None: as the price list has it, and nothing for an offline model."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        if isinstance(value, str | list):
            return {"model": joined_models(cast("object", value))}
        if not isinstance(value, dict):
            return value
        # What passes here counts as Python and no longer as JSON, where strict validation takes lists for tuples.
        given = cast("dict[str, Any]", value)
        return {key: tuple(cast("list[Any]", one)) if isinstance(one, list) else one for key, one in given.items()}

    @field_validator("base_url")
    @classmethod
    def _plain_address(cls, address: str | None) -> str | None:
        if address is None:
            return None
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise ValueError("it is an address like http://127.0.0.1:11434/v1")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("an address has no user, password, query or fragment; a key goes into api_key_env")
        for segment in parts.path.split("/"):
            if begins_like_key(segment):
                check_no_secret(segment)
        return address

    @field_validator("api_key_env")
    @classmethod
    def _variable_name(cls, name: str | None) -> str | None:
        return None if name is None else check_variable(name)

    @field_validator("model")
    @classmethod
    def _no_key(cls, value: str) -> str:
        for model in models_of(value):
            name = model.rpartition(":")[2]
            if begins_like_key(name):
                check_no_secret(name)
        return value

    @model_validator(mode="after")
    def _one_place(self) -> ModelAlias:
        if "," in self.model and not self.is_plain:
            raise ValueError("an alias for several models says nothing else; give each of them an alias of its own")
        return self

    @field_validator("settings")
    @classmethod
    def _no_keys(cls, value: dict[str, Any]) -> dict[str, Any]:
        check_no_secret(value)
        return value

    @property
    def is_plain(self) -> bool:
        """Whether no key but the model is set."""
        return not self.model_dump(exclude={"model"}, exclude_defaults=True)


Aliases = Mapping[str, str | ModelAlias]


def alias_of(aliases: Aliases, model: str) -> ModelAlias | None:
    """Return the alias named `model` that says more than `provider:name`; None where there is none."""
    found = aliases.get(model)
    return found if isinstance(found, ModelAlias) else None


def chain_of(aliases: Aliases, named: str) -> tuple[str, ...]:
    """Return the models that a text names, in order, with the models of an alias in the alias's place."""
    found: list[str] = []
    for name in models_of(named):
        several = aliases.get(name)
        found += models_of(several) if isinstance(several, str) and "," in several else [name]
    return tuple(dict.fromkeys(found))


def full_name(aliases: Aliases, model: str) -> str:
    """Return `provider:name` of a model, or the given text where it names no provider."""
    found = aliases.get(model, model)
    return found.model if isinstance(found, ModelAlias) else found


def label(aliases: Aliases, model: str) -> str:
    """Return the model's name for people: `provider:name`, after the alias where that says more; of several, all."""
    shown = [(name, alias_of(aliases, name)) for name in models_of(model)]
    return ", ".join(name if alias is None else f"{name} ({alias.model})" for name, alias in shown)


def serving_id(aliases: Aliases, model: str) -> str:
    """Return the id by which an activity can build the model: `provider:name`, or the alias with address and price."""
    alias = alias_of(aliases, model)
    if alias is None or (alias.base_url is None and alias.api_key_env is None and alias.price is None):
        return full_name(aliases, model)
    spec = {
        "alias": model,
        "model": alias.model,
        "base_url": alias.base_url,
        "api_key_env": alias.api_key_env,
        "price": None if alias.price is None else alias.price.model_dump(mode="json"),
    }
    given = {name: value for name, value in spec.items() if value is not None}
    return ALIAS_ID + json.dumps(given, sort_keys=True, separators=(",", ":"))


def read_serving_id(model_id: str) -> tuple[str, ModelAlias]:
    """Return the name to show for an id of `serving_id`, and its alias. Raises ValueError for a broken id."""
    if not model_id.startswith(ALIAS_ID):
        return model_id, ModelAlias(model=model_id)
    spec = cast("dict[str, Any]", json.loads(model_id.removeprefix(ALIAS_ID)))
    name = str(spec.pop("alias"))
    return f"{name} ({spec.get('model')})", ModelAlias.model_validate(spec)


def play_of(model: str) -> tuple[str, str] | None:
    """Return file and function of `offline:FILE.py:FUNCTION`, a scripted model of the workshop; None for others."""
    file, colon, function = model.removeprefix(OFFLINE).rpartition(":")
    return (file, function) if model.startswith(OFFLINE) and colon else None


def stated_price(alias: ModelAlias) -> Price | None:
    """Return the price that needs no price list: the workshop's, or nothing for an offline model; None for others."""
    if alias.price is None and alias.model.startswith(OFFLINE):
        return NOTHING_TO_PAY
    return alias.price


def merged_settings(
    aliases: Aliases, model: str, workshop: Mapping[str, Any], worker: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings of a turn, key by key: the worker's win over the workshop's, these over the alias's."""
    alias = alias_of(aliases, model)
    return {**({} if alias is None else alias.settings), **workshop, **worker}


class ModelSources(Value):
    """Sources of a model in a run, besides the worker and its caller."""

    force_model: str | None = None
    run_model: str | None = None
    workshop_model: str | None = None
    environment_model: str | None = None
    aliases: Aliases = Field(default_factory=dict)
    """Aliases, each as `provider:name`, or as the whole alias where it says more."""
    isolated: bool = False
    """Whether workers inherit no model."""


def resolve_model(
    sources: ModelSources,
    *,
    worker: str,
    worker_model: str | None,
    caller_model: str | None,
    compatible: Sequence[str] | None,
) -> str:
    """Return the model of a worker whose caller's effective model is `caller_model` (None: it has no caller).

    The result is `provider:name`, or the name of an alias that says more than that; several have commas between them.
    Raises ModelRefusal where no source names a model, or a chosen model has no provider or matches none of
    `compatible`.
    """
    if sources.isolated:
        entry = None if caller_model else sources.run_model
        chain = (sources.force_model, entry, worker_model, sources.workshop_model, sources.environment_model)
    else:
        chain = (
            sources.force_model,
            worker_model,
            caller_model,
            sources.run_model,
            sources.workshop_model,
            sources.environment_model,
        )
    named = next((name for name in chain if name), None)
    if named is None:
        raise ModelRefusal(
            f"no model for worker '{worker}'",
            next_step="Set `model:` in the worker or in workshop.yaml, pass --model, or set LLM_DO_MODEL.",
        )
    names = chain_of(sources.aliases, named) or (named,)
    return ",".join(dict.fromkeys(_checked(sources.aliases, name, worker, compatible) for name in names))


def _checked(aliases: Aliases, named: str, worker: str, compatible: Sequence[str] | None) -> str:
    """Return a model in the form in which it travels. Raises ModelRefusal."""
    model = full_name(aliases, named)
    if ":" not in model or "," in model or model.startswith(ALIAS_ID):
        raise ModelRefusal(
            f"model '{model}' names no provider",
            next_step="Write it as provider:name, like anthropic:claude-sonnet-5-5, or give it an alias in "
            "workshop.yaml under `models:`.",
        )
    if compatible is not None and not any(fnmatchcase(model.lower(), pattern.lower()) for pattern in compatible):
        raise ModelRefusal(
            f"worker '{worker}' does not work with model '{model}'; compatible: {', '.join(compatible)}",
            next_step="Choose another with --model, or change `compatible_models`.",
        )
    return model if alias_of(aliases, named) is None else named


OFFLINE_PROVIDER = "offline"
OFFLINE_MODELS = ("by-hand", "echo", "greeter", "notes")
"""Names of the package's models that are scripts, without `offline:`."""
PROVIDERS = frozenset(
    words(
        """
        alibaba anthropic azure azure-responses bedrock bedrock-mantle cerebras cohere crusoe deepseek elevenlabs
        fireworks github github-copilot google google-cloud google-decisions groq heroku huggingface litellm meta
        mistral moonshotai nebius ollama openai openai-chat openai-chatgpt openai-codex openai-decisions
        openai-responses openrouter ovhcloud sambanova sentence-transformers snowflake system-one together typesafe
        vercel vllm voyageai xai zai
        """
    )
)
"""Providers of Pydantic AI, as the part of a model's name before the colon; a newer one may know more."""
_FURTHER = frozenset({OFFLINE_PROVIDER, "test"})
_GATEWAY = "gateway/"
_PYTHON = ".py"
_FORM = "A model is an alias, or provider:name like anthropic:claude-sonnet-5-5."


@dataclass(frozen=True)
class ModelDoubt:
    """Doubt that a model exists."""

    message: str
    hint: str
    certain: bool
    """Whether a run with it is sure to fail, or the name is all but one that is known."""


def model_doubt(model: str) -> ModelDoubt | None:
    """Return the doubt about `provider:name`; None for a model that may exist."""
    provider, _, name = model.partition(":")
    if provider == OFFLINE_PROVIDER:
        return _offline_doubt(name)
    if provider in PROVIDERS or provider in _FURTHER or provider.startswith(_GATEWAY):
        return None
    close = get_close_matches(provider.lower(), sorted(PROVIDERS | {OFFLINE_PROVIDER}), n=1, cutoff=0.75)
    return ModelDoubt(
        f"no provider '{provider[:80]}' is known, of the model '{model[:80]}'",
        f"Did you mean '{close[0]}:{name[:80]}'?"
        if close
        else "Known are anthropic, google, openai and the others of Pydantic AI; offline:NAME needs no key.",
        certain=bool(close),
    )


def check_models(aliases: Aliases | None, named: Iterable[str | None]) -> list[str]:
    """Return warnings about models that are not known. Raises UsageError where the name of one is surely misspelt.

    What is only not known the worker service may know: it may have a newer list, or other aliases. `aliases` are those
    of the workshop, None where it is not known; a text in `named` may name several models, and None names none.
    """
    names = [one for text in named if text for one in chain_of(aliases or {}, text)]
    doubts: list[ModelDoubt] = []
    for model in dict.fromkeys(full_name(aliases or {}, one) for one in names):
        if ":" in model:
            doubts += filter(None, [model_doubt(model)])
        elif aliases is not None:
            doubts.append(ModelDoubt(f"the workshop has no alias '{model[:80]}'", _FORM, certain=False))
    for doubt in doubts:
        if doubt.certain:
            raise UsageError(doubt.message, next_step=doubt.hint)
    return [f"{doubt.message}: a run may fail for that. {doubt.hint}" for doubt in doubts]


def _offline_doubt(name: str) -> ModelDoubt | None:
    file, colon, function = name.rpartition(":")
    if name in OFFLINE_MODELS or (file.endswith(_PYTHON) and function.isidentifier()):
        return None
    if colon or name.endswith(_PYTHON):
        message = f"'{OFFLINE}{name[:80]}' names no function of a Python file"
        return ModelDoubt(message, "Write it like 'offline:plays.py:pitch'.", certain=True)
    close = get_close_matches(name.lower(), OFFLINE_MODELS, n=1)
    known = ", ".join(f"{OFFLINE}{one}" for one in OFFLINE_MODELS)
    hint = f"Did you mean '{OFFLINE}{close[0]}'?" if close else f"There are {known}, and {OFFLINE}FILE.py:FUNCTION."
    return ModelDoubt(f"there is no offline model '{OFFLINE}{name[:80]}'", hint, certain=True)


PROVIDERS_WITH_BATCHES = ("anthropic", "google", "openai", "openai-responses")
"""Providers whose batch API the library speaks, as the part of a model's name before the colon."""
_SCRIPTS = (OFFLINE, "test:")
_PART_OF_AGE = 2
"""Divisor of a batch's age: one that runs for an hour is looked at less often than one that has just begun."""
_MOST_WAITS = 20
"""Longest time between two looks at a batch, in times between the first two."""


def has_batches(model: str) -> bool:
    """Return whether turns of a model, `provider:name`, can go through a batch API; scripts answer at once and cost
    nothing, so they can."""
    return model.startswith(_SCRIPTS) or model.partition(":")[0] in PROVIDERS_WITH_BATCHES


def next_look(age: timedelta, first: timedelta) -> timedelta:
    """Return the time to the next look at a batch of this age; `first` is the time to the first one.

    It grows with the age, up to twenty times the first.
    """
    return min(max(age / _PART_OF_AGE, first), first * _MOST_WAITS)


CHARACTERS_PER_TOKEN = 4
"""Characters per token: a rough measure for European languages and code, as each model counts differently."""


def first_kept(sizes: Sequence[int], max_tokens: int | None) -> int:
    """Return how many of the oldest parts of a conversation are left out.

    `sizes` are the characters of its parts, oldest first. Where all of them have more than `max_tokens`, the oldest are
    left out until half of that is reached, and no more until it has grown past it again: so the rest begins with the
    same words for many turns, which makes it cheap. The newest part always stays.
    """
    if max_tokens is None:
        return 0
    most = max_tokens * CHARACTERS_PER_TOKEN
    first = kept = 0
    for place, size in enumerate(sizes):
        kept += size
        if kept > most:
            while kept > most // 2 and first < place:
                kept -= sizes[first]
                first += 1
    return first


CutReason: TypeAlias = Literal["length", "content_filter"]
"""Reason why an answer has no end: a limit of its length (`max_tokens`, the context window), or a content filter."""
CUT = "llm_do_cut"
"""The only argument of a call in which its answer was cut: the reason."""
_WORDS: dict[str, str] = {
    "length": "the answer was cut off at its provider's limit",
    "content_filter": "the answer was cut off by its provider's content filter",
}


def cut_words(reason: Any) -> str:
    """Return a clause that says why an answer was cut."""
    return _WORDS.get(str(reason), "the answer was cut off")


def cut_reason(finish_reason: str | None) -> CutReason | None:
    """Return the reason of a cut by the normalised finish reason of an answer; None: it was not cut."""
    if finish_reason == "length" or finish_reason == "content_filter":
        return finish_reason
    return None
