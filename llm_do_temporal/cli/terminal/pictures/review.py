"""Picture of a review on the terminal: counts, the tree of changes, and their lines.

Pure. Names and lines are a model's: hidden characters are written out, and each line of a file stands behind an indent
and its sign, so that none can pass for a heading or a prompt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from rich.text import Text

from llm_do_temporal.cli.terminal.pictures.text_lines import indented, wrapped
from llm_do_temporal.cli.text import name_line, visible_block, visible_line, visible_source
from llm_do_temporal.client.reviews.choice import ReviewChoice
from llm_do_temporal.client.reviews.desk import ChangeOrigin
from llm_do_temporal.client.reviews.review import Preview, Review, ReviewChange, ReviewFolder, ShownDiff
from llm_do_temporal.messages.approvals import DecisionKind
from llm_do_temporal.messages.reviews import ChangeCounts, CheckResult
from llm_do_temporal.policy.layers.answer import ReviewAnswer
from llm_do_temporal.policy.layers.changes import LayerChangeKind, Section
from llm_do_temporal.policy.layers.layer import LayerNode, NodeKind
from llm_do_temporal.policy.layers.patch import Hunk
from llm_do_temporal.policy.layers.paths import name_of
from llm_do_temporal.redaction.configured_keys import remove_keys
from llm_do_temporal.redaction.hidden_characters import shown_name

HUNK_DIGITS = 8
"""Beginning of a hunk's id that is shown: enough to name it by."""
SECTIONS = {
    Section.ORDINARY: "ordinary files",
    Section.WORKERS: "new workers",
    Section.DEFINITIONS: "definitions: whoever writes them can give a worker power",
    Section.AUTOMATION: "files that version control, servers or editors run by themselves",
    Section.LINKS_OUT: "links that lead out of the workshop",
}
"""Sections in words."""
_SIGNS = {
    LayerChangeKind.ADDED: ("+", "green"),
    LayerChangeKind.MODIFIED: ("~", "yellow"),
    LayerChangeKind.MODE: ("%", "yellow"),
    LayerChangeKind.DELETED: ("-", "red"),
    LayerChangeKind.RENAMED: (">", "cyan"),
}
_LINE_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_NAME_CHARS = 200
_SHOWN_OUTPUT_LINES = 10
_INDENT = 4
_Shown = Callable[[str], str]
"""Returns a path as people are shown it."""
_NO_END = "\\ No newline at end of file"


def overview_lines(review: Review, width: int, most: int | None = None) -> list[Text]:
    """Return the head of a review and its tree, at most `most` lines; None: all of it."""
    lines = head_lines(review, width)
    room = None if most is None else max(most - len(lines), 3)
    return [*lines, *tree_lines(review, width, room)]


def head_lines(review: Review, width: int) -> list[Text]:
    """Return the lines about the review as a whole."""
    question, shown = review.question, review.shown
    title = f"review {shown.number} of run {visible_line(question.run, 80)}, {question.id}: {SECTIONS[review.section]}"
    lines = wrapped(Text(title, style="bold"), width)
    lines += wrapped(Text(f"  {counts_words(shown.section.counts)}"), width)
    if shown.branch:
        lines += wrapped(Text(f"  goes to the git branch {visible_line(shown.branch, _NAME_CHARS)}"), width)
    if question.request.reason:
        lines += indented(Text(visible_line(question.request.reason), style="yellow"), width, 2)
    lines += [line for text in _answer_words(review) for line in wrapped(Text(f"  {text}", style="yellow"), width)]
    if review.conflicts:
        count = len(review.conflicts)
        words = f"{count:,} {'path was' if count == 1 else 'paths were'} changed by somebody else meanwhile"
        lines += wrapped(Text(f"  {words}; they are accepted only by name", style="red"), width)
    if moved := sum(bool(change.moved) for change in review.changes):
        words = f"{moved:,} {'path has' if moved == 1 else 'paths have'} changed since this was asked"
        lines += wrapped(Text(f"  {words}: whoever accepts anything is asked again", style="red"), width)
    return [*lines, *check_lines(shown.check, width)]


