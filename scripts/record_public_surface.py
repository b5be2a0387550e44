"""Records what people and programs see of the product, so that two versions can be compared.

`python -m scripts.record_public_surface FOLDER` writes the help of all commands, the names of the modules that authors
import, the output and exit code of each command of COMMANDS, HTTP answers, and pages as a screen reader has them. Ids,
times, ports and folders are replaced by words, so that two recordings of one version are equal: compare them with
`diff -r -x pictures`. Pictures of the pages are for eyes; nothing in them is replaced. It takes some minutes.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
from cyclopts import App
from playwright.async_api import async_playwright

from llm_do_temporal.cli.app import app
from tests.support.people.chromium import launch
from tests.support.ports import unused_port

ROOT = Path(__file__).parents[1]
IMPORTED_MODULES = ("", ".tools", ".types", ".args", ".testing", ".errors", ".client")
PATIENCE_SECONDS = 60

COMMANDS = """
init shop
check
check --json
models
models --json
schema worker
schema workshop
schema eval
doctor --json
start notes 'buy bread' --id bread
start notes 'buy bread' --id json -o json
approvals
approvals --json
approvals bread
approve bread a9
approve bread a1 --note 'good'
watch bread
show bread
show bread --json
result bread
result bread --json
reject json a1 --reason 'not now'
watch json -o json
show json
logs bread
logs bread --json
export bread
export bread --format json
diff bread json
diff bread json --json
start notes 'buy milk' --id milk
modify milk a1 --args '{"path": "/notes.md", "content": "- milk\\n"}'
watch milk
fork milk --at main@2 --id milk-2
watch milk-2 -o json
start notes 'buy tea' --id tea --review
review tea
review tea --json
review tea --diff
review tea --why
review tea --all
watch tea
start notes 'buy all' --id all --approve-all -o jsonl
start notes 'buy none' --id none --strict -o json
start notes --each 'files/*.md' --id many --approve-all -o json
show many
show many --json
export many --format csv
start --retry-failed many
start nobody 'x' --id x
start notes --each 'nothing/*.pdf'
start notes 'x' -a missing.pdf
start notes 'wait' --id wait
cancel wait
watch wait
cancel wait
grants bread
grants bread --json
revoke bread g1
undo bread a1
rules
rules --json
rules suggest
rules suggest --json
rules test
list
list --json
eval list
eval list --json
eval show nothing
schedule
schedule create daily notes 'buy bread' --cron '0 7 * * *'
schedule show daily
schedule show daily --json
schedule resume daily
schedule pause daily
schedule delete daily
schedule --json
token
token create ci --scopes start,read
token --json
token revoke ci
delete wait
show wait
show nobody
approve nobody
gc
migrate-check
import nothing shop-2
certify notes 'buy bread' --every 100
completion bash
worker --nonsense
nonsense
"""
"""Commands, one a line, as somebody types them in a workshop that `init` made."""

ROUTES = """
GET /api/v1/runs
GET /api/v1/runs/bread
GET /api/v1/runs/bread/questions
GET /api/v1/runs/bread/tree
GET /api/v1/runs/bread/transcript
GET /api/v1/runs/bread/files
GET /api/v1/runs/tea/reviews
GET /api/v1/runs/many/items
GET /api/v1/runs/many
GET /api/v1/runs/nobody
GET /api/v1/questions
GET /api/v1/experiments
GET /api/v1/workers
GET /api/v1/openapi.json
GET /api/v1/evaluations
GET /api/v1/nothing
POST /api/v1/runs {"worker": "notes", "prompt": "buy bread"}
POST /api/v1/runs {"worker": "nobody"}
POST /api/v1/runs {"worker
POST /api/v1/runs/bread/cancel {}
"""
"""Requests, one a line: method, path, body. Some are wrong on purpose."""
PAGES = """
/
/runs
/runs/bread
/runs/milk
/runs/milk-2
/runs/tea
/runs/many
/runs/bread/diff/json
/runs/bread/grants
/rules
/schedules
/evaluations
/start
/nothing
"""
"""Paths of pages; the last one does not exist."""

_REPLACEMENTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]"), ""),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b\d\d?:\d\d:\d\d(\.\d+)?( [AP]M)?\b"), "<time>"),
    (re.compile(r"\b\d+:\d\d\b"), "<time>"),
    (re.compile(r"\b(\d{4}-\d\d-\d\d|[A-Z][a-z]{2} \d\d?, \d{4})\b"), "<day>"),
    (re.compile(r",\d+\.\d{3},"), ",<seconds>,"),
    (re.compile(r'(?<=row "seconds )[\d. ]+|(?<=cell ")\d+\.\d(?=")'), "<n>"),
    (re.compile(r"\b[0-9a-f]{32,64}\b"), "<digest>"),
    (re.compile(r"(notes)-[0-9a-f]{8}\b"), r"\1-<id>"),
    (re.compile(r"(127\.0\.0\.1|localhost):\d+"), r"\1:<port>"),
    (re.compile(r"lldt_[A-Za-z0-9_-]+|(?<=token=)[A-Za-z0-9_-]+"), "<token>"),
    (re.compile(r"\b\d+(\.\d+)? ?(ms|s|min|seconds?|minutes?)\b"), "<n> s"),
    (re.compile(r'("(?:seconds|duration\w*|\w*_seconds|pid|port|process)": )[\d.]+'), r"\1<n>"),
    (re.compile(r"\bjust now\b|<n> s ago|\b\d+[mh] ago"), "<ago>"),
    (re.compile(r"(from|to)=[\d.]+"), r"\1=<n>"),
    (re.compile(r"\b[\d.]+ a minute"), "<n> a minute"),
    (re.compile(r"(?m)^starting the workshop's own Temporal server and worker service …\n"), ""),
    (re.compile(r" --address 127\.0\.0\.1:<port>"), ""),
    (re.compile(r"(?<=\S) {2,}"), "  "),
)
"""Patterns of what differs between two recordings of one version, with what replaces it: ids, times, ports, widths of
columns that hold them, and words that depend on whether a server runs already, and at which port."""


def plain(text: str, folder: Path) -> str:
    """Replace what differs between two recordings of one version."""
    text = text.replace(str(folder), "<folder>").replace(str(ROOT), "<root>")
    for pattern, word in _REPLACEMENTS:
        text = pattern.sub(word, text)
    return text


def helps(command: App, words: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Yield the words of each command and its help."""
    done = subprocess.run(
        [*_program(), *words, "--help"], capture_output=True, text=True, check=True, env=_environment()
    )
    yield " ".join(words) or "program", done.stdout
    for name in command:
        if not name.startswith("-"):
            yield from helps(command[name], (*words, name))


def public_names() -> Iterator[tuple[str, str]]:
    """Yield each public module and its names with signatures."""
    for suffix in IMPORTED_MODULES:
        module = importlib.import_module(f"llm_do_temporal{suffix}")
        names = getattr(module, "__all__", None) or [
            name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__
        ]
        lines = (f"{name}{_signature(getattr(module, name))}\n" for name in sorted(names) if not name.startswith("_"))
        yield module.__name__, "".join(lines)


def _signature(value: object) -> str:
    if not callable(value):
        return f": {type(value).__name__}"
    try:
        return re.sub(r" at 0x[0-9a-f]+", "", str(inspect.signature(value)))
    except ValueError:
        return "(…)"


def outputs(folder: Path) -> Iterator[tuple[str, str]]:
    """Run the commands; yield each with its exit code and what it printed."""
    for number, line in enumerate(COMMANDS.strip().splitlines()):
        done = _run(shlex.split(line), folder if line.startswith("init") else folder / "shop")
        print(f"  {line}: {done.returncode}", file=sys.stderr)
        told = f"$ {line}\n== exit {done.returncode}\n== stdout\n{done.stdout}\n== stderr\n{done.stderr}"
        yield f"{number:02} {re.sub(r'[^a-z0-9 -]', '', line)[:50].strip()}", plain(told, folder)


def _run(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; one that goes on for ever is stopped, and has the exit code 124."""
    command = ["timeout", "--signal=INT", str(PATIENCE_SECONDS), *_program(), *words]
    return subprocess.run(
        command,
        cwd=folder,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@contextmanager
def served(folder: Path) -> Generator[str]:
    """Serve the page and the HTTP door of the workshop; yield the link that signs a person in."""
    with subprocess.Popen(
        [*_program(), "ui", "--port", str(unused_port())],
        cwd=folder / "shop",
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield next(found[0] for line in process.stdout if (found := re.search(r"http://\S+token=\S+", line)))
        finally:
            process.terminate()


def answers(folder: Path, address: str) -> Iterator[tuple[str, str]]:
    """Send the requests with the token of a person; yield each with status, kind and text of its answer."""
    created = _run(shlex.split("token create ada --person --scopes start,read,decide"), folder / "shop")
    token = created.stdout.strip().splitlines()[-1]
    with httpx.Client(
        base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_SECONDS
    ) as client:
        for number, line in enumerate(ROUTES.strip().splitlines()):
            method, path, *body = line.split(maxsplit=2)
            got = client.request(method, path, content=body[0] if body else None, headers=_JSON if body else {})
            text = (
                json.dumps(got.json(), indent=1, sort_keys=True) if "json" in got.headers["content-type"] else got.text
            )
            name = re.sub(r"[^a-zA-Z0-9 -]", "-", f"{method} {path.removeprefix('/api/v1/')}")
            yield (
                f"{number:02} {name}",
                plain(f"{line}\n{got.status_code} {got.headers['content-type']}\n{text}\n", folder),
            )


async def pages(folder: Path, link: str, pictures: Path) -> list[tuple[str, str]]:
    """Open the pages in a browser; return each as a screen reader has it, and keep a picture."""
    found: list[tuple[str, str]] = []
    async with async_playwright() as playwright:
        browser = await launch(playwright)
        page = await browser.new_page()
        await page.goto(link)
        for number, path in enumerate(PAGES.split()):
            name = f"{number:02} {path.strip('/').replace('/', '-') or 'inbox'}"
            await page.goto(_origin(link) + path)
            await page.screenshot(path=pictures / f"{name}.png", full_page=True)
            found.append((name, plain(await page.locator("body").aria_snapshot() + "\n", folder)))
        await browser.close()
    return found


_JSON = {"Content-Type": "application/json"}


def _origin(link: str) -> str:
    return str(httpx.URL(link).join("/")).rstrip("/")


def _program() -> list[str]:
    return [str(Path(sys.executable).with_name("llm-do-temporal"))]


def _environment() -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LLM_DO_", "TEMPORAL_"))}
    return {**kept, "COLUMNS": "100", "NO_COLOR": "1", "USER": "ada", "TZ": "UTC"}


def write(folder: Path, found: Iterable[tuple[str, str]]) -> None:
    """Write texts by name."""
    folder.mkdir(parents=True)
    for name, text in found:
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")


def main() -> None:
    """Write everything below the folder that is named, which must not exist."""
    target = Path(sys.argv[1])
    write(target / "help", helps(app))
    write(target / "imports", public_names())
    with TemporaryDirectory() as name:
        folder = Path(name)
        try:
            write(target / "commands", outputs(folder))
            with served(folder) as link:
                write(target / "http", answers(folder, _origin(link)))
                (target / "pictures").mkdir()
                write(target / "pages", asyncio.run(pages(folder, link, target / "pictures")))
        finally:
            subprocess.run(["pkill", "-f", str(folder)], check=False)


if __name__ == "__main__":
    main()
