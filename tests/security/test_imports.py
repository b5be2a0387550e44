"""Python of a workshop runs from text that no worker can write, and not before the call that needs it was allowed."""

from __future__ import annotations

import contextlib
import importlib
import os
import py_compile
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llm_do_temporal.definitions.check import check_workshop
from llm_do_temporal.definitions.protection import protection_of
from llm_do_temporal.definitions.registry.registry import Registry, draft_worker
from llm_do_temporal.definitions.workshop import load_workshop
from llm_do_temporal.errors import LlmDoError
from llm_do_temporal.messages.activities import DraftWorkerInput
from llm_do_temporal.testing import ScriptedModel, call, scripted
from tests.support.runs.place import Place
from tests.support.workshops.folders import Folder, has_run

CLASSES = (
    "from pydantic import BaseModel\nclass Out(BaseModel):\n    x: int\n"
    "class Tools:\n    def get_tools(self): ...\n    def call_tool(self): ...\n"
    "def slugify(text: str) -> str:\n    'Slug.'\n    return text\n"
)
Plant = Callable[[Folder, str], None]


pytestmark = pytest.mark.usefixtures("forgotten")


def evil(ran: Path) -> str:
    return f"open({str(ran)!r}, 'a').write('ran')\n{CLASSES}"


def linked(at: str, target: str, at_target: str = "files/evil.txt") -> Plant:
    """What a model may write, and a link that makes it look like the author's."""

    def plant(folder: Folder, text: str) -> None:
        folder.write(at_target, text)
        folder.link(at, target)

    return plant


def written(path: str, *others: str) -> Plant:
    def plant(folder: Folder, text: str) -> None:
        folder.write(path, text)
        for other in others:
            folder.write(other, "")

    return plant


def compiled(path: str, source: str | None = None) -> Plant:
    """Bytecode, beside a harmless `source` that it claims to be of."""

    def plant(folder: Folder, text: str) -> None:
        if source is None:
            py_compile.compile(str(folder.write("elsewhere.txt", text)), cfile=str(folder.root / path), doraise=True)
            return
        harmless = CLASSES + "#" * (len(text) - len(CLASSES))
        file = folder.write(source, text)
        folder.write(path, "")
        py_compile.compile(str(file), cfile=str(folder.root / path), doraise=True)
        stamp = file.stat()
        file.write_text(harmless)  # the same size, and in the same second as far as the bytecode can tell
        os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))

    return plant


def importing(statement: str, plant: Plant, author: str = "shapes.py") -> Plant:
    """The author's own file, which imports what a model may have written."""

    def both(folder: Folder, text: str) -> None:
        plant(folder, text)
        folder.write(author, f"try:\n    {statement}\nexcept ImportError:\n    pass\n{CLASSES}")

    return both


def mentioned(path: str, worker: str) -> Plant:
    """What a model has written before an author's worker named it, by which it is protected now."""

    def plant(folder: Folder, text: str) -> None:
        folder.write(path, text)
        folder.write("workers/other.worker", worker)

    return plant


