"""The model of this workshop: scripts that play its workers by rules, from what the tools really return.

`offline:plays.py:examples` plays all of them. A request does not name its worker: the play follows from a phrase of the
worker's instructions, else from the tools and files of the request. `offline:plays.py:calculator` and the others play
one worker, whatever its instructions say.
"""

from __future__ import annotations

import ast
import re
import shlex
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import PurePosixPath
from typing import Any

from pitch_decks import evaluate_by_code, judge_evaluation, play_decks

from llm_do_temporal.offline.plain import NOT_A_MODEL, keep_notes
from llm_do_temporal.testing import PlaySteps, SeenRequest, ToolResult, call, play

LONGEST_READ = 200_000
_FOLDER = re.compile(r"(?<![\w./])/[\w/-]+")


def signed(steps: Callable[[SeenRequest], PlaySteps]) -> Callable[[SeenRequest], PlaySteps]:
    """Have the last words of a play say that they are no language model's; a structured answer stays as it is."""

    @wraps(steps)
    def with_signature(seen: SeenRequest) -> PlaySteps:
        words = yield from steps(seen)
        return f"{words}\n\n{NOT_A_MODEL}" if isinstance(words, str) else words

    return with_signature


def fields(result: ToolResult) -> Mapping[str, Any]:
    """Return the JSON object that a tool returned; an empty one for anything else."""
    return result.data if isinstance(result.data, dict) else {}


def whole_number(value: Any, otherwise: int) -> int:
    """Return `value` if it is a whole number that is not negative, else `otherwise`."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else otherwise


def line(text: str) -> str:
    """Return a text with single spaces in place of all white space."""
    return " ".join(text.split())


# calculator: finds the sum in the prompt, and has the tools do one operation after the other

MAX_SUM_CHARS = 200
"""Longest sum: people type shorter ones, and a longer one could nest deeper than can be followed."""
_SUM = re.compile(r"[\d.\s()+*/^-]+")
_SIGNS = str.maketrans({"×": "*", "·": "*", "÷": "/", ":": "/", "−": "-"})  # noqa: RUF001 - as people type them
_OPERATIONS = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide", ast.Pow: "power"}


class _NoResultError(Exception):
    """Failure of a tool to calculate; the message is the tool's."""


@play
@signed
def calculator(seen: SeenRequest) -> PlaySteps:
    """Calculate the longest sum in the prompt."""
    found = sum_in(seen.prompt)
    if found is None:
        return "I found nothing to calculate. I can do sums with + - * / ^ and parentheses, such as (3 + 4) * 2.5 ^ 2."
    text, tree = found
    done: list[str] = []
    try:
        value = yield from _value(tree, done)
    except _NoResultError as error:
        return f"There is no result: {error}"
    return "\n".join([f"{text} = {value:.10g}", *(f"- {step}" for step in done)])


def sum_in(prompt: str) -> tuple[str, ast.expr] | None:
    """Return the longest sum in a text, as text and as tree; None without any sum."""
    known = (ast.BinOp, ast.UnaryOp, ast.USub, ast.UAdd, *_OPERATIONS)
    for candidate in sorted(_SUM.findall(prompt.translate(_SIGNS)), key=len, reverse=True):
        text = line(candidate).rstrip(" .+*/^-").lstrip(" .*/^")
        try:
            tree = ast.parse(text.replace("^", "**"), mode="eval").body if len(text) <= MAX_SUM_CHARS else None
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        parts = list(ast.walk(tree)) if isinstance(tree, ast.BinOp) else []
        numbers = {part for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, int | float)}
        if parts and all(part in numbers or isinstance(part, known) for part in parts):
            return text, tree
    return None


def _value(node: ast.expr, done: list[str]) -> PlaySteps:
    if isinstance(node, ast.Constant):
        return float(node.value)
    if isinstance(node, ast.UnaryOp):
        value = yield from _value(node.operand, done)
        return -value if isinstance(node.op, ast.USub) else value
    first = yield from _value(node.left, done)
    second = yield from _value(node.right, done)
    tool = _OPERATIONS[type(node.op)]
    left, right = ("base", "exponent") if tool == "power" else ("a", "b")
    step = f"{tool}({first:.10g}, {second:.10g})"
    (result,) = yield [f"{step} …", call(tool, **{left: first, right: second})]
    if not result.ok or not isinstance(result.data, int | float):
        raise _NoResultError(f"{step}: {result.text}")
    done.append(f"{step} = {result.data:.10g}")
    return result.data