def _answer_words(review: Review) -> list[str]:
    """Return the line about the answer that was given, or about a choice that people have made before."""
    verdict, answer = review.question.verdict, review.answer
    if verdict is None and answer == ReviewAnswer(changes=answer.changes):
        return []
    if verdict is None:
        return [f"as it is asked now, approving {_answer_choice(review, answer)}"]
    by = visible_line(verdict.by or "somebody", 80)
    if verdict.decision is DecisionKind.REJECT:
        return [f"rejected by {by}: {visible_line(verdict.note, 300)}" if verdict.note else f"rejected by {by}"]
    return [f"answered by {by}: it {_answer_choice(review, answer)}"]


def _answer_choice(review: Review, answer: ReviewAnswer) -> str:
    return choice_words(ReviewChoice.of(review, answer).with_taken_along())


def counts_words(counts: ChangeCounts) -> str:
    """Return the number of changes of each kind in words."""
    named = {
        "added": counts.added,
        "modified": counts.modified,
        "deleted": counts.deleted,
        "renamed": counts.renamed,
        "with other permissions": counts.mode,
    }
    kinds = ", ".join(f"{count:,} {name}" for name, count in named.items() if count)
    return f"{counts.total:,} {'change' if counts.total == 1 else 'changes'}: {kinds or 'none'}"


def choice_words(choice: ReviewChoice) -> str:
    """Return in words and numbers what an answer accepts; it follows on "this answer"."""
    states = Counter(choice.state(change) for change in choice.review.changes)
    parts = [f"accepts {states['accepted']:,} of {len(choice.review.changes):,} changes"]
    parts += [f"{states['in part']:,} in part"] if states["in part"] else []
    parts += [f"{states['edited']:,} as edited"] if states["edited"] else []
    left = states["not accepted"]
    stays = "stay in the layer" if choice.rest == "keep" else "go back to what they were"
    words = ", ".join(parts)
    words += f"; {left:,} not accepted, which {stays}" if left else ""
    remarks = len(choice.comments)
    return words + (f"; {remarks:,} {'remark' if remarks == 1 else 'remarks'}" if remarks else "")


def origin_lines(origin: ChangeOrigin) -> list[str]:
    """Return the words of the model in the turn that made a change; hidden characters are not written out yet."""
    if not origin.turn:
        return [f"{origin.invocation}: changed by a person"]
    place = f"{origin.invocation}, turn {origin.turn}"
    if not origin.words:
        return [f"{place}: the model wrote no words"]
    before = (
        ""
        if origin.words_turn == origin.turn
        else f" (it wrote none in that turn; these are of turn {origin.words_turn})"
    )
    return [f"{place}{before}:", *(f"  | {line}" for line in remove_keys(origin.words).split("\n"))]


def check_lines(check: CheckResult | None, width: int) -> list[Text]:
    """Return the lines about the outcome of the check; of one that failed, with the end of its output."""
    if check is None:
        return []
    command = visible_line(check.command, _NAME_CHARS)
    if check.passed:
        return wrapped(Text(f"  check passed: {command}", style="green"), width)
    code = "" if check.exit_code is None else f" with exit code {check.exit_code}"
    why = f" ({visible_line(check.problem, 300)})" if check.problem else ""
    lines = wrapped(Text(f"  check failed{code}: {command}{why}", style="red"), width)
    output = visible_block(remove_keys(check.output)).splitlines()[-_SHOWN_OUTPUT_LINES:]
    return [*lines, *indented(Text("\n".join(f"| {line}" for line in output)), width, _INDENT)] if output else lines