INCLUDES = '---\n---\n{{ file("files/evil.py") }}\n'
BROKEN = "---\ndescription: see files/evil.py\nnonsense: [\n---\nHello.\n"
SERVES = "---\ntoolsets: {mcp: {own: {command: [python3, files/evil.py]}}}\n---\nHello.\n"
OUT, IN, TOOL = "output_schema_ref: ", "schema_in_ref: ", "toolsets: {custom: {slugify: {}}}"
CACHE = f"__pycache__/NAME.{sys.implementation.cache_tag}.pyc"
PLANTED: dict[str, tuple[str, Plant]] = {
    "a schema in the workers' folder": (OUT + "files/evil.py:Out", written("files/evil.py")),
    "an input in the workers' folder": (IN + "files/evil.py:Out", written("files/evil.py")),
    "a file that another worker includes": (OUT + "files/evil.py:Out", mentioned("files/evil.py", INCLUDES)),
    "a file that a broken worker mentions": (OUT + "files/evil.py:Out", mentioned("files/evil.py", BROKEN)),
    "a program that another worker starts": (OUT + "files/evil.py:Out", mentioned("files/evil.py", SERVES)),
    "a module that another worker includes": (OUT + "files.evil.Out", mentioned("files/evil.py", INCLUDES)),
    "a play that a broken worker mentions": ("model: offline:files/evil.py:Out", mentioned("files/evil.py", BROKEN)),
    "deeper in the workers' folder": (OUT + "files/a/b/evil.py:Out", written("files/a/b/evil.py")),
    "in capitals": (OUT + "files/EVIL.PY.py:Out", written("files/EVIL.PY.py")),
    "a module of the workers' folder": (OUT + "files.evil.Out", written("files/evil.py")),
    "an input module of the workers' folder": (IN + "files.evil.Out", written("files/evil.py")),
    "a package in the workers' folder": (OUT + "files.pkg.Out", written("files/pkg/__init__.py")),
    "the workers' folder as a package": (OUT + "files.Out", written("files/__init__.py")),
    "a module of a package there": (OUT + "files.pkg.evil.Out", written("files/pkg/evil.py", "files/pkg/__init__.py")),
    "a module of a folder there": (OUT + "files.pkg.evil.Out", written("files/pkg/evil.py")),
    "a toolset in the workers' folder": ("toolsets: {files.evil.Tools: {}}", written("files/evil.py")),
    "a toolset of a package there": (
        "toolsets: {files.p.evil.Tools: {}}",
        written("files/p/evil.py", "files/p/__init__.py"),
    ),
    "a link to a text": (OUT + "shapes.py:Out", linked("shapes.py", "files/evil.txt")),
    "a link to a text, for input": (IN + "shapes.py:Out", linked("shapes.py", "files/evil.txt")),
    "a link to a text, as a module": (OUT + "shapes.Out", linked("shapes.py", "files/evil.txt")),
    "a link to a text, as a toolset": ("toolsets: {shapes.Tools: {}}", linked("shapes.py", "files/evil.txt")),
    "a link to a link": (OUT + "shapes.py:Out", linked("shapes.py", "files/../files/./evil.txt")),
    "a link to Python there": (OUT + "shapes.py:Out", linked("shapes.py", "files/evil.py", "files/evil.py")),
    "a link in the worker's folder": (OUT + "shapes.py:Out", linked("workers/shapes.py", "../files/evil.txt")),
    "a linked folder": (OUT + "lib/evil.py:Out", linked("lib", "files", "files/evil.py")),
    "a linked folder, as a package": (OUT + "lib.evil.Out", linked("lib", "files", "files/evil.py")),
    "a linked package": (OUT + "lib.Out", linked("lib", "files/p", "files/p/__init__.py")),
    "a linked folder deeper": (OUT + "lib/in/evil.py:Out", linked("lib/in", "../files", "files/evil.py")),
    "a link in the workers' folder": (
        OUT + "files/shapes.py:Out",
        linked("files/shapes.py", "../shapes.py", "shapes.py"),
    ),
    "tools that are a link": (TOOL, linked("tools.py", "files/evil.txt")),
    "tools of the worker that are a link": (TOOL, linked("workers/greeter/tools.py", "../../files/evil.txt")),
    "tools beside the worker that are a link": (TOOL, linked("workers/tools.py", "../files/evil.txt")),
    "tools in a linked folder": (TOOL, linked("workers/greeter", "../files/g", "files/g/tools.py")),
    "bytecode without source": (OUT + "shapes.Out", compiled("shapes.pyc")),
    "bytecode without source, as a file": (OUT + "shapes.pyc:Out", compiled("shapes.pyc")),
    "bytecode of a package": (OUT + "pkg.Out", compiled("pkg/__init__.pyc")),
    "bytecode in a package": (OUT + "pkg.sub.Out", compiled("pkg/sub.pyc")),
    "bytecode of a toolset": ("toolsets: {shapes.Tools: {}}", compiled("shapes.pyc")),
    "cached bytecode": (OUT + "shapes.Out", compiled(CACHE.replace("NAME", "shapes"), "shapes.py")),
    "cached bytecode of a schema file": (OUT + "shapes.py:Out", compiled(CACHE.replace("NAME", "shapes"), "shapes.py")),
    "cached bytecode of tools": (TOOL, compiled(CACHE.replace("NAME", "tools"), "tools.py")),
    "cached bytecode of an import": (
        OUT + "shapes.py:Out",
        importing("import helper", compiled(CACHE.replace("NAME", "helper"), "helper.py")),
    ),
    "an import of the workers' folder": (
        OUT + "shapes.py:Out",
        importing("import files.evil", written("files/evil.py")),
    ),
    "an import from the workers' folder": (
        OUT + "shapes.py:Out",
        importing("from files import evil", written("files/evil.py")),
    ),
    "an import by function": (
        OUT + "shapes.py:Out",
        importing("__import__('importlib').import_module('files.evil')", written("files/evil.py")),
    ),
    "an import of a link": (OUT + "shapes.py:Out", importing("import helper", linked("helper.py", "files/evil.txt"))),
    "an import of a linked folder": (
        OUT + "shapes.Out",
        importing("import lib.evil", linked("lib", "files", "files/evil.py")),
    ),
    "an import of bytecode": (OUT + "shapes.py:Out", importing("import helper", compiled("helper.pyc"))),
    "an import of bytecode in a package": (OUT + "shapes.py:Out", importing("import pkg.sub", compiled("pkg/sub.pyc"))),
    "an import by tools": (TOOL, importing("import files.evil", written("files/evil.py"), "tools.py")),
}


