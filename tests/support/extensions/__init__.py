"""Support for tests of capabilities that can be taken out: each has a folder here, as in the product."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from importlib.util import find_spec

from tests.support.doors.scenario import Door


def extension_doors() -> tuple[type[Door], ...]:
    """Return the doors of all capabilities that are installed: each has its own in `door.py`, as `DOORS`."""
    names = [module.name for module in pkgutil.iter_modules(__path__) if module.ispkg]
    return tuple(
        door
        for name in names
        if find_spec(f"{__name__}.{name}.door") is not None
        for door in import_module(f"{__name__}.{name}.door").DOORS
    )
