"""Points in time for tests, as histories have them: UTC without a zone."""

from __future__ import annotations

from datetime import datetime, timedelta

START = datetime(2026, 1, 2, 3, 4, 5)


def after(seconds: float) -> datetime:
    """So many seconds after the start."""
    return START + timedelta(seconds=seconds)
