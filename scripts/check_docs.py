"""Holds the documentation to the project: links resolve, examples parse, commands exist.

Reads README.md, CHANGELOG.md, CONTRIBUTING.md, workers/README.md and everything in docs/. Run by `make check`, by CI
and before each commit; prints one line a violation and exits 1 when there is any. Pages and tables that scripts write
must be what they would write now, and modules that pages about the code name must exist.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import yaml

PROGRAM = "llm-do-temporal"
COMMANDS_MODULE = "llm_do_temporal.cli.app"
COMMANDS_PAGE = Path("docs/reference/command-line.md")
WRITTEN = {
    COMMANDS_PAGE: "pages/command_line",
    Path("docs/reference/errors.md"): "pages/errors",
    Path("docs/reference/python.md"): "pages/python",
    Path("docs/reference/wire.md"): "pages/wire",
    Path("llm_do_temporal/definitions/schemas/meanings.json"): "pages/key_meanings",
}
"""The pages, and a file that is made of pages, each written by a script of this folder; its `render` returns it."""
TABLES_SCRIPT = "pages/key_tables"
"""The script that writes the tables of keys inside of pages."""
CODE_PAGES = (
    "docs/architecture.md",
    "docs/where-to-change.md",
    "docs/glossary.md",
    "docs/decisions.md",
    "docs/decisions/*.md",
    "CONTRIBUTING.md",
)
"""The pages whose code spans that end in `.py` name modules of the project."""
CODE_FOLDERS = ("", "llm_do_temporal")
"""The folders that such a path may begin at."""
TEST = re.compile(r"^((?:tests/[\w/]+/)?(?:test|check)_\w+\.py)?(?:::(test_\w+))?$")
TEST_FOLDERS = ("", "tests/security/", "tests/security/extensions/*/", "tests/cluster/faults/")
"""The folders that the path of a test may begin at."""
CODE_PATH = re.compile(r"^([\w./-]+\.py)(?:::(\w+))?$")

FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+|~~~+)\s*(?P<language>[\w+-]*)")
CODE_SPAN = re.compile(r"(`+)(.+?)\1")
IMAGE = re.compile(r"!\[[^\]]*\]\(\s*<?([^\s)>]+)>?[^)]*\)")
LINK = re.compile(r"(?<!!)\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^\s)>]+)>?[^)]*\)")
REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:\s+<?([^\s>]+)>?")
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$")
ANCHOR = re.compile(r"<a\s+(?:id|name)=[\"']([^\"']+)[\"']")
SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)
COMMENT = re.compile(r"(?:^|\s)#.*$")
COMMAND = re.compile(rf"(?<![\w./-]){re.escape(PROGRAM)}[ \t]+([a-z][a-z0-9_-]*)(?![\w.=/-])")


@dataclass(frozen=True)
class Fault:
    """Something wrong in a file, and where."""

    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


@dataclass
class Block:
    """A fenced block: its language, the line its text starts at, and its text."""

    language: str
    line: int
    lines: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        """The block as a file would hold it."""
        return "\n".join(self.lines) + "\n"


@dataclass
class Page:
    """A Markdown file, split into prose (with its line numbers) and fenced blocks."""

    path: Path
    prose: list[tuple[int, str]]
    blocks: list[Block]


def load_page(path: Path) -> Page:
    """Read a file and split it."""
    page = Page(path, [], [])
    fence: re.Match[str] | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if fence is None:
            fence = FENCE.match(line)
            if fence is None:
                page.prose.append((number, line))
            else:
                page.blocks.append(Block(fence["language"].lower(), number + 1))
        elif line.strip().startswith(fence["fence"]) and not line.strip().strip(fence["fence"][0]):
            fence = None
        else:
            indent = len(fence["indent"])
            page.blocks[-1].lines.append(line[indent:] if not line[:indent].strip() else line)
    return page


def anchors_of(page: Page) -> set[str]:
    """The anchors GitHub gives a page: one for each heading, numbered where it repeats, and explicit ones."""
    anchors: set[str] = set()
    seen: dict[str, int] = {}
    for _, line in page.prose:
        anchors.update(ANCHOR.findall(line))
        if (heading := HEADING.match(line)) is not None:
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
            slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
            count = seen.get(slug, 0)
            seen[slug] = count + 1
            anchors.add(f"{slug}-{count}" if count else slug)
    return anchors


def check_links(page: Page, root: Path) -> Iterator[Fault]:
    """Follow every relative link, into the linked page where it names an anchor."""
    for number, line in page.prose:
        text = CODE_SPAN.sub("", line)
        for target in [*LINK.findall(text), *IMAGE.findall(text), *REFERENCE.findall(text)]:
            if not SCHEME.match(target) and (problem := _follow(page, target, root)):
                yield Fault(page.path, number, f'the link "{target}" {problem}')


def _follow(page: Page, target: str, root: Path) -> str | None:
    name, _, anchor = unquote(target).partition("#")
    if name.startswith("/"):
        return "is absolute; links are relative to the page"
    path = page.path.parent / name if name else page.path
    if not path.exists():
        return "leads nowhere"
    if not path.resolve().is_relative_to(root.resolve()):
        return "leaves the project"
    if anchor and path.suffix == ".md" and anchor not in anchors_of(load_page(path)):
        return f'names the anchor "{anchor}", which {path.name} does not have'
    return None


def check_yaml(page: Page) -> Iterator[Fault]:
    """Parse the blocks tagged `yaml`. A worker file's front matter may be followed by its instructions."""
    for block in page.blocks:
        if block.language == "yaml":
            lines = block.text.removeprefix("---\n").split("\n---\n", 1)[0]
            try:
                yaml.safe_load(lines)
            except yaml.YAMLError as error:
                yield Fault(page.path, block.line, f"the yaml block does not parse: {' '.join(str(error).split())}")


