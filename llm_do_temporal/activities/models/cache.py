"""Keeps models between turns, with their connections open.

A model that is built for one turn costs a new HTTP client, a new set of certificates and a new connection each
time: more processor time than all the rest of the turn.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable
from weakref import WeakKeyDictionary

from pydantic_ai.models import Model

MOST = 32
"""Models kept in one process; those used longest ago leave first."""
_Key = tuple[str, int]


class KeptModels:
    """The models of one process, for each of its event loops, because connections belong to a loop."""

    def __init__(self, build: Callable[[str], Model]) -> None:
        self._build = build
        self._models: WeakKeyDictionary[asyncio.AbstractEventLoop, OrderedDict[_Key, Model]] = WeakKeyDictionary()

    async def get(self, model_id: str) -> Model:
        """The model with this id; a new one when the environment, which has keys and addresses, has changed."""
        models = self._models.setdefault(asyncio.get_running_loop(), OrderedDict())
        key = (model_id, hash(frozenset(os.environ.items())))
        model = models.get(key)
        if model is None:
            model = await asyncio.to_thread(self._build, model_id)
            # Entered once more than it is left, its connections stay open while turns enter and leave it.
            await model.__aenter__()
            models[key] = model
            await self._drop_oldest(models)
        models.move_to_end(key)
        return model

    async def _drop_oldest(self, models: OrderedDict[_Key, Model]) -> None:
        while len(models) > MOST:
            _, dropped = models.popitem(last=False)
            await dropped.__aexit__(None, None, None)
