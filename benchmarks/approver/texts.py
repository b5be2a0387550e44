"""Texts that the runs of the morning write, change and send."""

from __future__ import annotations

DECKS: dict[str, tuple[str, tuple[int, ...]]] = {
    "brightacre-scan": ("Brightacre", (7, 6, 8, 6, 7)),
    "frostlane": ("Frostlane", (5, 4, 6, 3, 4)),
    "kelpworks": ("Kelpworks", (8, 7, 6, 7, 6)),
    "mendly": ("Mendly", (6, 7, 7, 5, 6)),
    "vibeloop": ("VibeLoop", (2, 3, 1, 2, 2)),
}
"""Company and scores of each deck, by the name of its file."""

EVALUATION = """\
# $name

**Verdict: $verdict**, total $total of 50.

| criterion | score |
|---|---|
| team | $s0 |
| market | $s1 |
| product | $s2 |
| traction | $s3 |
| terms | $s4 |

## For

- The founders have built something like it before.
- Customers name the problem in their own words.

## Against

- Sales take three months and more.
- One customer is half of the revenue.

## Ask them

1. What did the last customer who left say?
2. Who sells when the founders do not?
"""

PAGES = {
    "index": "This is the handbook of release 2.3.",
    "install": "Install release 2.3 with `pip install northwind==2.3`.",
    "upgrade": "Whoever comes from 2.2 upgrades to 2.3 in one step.",
    "support": "Release 2.3 is supported until the next but one.",
    "api": "Paths of 2.3 begin with `/v2.3/`.",
    "faq": "Does 2.3 run on macOS? Yes.",
}
"""The line of each page of the handbook that names the release."""


def page_text(name: str) -> str:
    """Return a page of the handbook, of twenty lines or so."""
    before = f"# {name.capitalize()}\n\nRead this before you ask.\n\n"
    after = "".join(f"\n## Part {number}\n\nNothing has changed here for years.\n" for number in range(1, 5))
    return f"{before}{PAGES[name]}\n{after}"


MAIL = """\
Dear $customer team,

your invoice of October is attached. It is due within 14 days; the terms are those of your order.

Please write back if the number of seats is not what you expect.

Kind regards
Northwind
"""

CHECKER = '''\
"""Finds links in the handbook that lead nowhere."""

from __future__ import annotations

import re
import sys
from pathlib import Path

LINK = re.compile(r"\\[[^]]*\\]\\(([^)#]+)(#[^)]*)?\\)")


def broken_links(page: Path) -> list[str]:
    """Return the links of a page whose file is not there."""
    found = []
    for match in LINK.finditer(page.read_text(encoding="utf-8")):
        target = match[1]
        if "://" in target:
            continue
        if not (page.parent / target).exists():
            found.append(target)
    return found


def main() -> int:
    """Print each broken link with its page; 1 if there is one."""
    folder = Path(__file__).parent
    problems = 0
    for page in sorted(folder.glob("*.md")):
        for link in broken_links(page):
            print(f"{page.name}: {link}")
            problems += 1
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
'''
