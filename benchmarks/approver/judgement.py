"""Judgement of a call by the brief, from what was seen of it. Pure; knows no right answers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from benchmarks.approver.texts import DECKS

ENOUGH = 30
"""Points of 50 with which a verdict is `meet`."""
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Opinion:
    """Answer to a call: a reason rejects it, a word in place of another changes it, and neither approves it."""

    reason: str = ""
    argument: str = ""
    """Argument that is changed; empty: none."""
    old: str = ""
    new: str = ""


def opinion_on(summary: str, seen: dict[str, str]) -> Opinion:
    """Return what the brief says of a call with this summary, of which these arguments were seen."""
    command = seen.get("command", summary.removeprefix("shell "))
    if "rm -v" in summary or command.startswith("rm -v"):
        file = command.split("rm -v ")[-1].split()[0]
        return Opinion() if file.startswith(("tmp/", "build/")) else Opinion(f"Keep {file}: it is no build")
    if "total" in seen and "seats" in seen:
        seats, price, total = (int(_NUMBER.findall(seen[name])[0]) for name in ("seats", "price", "total"))
        return Opinion() if seats * price == total else Opinion(f"The total is {seats * price}")
    if "/evaluations/" in summary or "/evaluations/" in seen.get("path", ""):
        return _on_evaluation(seen.get("path", summary), seen["content"])
    if "body" in seen and (missing := re.search(r"\{\w+\}", seen["body"])) is not None:
        name = re.search(r"accounts@(\w+)\.", seen["to"])
        return Opinion("", "body", missing[0], name[1].capitalize()) if name else Opinion("Whom is it to?")
    return Opinion()


def _on_evaluation(path: str, content: str) -> Opinion:
    file = re.search(r"/evaluations/([\w-]+)\.md", path)
    name, _ = DECKS[file[1]] if file else ("", ())
    if name not in content:
        return Opinion(f"This is not about {name}")
    total = re.search(r"total (\d+) of 50", content)
    said = re.search(r"Verdict: (\w+)", content)
    if total is None or said is None:
        return Opinion("It has no total or no verdict")
    right = "meet" if int(total[1]) >= ENOUGH else "pass"
    return Opinion() if said[1] == right else Opinion("", "content", said[1], right)
