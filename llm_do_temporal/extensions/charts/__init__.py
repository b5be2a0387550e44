"""Charts of the last weeks: runs that ended, what they cost, and how long their questions waited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llm_do_temporal.extension import Extension, NavigationEntry


class ChartsExtension(Extension):
    """See the module."""

    name = "charts"

    def routes(self) -> Sequence[Any]:
        """See Extension."""
        from llm_do_temporal.extensions.charts.page import routes

        return routes

    def navigation(self) -> Sequence[NavigationEntry]:
        """See Extension."""
        return (NavigationEntry("Charts", "/charts", under="/runs"),)


EXTENSION = ChartsExtension()
