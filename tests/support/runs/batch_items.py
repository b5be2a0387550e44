"""Items of batches."""

from __future__ import annotations

from typing import Any


def batch_of(*names: str, concurrency: int = 3) -> dict[str, Any]:
    """Return the keys of a batch with an item a name; each is prompted with its name."""
    return {"items": [{"name": name, "prompt": f"item {name}"} for name in names], "concurrency": concurrency}