@pytest.mark.parametrize(("front", "plant"), PLANTED.values(), ids=PLANTED.keys())
def test_python_that_workers_can_write_never_runs(folder: Folder, ran: Path, front: str, plant: Plant) -> None:
    (folder.root / "pkg").mkdir()
    folder.write("__pycache__/.keep", "")
    plant(folder, evil(ran))
    folder.write("workers/greeter.worker", f"{front}\n---\nHello.")
    with contextlib.suppress(LlmDoError):
        folder.load("greeter")
    assert not any(str(folder.root) in str(problem) for problem in check_workshop(folder.root))
    assert not has_run(ran)


SHADOWED = ("json", "typing", "re", "pydantic", "yaml", "csv", "jinja2", "temporalio", "encodings", "site")


@pytest.mark.parametrize("name", SHADOWED)
def test_a_module_of_the_workshop_shadows_none_that_is_installed(folder: Folder, ran: Path, name: str) -> None:
    folder.write(f"{name}.py", evil(ran))
    folder.write(f"{name}/__init__.py", evil(ran))
    folder.write("shapes.py", f"import {name}\n{CLASSES}")
    folder.write("workers/greeter.worker", f"{OUT}shapes.py:Out\n---\nHello.")
    folder.load("greeter")
    assert not has_run(ran)


@pytest.mark.parametrize(
    "suffix", [".so", ".abi3.so", f".{sys.implementation.cache_tag}-x86_64-linux-gnu.so", ".pyc", ".zip"]
)
def test_nothing_but_text_is_a_module(folder: Folder, suffix: str) -> None:
    """An extension that were opened would fail as no shared object; it is not even looked at."""
    folder.write(f"shapes{suffix}", b"\x7fELF no library")
    folder.write("workers/greeter.worker", f"{OUT}shapes.Out\n---\nHello.")
    with pytest.raises(LlmDoError, match="there is no module 'shapes'"):
        folder.load("greeter")


@pytest.mark.parametrize("late", ["pkg/late.pyc", "pkg/late/__init__.pyc"])
def test_a_function_that_imports_later_gets_no_bytecode_either(folder: Folder, ran: Path, late: str) -> None:
    folder.write("pkg/__init__.py", CLASSES + "def later():\n    import pkg.late\n")
    (folder.root / late).parent.mkdir(exist_ok=True)
    compiled(late)(folder, evil(ran))
    folder.write("workers/greeter.worker", f"{OUT}pkg.Out\n---\nHello.")
    folder.load("greeter")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("pkg").later()
    assert not has_run(ran)


@pytest.mark.parametrize("path", ["files", "files.sub", "empty", "notes"])
def test_a_folder_without_python_is_no_package(folder: Folder, path: str) -> None:
    folder.write("files/sub/x.txt", "x")
    folder.write("notes/x.txt", "x")
    (folder.root / "empty").mkdir()
    folder.write("workers/greeter.worker", f"{OUT}{path}.Out\n---\nHello.")
    with pytest.raises(LlmDoError, match="there is no module"):
        folder.load("greeter")


