"""The base of every frozen value that policy takes and returns."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """A frozen value with strict keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")
