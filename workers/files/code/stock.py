"""What a small shop has on its shelves."""

from __future__ import annotations

from dataclasses import dataclass, field


class OutOfStock(Exception):
    """More was taken than there is."""


@dataclass
class Shelf:
    """Articles and how many of each there are."""

    counts: dict[str, int] = field(default_factory=dict)

    def put(self, article: str, count: int = 1) -> None:
        """Add articles to the shelf."""
        self.counts[article] = self.counts.get(article, 0) + count

    def take(self, article: str, count: int = 1) -> None:
        """Take articles off the shelf. Raises OutOfStock, and takes none, where there are too few."""
        there = self.counts.get(article, 0)
        if there < count:
            raise OutOfStock(f"{count} of '{article}' were asked for, there are {there}")
        self.counts[article] = there - count

    # TODO: say which articles are running low