DEFINITIONS = (
    "workers/w.worker",
    "workers/w.yaml",
    "workers/w/worker.worker",
    "w.worker",
    "w.yml",
    "workers/generated/w.worker",
)


@pytest.mark.parametrize("target", ["note.md", "w.worker.txt"])
@pytest.mark.parametrize("path", DEFINITIONS)
def test_a_definition_that_is_a_link_to_workers_files_is_not_used(folder: Folder, path: str, target: str) -> None:
    text = "description: d\n---\nEvil." if path.endswith(".worker") else "description: d\ninstructions: Evil.\n"
    folder.write(f"files/{target}", text)
    folder.link(path, "../" * path.count("/") + f"files/{target}")
    with pytest.raises(LlmDoError, match="workers may write"):
        folder.load("w")
    assert any("workers may write" in str(problem) for problem in check_workshop(folder.root))


@pytest.mark.parametrize("target", ["files/note.md", "files/workshop.yaml.txt", "files/settings.yaml"])
def test_a_workshop_file_that_is_a_link_to_workers_files_is_not_used(folder: Folder, target: str) -> None:
    folder.write(target, "sandbox: {root: .}\n")
    (folder.root / "workshop.yaml").unlink()
    folder.link("workshop.yaml", target)
    with pytest.raises(LlmDoError, match="workers may write"):
        load_workshop(folder.root)


INCLUDED = ("PROCEDURE.md", "workers/PROCEDURE.md", "files/real.md")


@pytest.mark.parametrize("path", INCLUDED)
def test_what_instructions_include_is_protected_wherever_it_is_looked_for(folder: Folder, path: str) -> None:
    folder.write("files/real.md", "x")
    folder.link("PROCEDURE.md", "files/real.md")
    folder.write("workers/greeter.worker", "---\n---\n{% if false %}{{ file('PROCEDURE.md') }}{% endif %}")
    assert protection_of(folder.root).protects(path)


NAMING = {
    "a schema": OUT + "shapes.py:Out",
    "a schema of a module": OUT + "shapes.Out",
    "an input": IN + "shapes.py:Out",
    "a tool": TOOL,
    "a toolset": "toolsets: {shapes.Tools: {}}",
    "a delegate with typed input": "toolsets: {delegation: {typed: {}}}",
    "everything": f"{OUT}shapes.py:Out\n{IN}shapes.Out\ntoolsets: {{custom: {{slugify: {{}}}}, shapes.Tools: {{}}}}",
}


@pytest.mark.parametrize("front", NAMING.values(), ids=NAMING.keys())
def test_no_python_runs_for_a_callee_before_its_call_was_allowed(folder: Folder, ran: Path, front: str) -> None:
    folder.write("shapes.py", evil(ran))
    folder.write("tools.py", evil(ran))
    folder.write("workers/typed.worker", f"{IN}shapes.py:Out\n---\nHello.")
    folder.write("workers/greeter.worker", f"{front}\n---\nHello.")
    registry = Registry(load_workshop(folder.root), load_toolsets=True)
    assert registry.load("greeter", run_python=False).unloaded
    protection_of(folder.root)
    assert not has_run(ran)
    assert not registry.load("greeter").unloaded
    assert has_run(ran)


@pytest.mark.parametrize("reference", ["shapes.py:Out", "shapes.Out"])
def test_no_python_runs_for_the_draft_of_a_worker(folder: Folder, ran: Path, reference: str) -> None:
    folder.write("shapes.py", evil(ran))
    folder.write("workers/greeter.worker", f"{OUT}{reference}\n---\nHello.")
    asked = DraftWorkerInput(name="made", description="d", instructions="i", output_schema_ref=reference)
    draft_worker(load_workshop(folder.root), asked)
    assert not has_run(ran)


def callee(place: Place, ran: Path, model: ScriptedModel, **keys: Any) -> None:
    place.write("shapes.py", evil(ran))
    place.write("tools.py", evil(ran))
    place.worker("helper", model, **keys)


