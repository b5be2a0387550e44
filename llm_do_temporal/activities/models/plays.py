"""Scripted models of a workshop: `offline:FILE.py:FUNCTION`, a function of the workshop's own Python.

The file is read at each turn, so that a changed one counts from the next turn on. The function runs in a thread, as the
functions of `tools.py` do. Whatever goes wrong in it is final.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from pydantic_ai.messages import ModelResponsePart
from pydantic_ai.models import Model

from llm_do_temporal.activities.runtime.threads import contained, in_own_thread
from llm_do_temporal.definitions.tools.authors_code import authors_code, importable
from llm_do_temporal.definitions.tools.plays import load_play
from llm_do_temporal.errors import DefinitionError, ModelFailed
from llm_do_temporal.offline.play import Play, perform
from llm_do_temporal.offline.script_model import ScriptModel, SeenRequest
from llm_do_temporal.pdf.reader import leashed

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
