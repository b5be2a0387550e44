"""Form of a planted fault: a place in the product, the mistake that is made there, and the tests that must fail."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """Mistake that is planted in one file of the product."""

    name: str
    """Short name, the same as long as the fault stays the same one."""
    file: str
    """Path of the file below the checkout."""
    before: str
    """Text that is there exactly once."""
    after: str
    """Text in its place, with the mistake; empty: the text is left out."""
    tests: tuple[str, ...]
    """Selectors of pytest, files or node ids; at least one of their tests must fail."""
