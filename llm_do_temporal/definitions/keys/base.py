"""Types that several keys have."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from llm_do_temporal.messages.base import Strict

Text = Annotated[str, StringConstraints(min_length=1)]


class Switchable(Strict):
    """Toolset or tool that can be switched off where it stands."""

    enabled: bool = True
