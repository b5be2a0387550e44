"""Sight of a person at a browser: the parts of calls that stand on the screen, line by line, and those that do not."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import Page

ALONE = -1
"""Number of the row of a question that has a page of its own."""

_READ = """() => {
  const rows = [...document.querySelectorAll("tbody tr[data-item]")];
  const bar = document.querySelector(".bar, .decide-many")?.getBoundingClientRect();
  // While it sticks to the bottom of the screen, lines are below it.
  const bottom = bar !== undefined && bar.bottom >= innerHeight - 1 ? bar.top : innerHeight;
  const linesOf = (element) => {
    const found = [];
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      if (node.parentElement.closest("h3, .sr, details.source, details.told, summary") !== null) continue;
      let at = 0;
      for (const line of node.data.split("\\n")) {
        const range = document.createRange();
        range.setStart(node, at);
        range.setEnd(node, at + line.length);
        at += line.length + 1;
        if (line.trim() === "") continue;
        const boxes = [...range.getClientRects()].filter((box) => box.width > 0);
        // The same line may stand on the other side, or nowhere until a part is unfolded.
        if (boxes.length === 0 && node.parentElement.closest("details:not([open])") === null) continue;
        const shown = boxes.length > 0 && boxes.every((box) => box.top >= 0 && box.bottom <= bottom + 1
          && box.left >= -1 && box.right <= innerWidth + 1);
        found.push([line.trim(), shown]);
      }
    }
    return found;
  };
  const told = [];
  for (const part of document.querySelectorAll(".call .part, .whole .part")) {
    const row = part.closest("tr.whole")?.previousElementSibling;
    const name = part.querySelector("h3").textContent.trim();
    told.push([row ? rows.indexOf(row) : -1, name, linesOf(part)]);
  }
  for (const cell of document.querySelectorAll("tbody td[data-name]")) {
    if (["Run", "Asked", "Worker"].includes(cell.dataset.name)) continue;
    told.push([rows.indexOf(cell.closest("tr")), cell.dataset.name, linesOf(cell)]);
  }
  for (const same of document.querySelectorAll("form dl.facts dd:has(code)")) {
    const name = same.firstChild.data.replace(/: *$/, "");
    const lines = linesOf(same.querySelector("code"));
    rows.forEach((_, row) => told.push([row, name, lines]));
  }
  return told;
}"""


@dataclass
class Sight:
    """Lines of calls that were on the screen since the page was opened."""

    lines: dict[tuple[int, str], dict[int, str]] = field(default_factory=lambda: defaultdict(dict))
    """Lines that were seen, by row and argument, each by its number."""
    unseen: int = 0
    """Number of lines that were on the screen at no time."""

    async def read(self, page: Page) -> None:
        """Read what the screen shows now."""
        told: list[tuple[int, str, list[tuple[str, bool]]]] = await page.evaluate(_READ)
        self.unseen = 0
        for row, name, lines in told:
            seen = self.lines[row, name]
            seen.update({number: text for number, (text, shown) in enumerate(lines) if shown})
            self.unseen += sum(number not in seen for number in range(len(lines)))

    def call(self, row: int = ALONE) -> dict[str, str]:
        """Return the arguments of a question as they were seen, by name."""
        return {
            name: "\n".join(text for _, text in sorted(seen.items()))
            for (at, name), seen in self.lines.items()
            if at == row
        }


async def page_facts(page: Page) -> dict[str, Any]:
    """Return the kind of a page, with the words by which a person finds the way."""
    return await page.evaluate(
        """() => ({
          title: document.querySelector("h1")?.textContent.trim() ?? "",
          path: location.pathname,
          rows: [...document.querySelectorAll("tbody tr[data-item]")].map((row) =>
            row.querySelector("a").textContent.trim().replace(/\\s+/g, " ")),
          equal: parseInt(document.querySelector('.bar [data-key="g"]')?.lastChild.data ?? "0"),
          cards: document.querySelectorAll("#waiting .card").length,
          folded: document.querySelectorAll("details[data-must-open]:not([open])").length,
        })"""
    )
