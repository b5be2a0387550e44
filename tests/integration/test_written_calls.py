"""Tool calls that come as text, as servers without a parser of tool calls send them, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from llm_do_temporal.errors import LlmDoError
from tests.support.dialects.answers import Answer, Say, says
from tests.support.dialects.forms import cases_of
from tests.support.dialects.server import ADAPTERS, Providers
from tests.support.runs.place import Place

FILES: dict[str, Any] = {"toolsets": {"filesystem": {}}}
ROOM = {"max_tokens": 20_000}
ARGS = '{"path": "/made.txt", "content": "t"}'
CALL = f'{{"name": "write_file", "arguments": {ARGS}}}'
PARAMETER = "<parameter=path>\n/made.txt\n</parameter>\n<parameter=content>\nt\n</parameter>"
CALLS = {
    "hermes": f"<tool_call>\n{CALL}\n</tool_call>",
    "after-words": f"I write the file.\n\n<tool_call>\n{CALL}\n</tool_call>",
    "cut": '<tool_call>\n{"name": "write_file", "arguments": {"path": "/made',
    "qwen-coder": f"<tool_call>\n<function=write_file>\n{PARAMETER}\n</function>\n</tool_call>",
    "mistral": f"[TOOL_CALLS][{CALL}]",
    "mistral-new": f"[TOOL_CALLS]write_file[ARGS]{ARGS}",
    "llama": f'<|python_tag|>{{"name": "write_file", "parameters": {ARGS}}}',
    "llama-function": f"<function=write_file>{ARGS}</function>",
    "deepseek": f"<\uff5ctool▁calls▁begin\uff5c>function<\uff5ctool▁sep\uff5c>write_file\n```json\n{ARGS}\n```",
    "kimi": f"<|tool_calls_section_begin|><|tool_call_begin|>functions.write_file:0<|tool_call_argument_begin|>{ARGS}",
    "gpt-oss": f"<|channel|>commentary to=functions.write_file <|constrain|>json<|message|>{ARGS}<|call|>",
    "glm": "<tool_call>write_file\n<arg_key>path</arg_key>\n<arg_value>/made.txt</arg_value>\n</tool_call>",
    "granite": f"<|tool_call|>[{CALL}]",
    "olmo": f"<tool_calls>[{CALL}]</tool_calls>",
    "invoke": '<function_calls>\n<invoke name="write_file">\n</invoke>\n</function_calls>',
    "gemma": '```tool_code\nwrite_file(path="/made.txt", content="t")\n```',
    "bare": CALL,
    "parameters": f'{{"name": "write_file", "parameters": {ARGS}}}',
    "fenced": f"```json\n{CALL}\n```",
}
"""Calls as the templates of models write them."""
TEXTS = {
    "quoted": f"Hermes models write `<tool_call>` around {CALL} and so on.",
    "explained": f"Such a call looks so:\n\n```\n<tool_call>\n{CALL}\n</tool_call>\n```",
    "other-tool": '<tool_call>\n{"name": "send_mail", "arguments": {}}\n</tool_call>',
    "other-object": '{"name": "Ada", "arguments": "none"}',
    "more-keys": '{"name": "write_file", "arguments": {}, "reason": "an example"}',
    "list": '["write_file"]',
}
"""Texts that are results."""


@pytest.fixture(scope="module")
def providers() -> Iterator[Providers]:
    """All of them, for all of this file."""
    with Providers() as providers:
        yield providers


def once(text: str) -> Answer:
    return Answer((Say(text),), once=True)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("live", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("adapter", ADAPTERS)
async def test_a_call_that_comes_as_text_is_no_result_and_is_not_carried_out(
    place: Place, providers: Providers, adapter: str, live: bool
) -> None:
    calls = CALLS if adapter == "chat" else {one: CALLS[one] for one in ("hermes", "cut", "bare")}
    texts = cases_of(TEXTS, adapter, live)
    names = {one: f"{adapter}-{live}-{one}".lower() for one in (*calls, *texts)}
    models = {
        name: providers.alias(adapter, name, once({**CALLS, **TEXTS}[one]), says("Done."))
        for one, name in names.items()
    }
    place.workshop(models=models, live_text=live, model_settings=ROOM)
    for name in names.values():
        place.worker(name, name, **FILES)
    few = asyncio.Semaphore(5)  # an attempt that a busy machine loses is one less for the answer

    async def outcome(name: str) -> Any:
        async with few:
            return (await place.run(name, mode="approve_all")).output

    came = await asyncio.gather(*map(outcome, names.values()))
    assert dict(zip(names, came, strict=True)) == {**dict.fromkeys(calls, "Done."), **texts}
    assert not (place.folder / "made.txt").exists()


async def test_a_server_without_a_parser_is_named_as_the_cause(place: Place, providers: Providers) -> None:
    turns = [says(CALLS["hermes"])] * 3
    models = {
        "m": providers.alias("chat", "alone", *turns),
        "n": providers.alias("chat", "first", *turns),
        "other": providers.alias("chat", "other", says("By the other.")),
    }
    place.workshop(models=models)
    place.worker("alone", "m", **FILES)
    place.worker("both", "n,other", **FILES)
    place.worker("without-tools", "m")
    with pytest.raises(LlmDoError, match="--tool-call-parser"):
        await place.run("alone")
    assert (await place.run("both")).output == "By the other."
    assert (await place.run("without-tools")).output == CALLS["hermes"]