# code_analyzer: counts lines, definitions and open tasks; runs commands in backticks in the prompt, to try its rules on

MAX_FILES = 200
_COMMAND = re.compile(r"`([^`\n]+)`")
_COUNT = re.compile(r"^\s*(\d+) (.+)$")
_HISTORY = re.compile(r"\b(?:git|commits?|history|changed?)\b", re.IGNORECASE)


@play
@signed
def code_analyzer(seen: SeenRequest) -> PlaySteps:
    """Look at the Python files, run the commands of the prompt, and report."""
    (listing,) = yield ["Looking for Python files.", call("list_files", path="/", pattern="**/*.py")]
    paths = listing.files[:MAX_FILES]
    if not paths:
        return "There are no Python files here." if listing.ok else f"The files cannot be listed: {listing.text}"
    names = shlex.join(path.lstrip("/") for path in paths)
    looks = [
        f"wc -l -- {names}",
        f"grep -c -H -e '^ *def ' -e '^ *async def ' -e '^class ' -- {names}",
        f"grep -n -H -e TODO -e FIXME -- {names}",
        *(["git log --oneline -5"] if _HISTORY.search(seen.prompt) else []),
    ]
    sizes, definitions, tasks, *others = yield _running(looks)
    lines = {name: int(number) for number, name in filter(None, map(_counted, _output(sizes))) if name != "total"}
    if not sizes.ok:  # read-only files need a machine that can isolate commands
        reads = [call("read_file", path=path, max_chars=LONGEST_READ) for path in paths]
        texts = yield ["No command runs here, so I read the files.", *reads]
        contents = [str(fields(text).get("content", "")) for text in texts]
        lines = {path.lstrip("/"): content.count("\n") for path, content in zip(paths, contents, strict=True)}
    commands = _COMMAND.findall(seen.prompt)
    others += (yield _running(commands)) if commands else []
    return "\n".join([*_table(lines, definitions), "", *_tasks(tasks), *_outputs(others)])


def _running(commands: Sequence[str]) -> list[Any]:
    programs = ", ".join(dict.fromkeys(command.split()[0] for command in commands if command.split()))
    return [f"Running {programs}.", *(call("shell", command=command) for command in commands)]


def _output(result: ToolResult) -> list[str]:
    return str(fields(result).get("stdout", "")).splitlines() if result.ok else []


def _counted(text: str) -> tuple[str, str] | None:
    found = _COUNT.match(text)
    return found and (found[1], found[2])


def _table(lines: dict[str, int], definitions: ToolResult) -> list[str]:
    if not lines:
        return ["The lines could not be counted."]
    named = dict(one.rsplit(":", 1) for one in _output(definitions) if ":" in one)
    rows = [f"| {name} | {number} | {named.get(name, '?')} |" for name, number in lines.items()]
    largest = max(lines, key=lines.__getitem__)
    summary = f"{len(lines)} Python files with {sum(lines.values())} lines"
    summary += f"; the largest is {largest} with {lines[largest]}."
    return [summary, "", "| File | Lines | Functions and classes |", "|---|---|---|", *rows]


def _tasks(found: ToolResult) -> list[str]:
    if not found.ok:
        return [f"Open tasks could not be looked for: {found.text}"]
    lines = _output(found)
    return ["Open tasks:", *(f"- {one}" for one in lines)] if lines else ["No line says TODO or FIXME."]


def _outputs(results: Sequence[ToolResult]) -> Iterator[str]:
    for result in results:
        command = result.args.get("command")
        if not result.ok:
            yield from ("", f"`{command}` was not run: {result.rejection or result.text}")
            continue
        yield from ("", f"`{command}` ended with {fields(result).get('exit_code')}:", *_output(result))
        if fields(result).get("stderr"):
            yield str(fields(result)["stderr"]).strip()


# file_organizer: sorts files by their endings, one `mv` a file, and looks at the outcome

