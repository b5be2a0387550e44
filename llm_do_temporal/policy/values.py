"""The base of every frozen value that policy takes and returns."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

Capability = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$")]
"""The name of something that a call is about to do, like `proc.exec`."""


class Value(BaseModel):
    """A frozen value with strict keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")
