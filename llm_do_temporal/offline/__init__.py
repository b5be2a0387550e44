"""Models that need no key: `offline:NAME`. They are scripts, not language models.

They exist so that a workshop can be tried, demonstrated and tested on a laptop with no account anywhere. Each is a
function of the request that a provider would see (messages, tools, schemas, attached bytes) and keeps no state between
requests, so a run goes on with them after any crash. Model serving calls `offline_model`; the plays of a workshop,
`offline:FILE.py:FUNCTION`, are loaded there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from pydantic_ai.messages import ModelResponsePart
from pydantic_ai.models import Model

from llm_do_temporal.errors import ModelFailed
from llm_do_temporal.offline.plain import PLAIN
from llm_do_temporal.offline.script_model import SCRIPTS, TEST_PREFIX, ScriptModel, SeenRequest

__all__ = ["offline_model"]


def offline_model(name: str) -> Model:
    """Return the model called `offline:<name>`, or the one that a test registered if `name` is `test:<name>`.

    Raises ModelFailed, which lists the known names, for an unknown one.
    """
    if name.startswith(TEST_PREFIX):
        registered = name.removeprefix(TEST_PREFIX)
        if registered not in SCRIPTS:
            raise ModelFailed(
                f"no test model '{registered}' is registered in this process; there are {_list(TEST_PREFIX, SCRIPTS)}",
                next_step="Call llm_do_temporal.testing.register_model in the process of the worker service.",
            )
        return SCRIPTS[registered]
    if name not in PLAIN:
        raise ModelFailed(
            f"there is no offline model 'offline:{name}'; there are {_list('offline:', PLAIN)}",
            next_step="Choose one of these, a function of the workshop as offline:FILE.py:FUNCTION, or a real model as "
            "provider:name.",
        )

    async def script(seen: SeenRequest) -> Sequence[ModelResponsePart]:
        return await asyncio.to_thread(PLAIN[name], seen)

    return ScriptModel("offline", f"{name}-script", script)


def _list(prefix: str, names: Iterable[str]) -> str:
    return ", ".join(f"{prefix}{name}" for name in names) or "none"
