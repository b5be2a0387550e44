"""Starter workshops, as `init` writes them: they run at once, with no key and no server."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from llm_do_temporal.definitions.schemas.published import published_json, schema_kinds
from llm_do_temporal.errors import UsageError
from llm_do_temporal.workshop_search import WORKSHOP_FILE

WORKER = "notes"
_IGNORED = ".gitignore"
_FOR_WORKERS = "files/README.md"
_SCHEMAS = {f".schemas/{name}.json": name for name in dict.fromkeys(("workshop", *reversed(schema_kinds())))}
"""Schemas for editors that know YAML and not us; a repository keeps them, for no editor gets them elsewhere."""
_OPTIONAL = (_IGNORED, _FOR_WORKERS, *_SCHEMAS)
"""Files that stay as they are where they exist already."""
_FILES = {
    "workshop.yaml": """\
# A workshop: a folder with workers, their files, and what they may do. `llm-do-temporal check` finds mistakes.

model: offline:notes      # a script that ships with the package: no key needed. For a language model, write for
                          # example anthropic:claude-sonnet-5-5 here, and set ANTHROPIC_API_KEY before you start.

sandbox:
  root: files             # workers with `toolsets: {filesystem: {}}` reach the files below this folder, and no others;
                          # what defines them (this file, workers/, Python) lies apart from what they write

approvals:
  rules:                  # what is done without asking, after asking, or never
    sandbox.read: pre_approved
    sandbox.write: needs_approval
    worker.call: needs_approval

# limits: {cost: 1.00, time: 2h}     # for each run; a person is asked before more is spent
""",
    f"workers/{WORKER}.worker": """\
description: Keeps a list of notes.
toolsets:
  filesystem: {}          # tools for the files below `sandbox: root`; writing one asks a person, as workshop.yaml says
---
You keep notes in /notes.md.
Add what the person tells you as a new line, and keep the lines that are there.
Answer with the number of notes.
""",
    _FOR_WORKERS: """\
The files of the workers: this folder is `/` for them.
""",
    _IGNORED: """\
# State of the embedded server: runs, attachments, logs.
.llm-do/
__pycache__/
""",
}


_EXAMPLES = {
    "pitch-decks": {
        **{name: text for name, text in _FILES.items() if name in _OPTIONAL},
        "workshop.yaml": """\
# Pitch decks: pitch_orchestrator has each deck in files/pipeline evaluated by pitch_evaluator, and writes a page about
# each into files/evaluations. A person approves each page.
name: pitch-decks
model: offline:plays.py:decks    # a script that reads the PDFs and scores them by words. For a language model, write
                                 # anthropic:claude-sonnet-5-5, for example, and set ANTHROPIC_API_KEY before you start.
sandbox:
  root: files                    # apart from the files that define workers, which none of them may write
approvals:
  rules:
    worker.call: pre_approved    # evaluators only read one deck each; asking for each would teach people to click yes
    sandbox.write: needs_approval
""",
        "plays.py": '''\
"""The model of this workshop: a script that reads the PDFs and scores them by words. It is not a language model."""

import json
from pathlib import PurePosixPath

from llm_do_temporal.testing import PlaySteps, SeenRequest, call, play

WORDS = {
    "problem": "problem",
    "solution": "product",
    "market": "market",
    "business_model": "price",
    "traction": "customers",
    "team": "team",
    "financials_and_ask": "raising",
}
"""A word that a deck has on the page about each dimension."""


@play
def decks(seen: SeenRequest) -> PlaySteps:
    """Evaluate the deck that is attached; a worker with tools has every deck evaluated, and writes a page about it."""
    if not seen.tools:
        return evaluation(seen.pages)
    (listing,) = yield ["Looking for decks.", call("list_files", path="/pipeline", pattern="**/*.pdf")]
    paths = listing.files
    if not paths:
        return "There are no decks in /pipeline."
    calls = [call("pitch_evaluator", input="Evaluate the attached deck.", attachments=[path]) for path in paths]
    results = yield [f"Having {len(calls)} decks evaluated.", *calls]
    texts = {path: json.dumps(result.data, indent=2) for path, result in zip(paths, results) if result.ok}
    pages = {f"/evaluations/{PurePosixPath(path).stem}.md": f"# {path}\\n\\n{texts[path]}\\n" for path in texts}
    writes = [call("write_file", path=path, content=page) for path, page in pages.items()]
    written = (yield ["Writing a page about each.", *writes]) if writes else []
    return f"Evaluated {len(texts)} of {len(paths)} decks, wrote {sum(one.ok for one in written)} files."


def evaluation(pages: tuple[str, ...]) -> dict[str, object]:
    """Return the evaluation of a deck: 3 points where a page has the dimension's word, with that page; else 1."""
    scores = []
    for dimension, word in WORDS.items():
        page = next((number for number, text in enumerate(pages, start=1) if word in text.lower()), None)
        evidence = f'page {page}: "{word}"' if page else "The deck says nothing about it."
        scores.append({"dimension": dimension, "score": 3 if page else 1, "evidence": evidence})
    missing = [one["dimension"] for one in scores if one["score"] == 1]
    flags = [f"It says nothing about {', '.join(missing)}."] if missing else []
    verdict = "watch" if len(missing) < 3 else "pass"
    return {"summary": f"{len(pages)} pages.", "scores": scores, "verdict": verdict, "red_flags": flags}
