"""Base of every frozen value that policy takes and returns."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

Capability = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$")]
"""Name of a capability that a call uses, like `proc.exec`."""


class Value(BaseModel):
    """Frozen value with strict keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")