CALLED: dict[str, dict[str, Any]] = {
    "a schema": {"output_schema_ref": "shapes.py:Out"},
    "an input": {"schema_in_ref": "shapes.py:Out"},
    "a tool": {"toolsets": {"custom": {"slugify": {}}}},
}


@pytest.mark.parametrize("keys", CALLED.values(), ids=CALLED.keys())
async def test_a_rejected_call_never_ran_anything(place: Place, ran: Path, keys: dict[str, Any]) -> None:
    callee(place, ran, scripted(), **keys)
    main = scripted(call("worker_call", worker_name="helper", input_data={"x": 1}), "Alone then.")
    place.worker("main", main, toolsets={"delegation": {"allow_workers": ["helper"]}})
    run = await place.start("main")
    await place.pending(run)
    assert not has_run(ran)
    await place.decide(run, "reject")
    assert (await place.client.result(run)).output == "Alone then."
    assert not has_run(ran)


async def test_a_callee_that_changed_while_it_was_asked_about_is_not_called(place: Place, ran: Path) -> None:
    callee(place, ran, scripted(), output_schema_ref="shapes.py:Out")
    main = scripted(call("worker_call", worker_name="helper", input_data="x"), "Alone then.")
    place.worker("main", main, toolsets={"delegation": {"allow_workers": ["helper"]}})
    run = await place.start("main")
    await place.pending(run)
    file = next(place.folder.glob("workers/helper*"))
    file.write_text(file.read_text().replace("Do it.", "Do something else."))
    await place.decide(run)
    assert (await place.client.result(run)).output == "Alone then."
    assert "has changed since the call was checked" in main.requests[-1].results("worker_call")[0].text


async def test_files_that_only_the_callees_python_names_are_asked_about(place: Place) -> None:
    """The call was allowed as it was shown; what the class attaches comes after, so it is a question of its own."""
    head = "from llm_do_temporal.args import AttachmentPath, WorkerArgs\n\nclass In(WorkerArgs):\n    x: str\n"
    place.write("shapes.py", f"{head}    def input_parts(self):\n        return ['Read.', AttachmentPath(self.x)]\n")
    place.write("note.txt", "a note")
    child = scripted("Read.")
    place.worker("helper", child, schema_in_ref="shapes.py:In")
    main = scripted(call("worker_call", worker_name="helper", input_data={"x": "note.txt"}), "Done.")
    place.worker("main", main, toolsets={"delegation": {"allow_workers": ["helper"]}})
    run = await place.start("main")
    (first,) = await place.pending(run)
    assert not first.request.attachments
    await place.decide(run)
    (second,) = await place.pending(run)
    assert [one.path for one in second.request.attachments] == ["/note.txt"]
    assert not child.requests
    await place.decide(run)
    assert (await place.client.result(run)).output == "Done."
    assert "Attached file: /note.txt" in child.requests[0].prompt


@pytest.mark.control
async def test_an_allowed_call_runs_what_it_needs(place: Place, ran: Path) -> None:
    callee(place, ran, scripted(call("final_result", x=7)), output_schema_ref="shapes.py:Out")
    main = scripted(call("worker_call", worker_name="helper", input_data="x"), "Done.")
    place.worker("main", main, toolsets={"delegation": {"allow_workers": ["helper"]}})
    run = await place.start("main")
    await place.pending(run)
    assert not has_run(ran)
    await place.decide(run)
    assert (await place.client.result(run)).output == "Done."
    assert has_run(ran)


@pytest.mark.control
def test_packages_of_the_author_are_imported(folder: Folder) -> None:
    folder.write("lib/base.py", "VALUE = 1\n")
    folder.write("lib/deep/__init__.py", "from lib.base import VALUE\nfrom . import other\n")
    folder.write("lib/deep/other.py", CLASSES)
    folder.write("shapes.py", "import lib.deep\nfrom lib.deep.other import Out\n")
    folder.write("workers/greeter.worker", f"{OUT}shapes.Out\n---\nHello.")
    assert folder.load("greeter").output_schema is not None
    assert not list(folder.root.rglob("__pycache__"))
    shutil.rmtree(folder.root / "lib")