''',
    }
}
"""Texts of the files of each example, by its name; the others are copied from its folder."""
EXAMPLES = tuple(_EXAMPLES)
EXAMPLE_FILES = (
    "pitch_orchestrator.worker",
    "pitch_evaluator.worker",
    "PROCEDURE.md",
    "schemas.py",
    "files/pipeline/brightacre-scan.pdf",
    "files/pipeline/frostlane.pdf",
    "files/pipeline/kelpworks.pdf",
    "files/pipeline/mendly.pdf",
    "files/pipeline/vibeloop.pdf",
)
"""Files of the example that are copied. The wheel has them, see pyproject.toml; a checkout has them in `workers/`."""
_PACKAGED = Path(__file__).parents[1] / "shipped" / "examples" / "pitch-decks"
_CHECKOUT = Path(__file__).parents[2] / "workers"


def starter_files(example: str | None = None) -> dict[str, bytes]:
    """Return the content of each file of the starter workshop, or of an example, by its name. Raises UsageError."""
    if example is None:
        return _with_schemas({name: text.encode() for name, text in _FILES.items()})
    texts = _EXAMPLES.get(example)
    if texts is None:
        raise UsageError(f"there is no example '{example[:80]}'; there is {', '.join(EXAMPLES)}")
    folder = _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT
    try:
        copied = {name: (folder / name).read_bytes() for name in EXAMPLE_FILES}
    except OSError as error:
        raise UsageError(
            f"the example '{example}' is not complete here: {error.filename}: {error.strerror}",
            next_step="Install the package again.",
        ) from error
    return _with_schemas({name: text.encode() for name, text in texts.items()} | copied)


def modeline(schema: str, *, above: str = "") -> str:
    """Return the line with which a YAML file tells editors its schema; `above` leads up to the workshop's folder."""
    return f"# yaml-language-server: $schema={above}.schemas/{schema}.json"


def _with_schemas(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the files with the schemas, and with the line that names its schema at the top of `workshop.yaml`."""
    schemas = {path: published_json(name).encode() for path, name in _SCHEMAS.items()}
    return {WORKSHOP_FILE: f"{modeline('workshop')}\n".encode() + files[WORKSHOP_FILE]} | {
        path: data for path, data in (files | schemas).items() if path != WORKSHOP_FILE
    }


def make_workshop(folder: Path, example: str | None = None) -> list[str]:
    """Write a workshop into a folder, which is made where it is missing; return the files that were written.

    `example` names one of EXAMPLES; None is the starter workshop. Raises UsageError, with nothing written, where a file
    of it exists already or cannot be written.
    """
    whole = starter_files(example)
    files = {name: data for name, data in whole.items() if name not in _OPTIONAL or not os.path.lexists(folder / name)}
    _check_no_link(folder, *(folder / name for name in files))
    taken = [name for name in files if os.path.lexists(folder / name)]
    if taken:
        raise UsageError(
            f"'{folder / taken[0]}' exists already; nothing is overwritten",
            next_step="Name a folder without a workshop: `llm-do-temporal init DIR`.",
        )
    made: list[Path] = []
    try:
        for name, data in files.items():
            _write(folder / name, data, made)
    except OSError as error:
        for path in reversed(made):
            path.rmdir() if path.is_dir() else path.unlink()
        raise UsageError(
            f"the workshop cannot be written into '{folder}': {error.strerror}",
            next_step="Name a folder that can be written: `llm-do-temporal init DIR`.",
        ) from error
    return list(files)


def _check_no_link(folder: Path, *files: Path) -> None:
    """Raise UsageError where a link stands in the place of the folder, or of a folder or a file in it.

    A file that is written through a link lands in a place that the link's author chose.
    """
    places = (folder, *(one for file in files for one in (file, *file.parents) if one.is_relative_to(folder)))
    link = next((one for one in places if one.is_symlink()), None)
    if link is not None:
        raise UsageError(
            f"'{link}' is a link, and `init` follows none",
            next_step="Take it away, or name a folder without links: `llm-do-temporal init DIR`.",
        )


def _write(path: Path, data: bytes, made: list[Path]) -> None:
    """Write a new file and the folders that it lacks; each is put into `made`."""
    for missing in reversed([one for one in path.parents if not one.exists()]):
        missing.mkdir()
        made.append(missing)
    # The folder is held, and no link to one: it may have been exchanged since it was looked at.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with open(path.name, "xb", opener=partial(os.open, mode=0o666, dir_fd=folder)) as file:
            made.append(path)
            file.write(data)
    finally:
        os.close(folder)
