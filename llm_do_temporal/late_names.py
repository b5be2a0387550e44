"""Public names of a module that are loaded when they are first used, so that importing the module costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def late_names(module: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module; `homes` are the modules in which its late names live, by name."""

    def get(name: str) -> Any:
        """Return the public name. Raises AttributeError."""
        if name not in homes:
            raise AttributeError(f"module '{module}' has no attribute '{name}'")
        return getattr(import_module(homes[name]), name)

    return get