def check_python(page: Page) -> Iterator[Fault]:
    """Compile the blocks tagged `python`; `await` outside a function is allowed in them."""
    for block in page.blocks:
        if block.language == "python":
            try:
                compile(block.text, str(page.path), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            except SyntaxError as error:
                line = block.line + (error.lineno or 1) - 1
                yield Fault(page.path, line, f"the python block does not compile: {error.msg}")


def check_commands(page: Page, commands: Collection[str]) -> Iterator[Fault]:
    """Look up every subcommand that code spans and blocks give the program, comments in blocks apart."""
    code = [(number, span) for number, line in page.prose for _, span in CODE_SPAN.findall(line)]
    code += [(block.line + i, COMMENT.sub("", line)) for block in page.blocks for i, line in enumerate(block.lines)]
    for number, line in code:
        for name in COMMAND.findall(line):
            if name not in commands:
                known = ", ".join(sorted(commands))
                yield Fault(page.path, number, f'there is no command "{PROGRAM} {name}"; there are: {known}')


def check_code_paths(page: Page, root: Path) -> Iterator[Fault]:
    """Look up every `module.py`, and every `module.py::name`, that a code span of the pages about the code has."""
    if not any(page.path.relative_to(root).match(pages) for pages in CODE_PAGES):
        return
    for number, line in page.prose:
        for _, span in CODE_SPAN.findall(line):
            if (named := CODE_PATH.match(span)) is None:
                continue
            path = next(
                (root / above / named[1] for above in CODE_FOLDERS if (root / above / named[1]).is_file()), None
            )
            if path is None:
                yield Fault(page.path, number, f'there is no module "{named[1]}"')
            elif named[2] and named[2] not in _names_in(path):
                yield Fault(page.path, number, f'there is no "{named[2]}" in "{named[1]}"')


def check_test_names(page: Page, root: Path) -> Iterator[Fault]:
    """Look up the tests that the code spans of a page name, as `test_x.py::test_y`.

    A path begins at the project or at `tests/security/`; `::test_y` is of the module named before it in the line.
    """
    for number, line in page.prose:
        path: Path | None = None
        for _, span in CODE_SPAN.findall(line):
            if (named := TEST.match(span)) is None:
                continue
            if named[1]:
                path = next((file for above in TEST_FOLDERS for file in root.glob(f"{above}{named[1]}")), None)
            if path is None or (named[2] and named[2] not in _names_in(path)):
                yield Fault(page.path, number, f'there is no test "{span}"')


def _names_in(path: Path) -> set[str]:
    """Return what a module defines at its top: functions, classes and constants."""
    return set(re.findall(r"^(?:async def |def |class )?(\w+)", path.read_text(encoding="utf-8"), re.MULTILINE))


def check_tables(page: Page) -> Iterator[Fault]:
    """Hold the tables of keys to the models that read the keys; only pages that have some are given to the script."""
    text = page.path.read_text(encoding="utf-8")
    if "<!-- keys: " not in text:
        return
    script = _script(TABLES_SCRIPT)
    try:
        yield from _differences(page.path, text, script.render(text), TABLES_SCRIPT)
    except script.TableError as error:
        yield Fault(page.path, 1, str(error))


def check_written(root: Path, render: Callable[[str], str]) -> Iterator[Fault]:
    """Hold the pages that are written by scripts to what would be written now. `render` is given a script's name."""
    for page, script in WRITTEN.items():
        path = root / page
        if path.exists():
            yield from _differences(path, path.read_text(encoding="utf-8"), render(script), script)


def _differences(path: Path, text: str, wanted: str, script: str) -> Iterator[Fault]:
    """Yield a fault at the first line that differs."""
    pairs = zip_longest(text.split("\n"), wanted.split("\n"))
    line = next((number for number, (written, line) in enumerate(pairs, 1) if written != line), None)
    if line is not None:
        yield Fault(path, line, f"not what the program says now; write it anew with `python scripts/{script}.py`")


def load_commands() -> frozenset[str]:
    """The program's subcommands, from the program itself."""
    try:
        commands: Iterable[str] = importlib.import_module(COMMANDS_MODULE).COMMANDS
    except (ImportError, AttributeError) as error:
        raise SystemExit(f"check_docs: can't list the commands of {PROGRAM}: {error}") from error
    return frozenset(commands)


def render_written(script: str) -> str:
    """Return a page as its script would write it now."""
    render: Callable[[], str] = _script(script).render
    return render()


def _script(name: str) -> Any:
    """Return a module below this folder by its path without `.py`."""
    return importlib.import_module(f"scripts.{name.replace('/', '.')}")


def find_pages(root: Path) -> list[Path]:
    """The pages of the documentation."""
    front = [root / "README.md", root / "CHANGELOG.md", root / "CONTRIBUTING.md", root / "workers" / "README.md"]
    return [path for path in front if path.exists()] + sorted((root / "docs").rglob("*.md"))


def check_docs(
    root: Path,
    commands: Callable[[], Collection[str]],
    render: Callable[[str], str] = render_written,
) -> list[Fault]:
    """Run all checks. `commands` and `render` are asked only when there is a page to check."""
    pages = [load_page(path) for path in find_pages(root)]
    known = commands() if pages else ()
    faults: list[Fault] = []
    for page in pages:
        faults += [*check_links(page, root), *check_yaml(page), *check_python(page), *check_commands(page, known)]
        faults += [*check_code_paths(page, root), *check_test_names(page, root), *check_tables(page)]
    return [*faults, *check_written(root, render)]


def main(arguments: Sequence[str]) -> int:
    """Check the project in the folder named, or in the current one."""
    faults = check_docs(Path(arguments[0] if arguments else "."), load_commands)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