def tree_lines(review: Review, width: int, most: int | None = None) -> list[Text]:
    """Return the tree of changes, at most `most` lines; None: all of it."""
    rows = list(review.tree().rows())
    cut = rows if most is None or len(rows) <= most else rows[: most - 1]
    names = "\n".join([*review.layer.changes, *(one.now.target for one in review.layer.changes.values() if one.now)])
    # Looking for keys takes longer than all else; it is done name by name only where there is one.
    shown = name_line if remove_keys(names) != names else shown_name
    lines: list[Text] = []
    parents = [""]
    for depth, row in cut:
        del parents[depth + 1 :]
        lines.append(_row(row, parents[-1], min(depth, width // 4), width, shown))
        if isinstance(row, ReviewFolder):
            parents.append(row.path)
    left = sum(isinstance(row, ReviewChange) for _, row in rows[len(cut) :])
    return [*lines, Text(f"  … {left:,} more", style="italic cyan")] if left else lines


def change_lines(change: ReviewChange, diff: ShownDiff, width: int) -> list[Text]:
    """Return a change with all its lines."""
    return [*change_head(change, diff, width), *(line for hunk in diff.hunks for line in hunk_lines(hunk, diff, width))]


def change_head(change: ReviewChange, diff: ShownDiff, width: int) -> list[Text]:
    """Return the lines above those of a file: the paths whole, the kind, who made the change, conflicts."""
    sign, style = _SIGNS[change.change.kind]
    old = change.change.old_path
    paths = f"{name_line(old)} → {name_line(change.path)}" if old is not None else name_line(change.path)
    lines = wrapped(Text(f"{sign} {paths}", style=f"bold {style}"), width)
    facts = [change.change.kind.value, *_facts(change)]
    facts += [f"+{diff.added:,} -{diff.removed:,} lines"] if diff.hunks else []
    facts += [diff.media_type] if diff.preview in (Preview.IMAGE, Preview.PDF) else []
    facts.append(f"by {visible_line(change.author, _NAME_CHARS)}")
    lines += indented(Text(", ".join(facts), style="dim"), width, 2)
    if change.conflict:
        lines += indented(Text(f"conflict: {visible_line(change.conflict, 300)}", style="red"), width, 2)
    if change.moved:
        lines += indented(Text(f"changed since it was asked: {change.moved}", style="red"), width, 2)
    if diff.problem:
        lines += indented(
            Text(f"{'not all is' if diff.hunks else 'not'} shown: {visible_line(diff.problem, 300)}", style="yellow"),
            width,
            2,
        )
    return lines


def hunk_lines(hunk: Hunk, diff: ShownDiff, width: int) -> list[Text]:
    """Return the lines of a hunk, its first with the id where it can be accepted by itself."""
    place = f"@@ -{hunk.old_start + 1},{hunk.old_lines} +{hunk.new_start + 1},{hunk.new_lines} @@"
    named = f"{place} {hunk.id[:HUNK_DIGITS]}" if diff.is_divisible else place
    lines = [Text(f"  {named}", style="cyan")]
    text = "".join(hunk.lines)
    has_keys = remove_keys(text) != text
    for line in hunk.lines:
        lines += _line(remove_keys(line) if has_keys else line, width)
    return lines


def _line(line: str, width: int) -> Iterator[Text]:
    text = visible_source(line.removesuffix("\n"))
    yield from indented(Text(text, style=_LINE_STYLES.get(line[0], "")), width, _INDENT)
    if not line.endswith("\n"):
        yield from indented(Text(_NO_END, style="dim"), width, _INDENT)


def _row(row: ReviewFolder | ReviewChange, parent: str, depth: int, width: int, shown: _Shown) -> Text:
    margin = "  " * (depth + 1)
    if isinstance(row, ReviewFolder):
        line = Text(f"{margin}{shown(row.path[len(parent) + 1 :] if parent else row.path)}/", style="bold")
    else:
        sign, style = _SIGNS[row.change.kind]
        old = "" if row.change.old_path is None else f" (was {shown(row.change.old_path)})"
        line = Text(f"{margin}{sign} {shown(name_of(row.path))}", style=style)
        line.append(old).append(f"  {', '.join(_facts(row, shown))}", style="dim")
        if row.conflict:
            line.append("  conflict", style="red")
        if row.moved:
            line.append("  changed since", style="red")
    line.truncate(max(width, 1), overflow="ellipsis")
    return line


def _facts(change: ReviewChange, shown: _Shown = name_line) -> list[str]:
    """Return sizes, permissions and targets, as far as the change is about them."""
    base, now = change.change.base, change.change.now
    if base is not None and now is not None and base.kind is not now.kind:
        return [f"{_kind(base, shown)} → {_kind(now, shown)}"]
    one = now or base
    if one is None:
        return []
    facts = [f"{base.mode:o} → {now.mode:o}"] if base is not None and now is not None and base.mode != now.mode else []
    if one.kind is NodeKind.LINK:
        return [*facts, f"link to {shown(one.target)}"]
    if one.kind is NodeKind.FOLDER:
        return [*facts, "folder"]
    if base is not None and now is not None and base.bytes != now.bytes:
        return [*facts, f"{base.bytes:,} → {now.bytes:,} bytes"]
    new_program = ["program"] if base is None and one.mode & 0o111 else []
    return [*facts, *new_program, f"{one.bytes:,} bytes"]


def _kind(node: LayerNode, shown: _Shown) -> str:
    return f"link to {shown(node.target)}" if node.kind is NodeKind.LINK else node.kind.value