FOLDERS = {
    "documents": (".md", ".txt", ".pdf", ".doc", ".docx", ".odt", ".rtf"),
    "images": (".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".heic"),
    "data": (".csv", ".json", ".xlsx", ".xml", ".parquet", ".yaml", ".yml"),
}


@play
@signed
def file_organizer(seen: SeenRequest) -> PlaySteps:
    """Sort the folder that the prompt names, else the one of the instructions."""
    top = next(iter(_FOLDER.findall(f"{seen.prompt}\n{seen.instructions}")), "/").rstrip("/") or "/"
    (listing,) = yield [f"Looking into {top}.", call("list_files", path=top)]
    if not listing.ok:
        return f"{top} cannot be listed: {listing.text}"
    plan = {path: _folder_of(path) for path in listing.files if str(PurePosixPath(path).parent) == top}
    if not plan:
        return f"There is nothing to sort in {top}."
    folders = [f"{top.rstrip('/')}/{name}" for name in sorted(set(plan.values()))]
    proposal = ", ".join(f"{PurePosixPath(path).name} to {name}" for path, name in plan.items())
    (made,) = yield [f"My plan: {proposal}.", call("shell", command=shlex.join(["mkdir", "-p", *folders]))]
    if not made.ok or fields(made).get("exit_code") != 0:
        return f"The folders could not be made, so nothing was moved: {_why(made)}"
    moves = [shlex.join(["mv", "-n", path, f"{top.rstrip('/')}/{name}/"]) for path, name in plan.items()]
    results = yield [f"Moving {len(moves)} files.", *(call("shell", command=move) for move in moves)]
    (after,) = yield ["Looking at what lies where now.", call("list_files", path=top)]
    stayed = {path: result for path, result in zip(plan, results, strict=True) if path in after.files}
    rows = [f"| {PurePosixPath(path).name} | {name} |" for path, name in plan.items() if path not in stayed]
    lines = [f"Moved {len(rows)} of {len(plan)} files."]
    lines += ["", "| File | Folder |", "|---|---|", *rows] if rows else []
    lines += [""] if stayed else []
    return "\n".join([*lines, *(f"- {path} stayed where it was: {_why(result)}" for path, result in stayed.items())])


def _folder_of(path: str) -> str:
    suffix = PurePosixPath(path).suffix.lower()
    return next((name for name, suffixes in FOLDERS.items() if suffix in suffixes), "other")


def _why(command: ToolResult) -> str:
    reason = str(fields(command).get("stderr", "")) if command.ok else command.rejection or command.text
    return line(reason) or "something of that name is there already"


# api_renamer: replaces a word in all files, submits, and does again what a review rejects. A comment that has a text in
# backticks asks for that text in its line; a script understands no other

MOST_REVIEWS = 5
_TASK = re.compile(r"\brename\s+`?(\w+)`?\s+to\s+`?(\w+)`?", re.IGNORECASE)
_TESTS = re.compile(r"`(python3 [^`]+)`")
_REMARK = re.compile(r"^(?:\W*?)(/[^\s:]+):(\d+): .*?`([^`]+)`", re.MULTILINE)


@play
@signed
def api_renamer(seen: SeenRequest) -> PlaySteps:
    """Rename what the prompt says, below the folder that it names, else that of the instructions."""
    task = _TASK.search(seen.prompt)
    if task is None:
        return "Say what to rename, like: rename get_price to price_of."
    old, new = task.groups()
    top = next(iter(_FOLDER.findall(f"{seen.prompt}\n{seen.instructions}")), "/")
    (listing,) = yield [f"Looking into {top}.", call("list_files", path=top, pattern="**/*")]
    if not listing.files:
        return f"There are no files in {top}." if listing.ok else f"{top} cannot be listed: {listing.text}"
    word = re.compile(rf"\b{re.escape(old)}\b")
    files = yield from _read(listing.files, f"Looking for {old} in {len(listing.files)} files.")
    changed = {path: word.sub(new, text) for path, text in files.items() if word.search(text)}
    if not changed:
        return f"No file in {top} says {old}."
    failure = yield from _write(changed, f"{len(changed)} files say {old}; from now on they say {new}.")
    if failure:
        return failure
    tests = next(iter(_TESTS.findall(seen.instructions)), "")
    if tests and "shell" in seen.tools:
        (ran,) = yield ["Running the tests.", call("shell", command=tests)]
        if not ran.ok or fields(ran).get("exit_code") != 0:
            return f"The tests fail with the new name, so I stop here: {ran.text}"
    rejected = (yield from _submit(old, new)) if "submit_changes" in seen.tools else []
    return "\n".join([f"Renamed {old} to {new} in {len(changed)} files.", *rejected])


def _submit(old: str, new: str) -> PlaySteps:
    """Submit until nothing is asked for any more; return lines for the report about what was rejected."""
    told: list[str] = []
    words = f"{old} is {new} everywhere now. Please look."
    for _ in range(MOST_REVIEWS):
        (review,) = yield [words, call("submit_changes")]
        remarks: defaultdict[str, dict[int, str]] = defaultdict(dict)
        for path, number, wanted in _REMARK.findall(review.text):
            remarks[path][int(number)] = wanted
        if not remarks:
            whole = review.ok and review.text.startswith("Everything was accepted")
            return [*told, *([] if whole else ["", f"Not everything was accepted: {review.text}"])]
        told += [f"- {path}:{number} as asked: {text}" for path in remarks for number, text in remarks[path].items()]
        files = yield from _read(remarks, "Looking at the lines that were rejected.")
        again = {path: _with_lines(text, remarks[path]) for path, text in files.items()}
        if failure := (yield from _write(again, "Doing these lines again, as the comments say.")):
            return [*told, failure]
        words = f"{sum(map(len, remarks.values()))} lines are as the comments say. Please look again."
    return [*told, f"After {MOST_REVIEWS} reviews there are still comments, so I stop."]


def _read(paths: Iterable[str], words: str) -> PlaySteps:
    """Read files, and return their texts by path; those that are no text, or too long to read whole, are left out."""
    results = yield [words, *(call("read_file", path=path, max_chars=LONGEST_READ) for path in paths)]
    read = [(str(result.args["path"]), fields(result)) for result in results if result.ok]
    return {path: str(found["content"]) for path, found in read if not found.get("truncated")}


def _write(files: dict[str, str], words: str) -> PlaySteps:
    """Write files, and return a sentence about those that failed; empty if none did."""
    results = yield [words, *(call("write_file", path=path, content=text) for path, text in files.items())]
    failed = [result for result in results if not result.ok]
    return f"{len(failed)} files could not be written, so I stop: {failed[0].text}" if failed else ""


def _with_lines(text: str, wanted: Mapping[int, str]) -> str:
    """Return the text with these lines in the place of its own, as far indented as they are."""
    lines = text.splitlines()
    for number, new in wanted.items():
        if number <= len(lines):
            old = lines[number - 1]
            lines[number - 1] = old[: len(old) - len(old.lstrip())] + new.strip()
    return "".join(f"{one}\n" for one in lines)


# task_decomposer: divides a task where its words do (`book a hall and order food`), and has each part divided by itself

DEFAULT_LEVELS = 2
MAX_TASKS = 6
_BORDERS = (r"\s*;\s*|(?<=\w)\.\s+", r",?\s+then\s+", r"\s*,\s*", r"\s+and\s+")
"""Borders that divide a task, the strongest first."""
_LINKS = re.compile(r"^(?:(?:and|then|finally)\s+)+", re.IGNORECASE)


@play
@signed
def task_decomposer(seen: SeenRequest) -> PlaySteps:
    """Have the parts of the task divided, and put the outlines together."""
    task = line(str(seen.input.get("task") or seen.prompt))
    levels = whole_number(seen.input.get("levels"), DEFAULT_LEVELS)
    parts = parts_of(task) if levels else []
    outline = task
    if len(parts) > 1:
        calls = [call("task_decomposer", task=part, part_of=task, levels=levels - 1) for part in parts]
        results = yield [f"Dividing it into {len(parts)} parts.", *calls]
        texts = map(_outline, range(1, len(parts) + 1), parts, results)
        outline = "\n".join([task, *texts])
    # Only the whole outline is signed; in a part that would stand between the lines.
    return {"text": outline} if seen.input.get("part_of") else outline


def parts_of(task: str) -> list[str]:
    """Return the parts between the strongest borders; at most `MAX_TASKS`, the last of which holds the rest."""
    for border in _BORDERS:
        parts = [_LINKS.sub("", part).rstrip(" .") for part in re.split(border, task, maxsplit=MAX_TASKS - 1)]
        parts = [part for part in parts if part]
        if len(parts) > 1:
            return parts
    return []


def _outline(number: int, part: str, result: ToolResult) -> str:
    text = result.text if result.ok else f"{part} (not divided: {line(result.text)})"
    return f"{number}. {text.strip()}".replace("\n", "\n   ")


# summarizer: picks the sentences whose words a text uses most; it has the parts of a long text summarised by itself

MAX_STRETCHES = 4
SENTENCES, JOINED_SENTENCES = 2, 5
"""Sentences in the summary of a stretch that is read, and in that of several parts."""
DEFAULT_CHARS = 4_000
_SENTENCE = re.compile(r"[A-Z\"'(][^.!?]*[.!?]+(?=[\"')]*(?:\s|$))")
_WORD = re.compile(r"[a-z]{4,}")


@dataclass(frozen=True)
class Stretch:
    """Stretch of a text to be summarised, in characters; an `end` of None is the end of the text."""

    path: str
    start: int
    end: int | None
    at_once: int


@play
@signed
def summarizer(seen: SeenRequest) -> PlaySteps:
    """Read the stretch; if it is too long for one reading, divide it."""
    asked = Stretch(
        path=str(seen.input.get("path") or seen.prompt.strip() or "/"),
        start=whole_number(seen.input.get("start"), 0),
        end=whole_number(seen.input.get("end"), 0) or None,
        at_once=whole_number(seen.input.get("at_once"), 0) or DEFAULT_CHARS,
    )
    length = asked.at_once if asked.end is None else max(1, min(asked.at_once, asked.end - asked.start))
    (read,) = yield ["Calling read_file.", call("read_file", path=asked.path, offset=asked.start, max_chars=length)]
    if not read.ok:
        return f"{asked.path} could not be read: {read.text}"
    total = whole_number(fields(read).get("total_chars"), 0)
    stretch = replace(asked, end=min(total, asked.end or total))
    parts = divided(stretch)
    if len(parts) < 2:
        found = key_sentences(str(fields(read).get("content", "")), SENTENCES)
        summary = " ".join(found) or "(nothing to summarise)"
    else:
        calls = [call("summarizer", **vars(part)) for part in parts]
        results = yield [f"Dividing it into {len(parts)} parts.", *calls]
        summary = _joined(parts, results)
    # Only the summary of the whole is signed; in a part that would count as a sentence.
    return summary if (stretch.start, stretch.end) == (0, total) else {"text": summary}


def divided(stretch: Stretch) -> list[Stretch]:
    """Return two to four stretches of about the same length; the stretch itself if it can be read at once."""
    length = (stretch.end or stretch.start) - stretch.start
    number = min(MAX_STRETCHES, max(1, -(-length // stretch.at_once)))
    borders = [stretch.start + length * index // number for index in range(number + 1)]
    return [replace(stretch, start=borders[index], end=borders[index + 1]) for index in range(number)]


def key_sentences(text: str, limit: int) -> list[str]:
    """Return the `limit` sentences with the most frequent words, in the order of the text, without broken ones."""
    sentences = [line(found) for found in _SENTENCE.findall(text)]
    frequency = Counter(_WORD.findall(text.lower()))

    def weight(index: int) -> float:
        words = set(_WORD.findall(sentences[index].lower()))
        return sum(frequency[word] for word in words) / (len(words) + 3)

    best = sorted(range(len(sentences)), key=weight, reverse=True)[:limit]
    return [sentences[index] for index in sorted(best)]


def _joined(parts: list[Stretch], results: list[ToolResult]) -> str:
    texts = " ".join(result.text for result in results if result.ok)
    lines = [" ".join(key_sentences(texts, JOINED_SENTENCES))]
    lines += [
        f"(Characters {part.start} to {part.end} are missing: {result.text})"
        for part, result in zip(parts, results, strict=True)
        if not result.ok
    ]
    return "\n".join(lines)


# whiteboard_planner: makes a plan of the notes in a PNG's description, a `tEXt` chunk; a script sees no picture

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_HEAD = struct.Struct(">I4s")
_CHECKSUM_BYTES = 4
_SECTIONS = {"goal": "Goal", "todo": "Steps", "done": "Done", "open": "Open"}
"""Word before the colon of a note, and the section for that word; a note without such a word is a step."""


@play
@signed
def whiteboard_planner(seen: SeenRequest) -> PlaySteps:
    """Answer with a plan, or with the reason why there is none."""
    yield from ()
    picture = next((item for item in seen.attachments if item.media_type.startswith("image/")), None)
    if picture is None:
        return "There is no plan: no picture of a whiteboard is attached."
    notes = description(picture.data)
    if not notes:
        return f"There is no plan: {picture.identifier} has no description, and this script cannot see pictures."
    end = f"Planned from the description in {picture.identifier}, not from the picture."
    return "\n\n".join([*_sections(notes), end])


def description(data: bytes) -> str:
    """Return the text called `Description` of a PNG; empty if it has none, or if the bytes are no PNG."""
    texts = [text.partition(b"\0") for text in _texts(data)]
    return next((text.decode("latin-1") for name, _, text in texts if name == b"Description"), "")


def _texts(data: bytes) -> Iterator[bytes]:
    position = len(SIGNATURE) if data.startswith(SIGNATURE) else len(data)
    while position + _HEAD.size <= len(data):
        length, kind = _HEAD.unpack_from(data, position)
        position += _HEAD.size
        if kind == b"tEXt":
            yield data[position : position + length]
        position += length + _CHECKSUM_BYTES


def _sections(notes: str) -> Iterator[str]:
    found: dict[str, list[str]] = defaultdict(list)
    for text in filter(str.strip, notes.splitlines()):
        kind, _, note = text.partition(":")
        word = kind.strip().lower()
        found[word if word in _SECTIONS else "todo"].append((note if word in _SECTIONS else text).strip())
    for word, title in _SECTIONS.items():
        if found[word]:
            mark = "{}. " if word == "todo" else "- "
            lines = [mark.format(number) + note for number, note in enumerate(found[word], start=1)]
            yield "\n".join([f"## {title}", "", *lines])


# bootstrapper: chooses a trade, creates a worker of it, and calls that. It knows the trades below and no others. The
# worker inherits its model, and does what its instructions say


@dataclass(frozen=True)
class Trade:
    """Kind of work: the word that asks for it, the worker that does it, and the function that plays this worker."""

    word: str
    name: str
    description: str
    instructions: str
    work: Callable[[str], str]


_POINT = re.compile(r"[;\n]+|,\s*(?:and\s+)?|\.\s+|\s+and\s+")
TRADES = (
    Trade(
        word="summar",
        name="gist_writer",
        description="Says a text in one sentence.",
        instructions="You say in one sentence what the text that you are given is about. Add nothing to it.",
        work=lambda text: " ".join(key_sentences(text, 1)) or text,
    ),
    Trade(
        word="list",
        name="checklist_writer",
        description="Turns a text into a checklist.",
        instructions="You turn the text that you are given into a checklist: a line `- [ ] …` for each thing in it.",
        work=lambda text: "\n".join(f"- [ ] {one.strip(' .')}" for one in _POINT.split(text) if one.strip(" .")),
    ),
)


@play
@signed
def bootstrapper(seen: SeenRequest) -> PlaySteps:
    """Make the worker that the request needs, under a name that is free, and hand it the material."""
    if any(trade.instructions in seen.instructions for trade in TRADES):
        return do_trade(seen)
    trade = next((trade for trade in TRADES if trade.word in seen.prompt.lower()), TRADES[-1])
    for name in (trade.name, f"{trade.name}_2", f"{trade.name}_3"):
        told = {"name": name, "description": trade.description, "instructions": trade.instructions}
        (made,) = yield [f"Making {name}.", call("worker_create", **told)]
        if made.ok or "exists already" not in made.text:
            break
    if not made.ok:
        return f"No worker was made: {made.text}"
    name = str(fields(made).get("name") or made.args["name"])  # a person may have changed it
    material = re.split(r":\s", seen.prompt, maxsplit=1)[-1].strip()
    (done,) = yield [f"Handing it to {name}.", call("worker_call", worker_name=name, input_data=material)]
    if not done.ok:
        return f"{name} was made, and could not do it: {done.text}"
    return f"{done.text}\n\nDone by {name}, which was made for it."


def do_trade(seen: SeenRequest) -> Mapping[str, str]:
    """Do the work of a made worker, as its instructions say."""
    trade = next(trade for trade in TRADES if trade.instructions in seen.instructions)
    return {"text": trade.work(seen.prompt)}


PLAYS = {
    "You keep notes": signed(keep_notes),
    "You answer questions of arithmetic": calculator,
    "You analyze source code": code_analyzer,
    "You tidy a folder": file_organizer,
    "You rename a function": api_renamer,
    "You divide a task": task_decomposer,
    "You summarise a stretch": summarizer,
    "You turn the whiteboard": whiteboard_planner,
    "You make specialists": bootstrapper,
    "You judge evaluations of pitch decks": judge_evaluation,
    "You have pitch decks evaluated by code": signed(evaluate_by_code),
    **{trade.instructions: do_trade for trade in TRADES},
}
"""Plays, by a phrase that only the instructions of their workers have."""


@play
def examples(seen: SeenRequest) -> Any:
    """Answer as the worker whose request this is."""
    return next((one for phrase, one in PLAYS.items() if phrase in seen.instructions), play_decks)(seen)
