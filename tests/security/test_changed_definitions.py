"""What an author changes is protected from then on, also while a file is half written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from llm_do_temporal.definitions.protection import protection_of
from tests.support.workshops.defining_files import snapshot, whole, writes
from tests.support.workshops.file_tree import Files

__all__ = ["whole"]


def _author_turns_the_link(workshop: Path) -> None:
    (workshop / "texts/more.md").unlink()
    (workshop / "texts/more.md").symlink_to("../notes.md")


def _author_links_a_folder(workshop: Path) -> None:
    (workshop / "texts/more.md").unlink()
    (workshop / "texts").rmdir()
    (workshop / "middle").symlink_to("data")
    (workshop / "texts").symlink_to("middle")
    (workshop / "data/more.md").write_text("More.\n")


def _author_names_a_server(workshop: Path) -> None:
    (workshop / "bin").mkdir()
    (workshop / "bin/notes-server").write_text("#!/bin/sh\n")
    server = "toolsets: {mcp: {notes: {command: [bin/notes-server, --fast]}}}\n---\nUse it.\n"
    (workshop / "workers/served.worker").write_text(server)


def _author_names_a_script_by_its_whole_path(workshop: Path) -> None:
    (workshop / "srv").mkdir()
    (workshop / "srv/index.js").write_text("//\n")
    server = f"toolsets: {{mcp: {{notes: {{command: [node, {workshop}/srv/index.js]}}}}}}\n---\nUse it.\n"
    (workshop / "workers/served.worker").write_text(server)


def _author_names(command: str, *made: str) -> Callable[[Path], None]:
    """A server with this command, of whose files only those are there."""

    def write(workshop: Path) -> None:
        for name in made:
            (workshop / name).parent.mkdir(parents=True, exist_ok=True)
            (workshop / name).write_text("//\n")
        server = f"toolsets: {{mcp: {{notes: {{command: {command.format(workshop=workshop)}}}}}}}\n---\nUse it.\n"
        (workshop / "workers/served.worker").write_text(server)

    return write


def _author_links_to_what_is_not_built(workshop: Path) -> None:
    (workshop / "srv.js").symlink_to("build/out.js")
    _author_names("[node, srv.js]")(workshop)


def _author_writes_a_worker_at_the_top(text: str) -> Callable[[Path], None]:
    def write(workshop: Path) -> None:
        (workshop / "srv").mkdir()
        (workshop / "srv/index.js").write_text("//\n")
        (workshop / "helper.yaml").write_text(text, newline="")

    return write


def _author_breaks_the_workshops_file(workshop: Path) -> None:
    text = "sandbox: {root: .}\ncreation_defaults: {toolsets: {delegation: {templates: {allow: ['data/*.yaml']}}}}\n"
    (workshop / "workshop.yaml").write_text(f"{text}limits: {{\n")


_AT_THE_TOP = (
    "{instructions: \"{{ file('notes.md') }}\", toolsets: {mcp: {n: {command: [node, srv/index.js]}}}}\n",
    "  instructions: \"{{ file('notes.md') }}\"\n  toolsets: {mcp: {n: {command: [node, srv/index.js]}}}\n",
    "description: x\rinstructions: \"{{ file('notes.md') }}\"\rtoolsets: {mcp: {n: {command: [node, srv/index.js]}}}\r",
)


def _author_leaves_a_file_half_written(text: str) -> Callable[[Path], None]:
    def write(workshop: Path) -> None:
        (workshop / "workers/half.worker").write_text(text)

    return write


CHANGES = (
    (_author_turns_the_link, "notes.md"),
    (_author_links_a_folder, "data/more.md"),
    (_author_links_a_folder, "middle"),
    (_author_names_a_server, "bin/notes-server"),
    (_author_names_a_server, "BIN/other-tool"),
    (_author_names_a_server, "bin/lib/helper.sh"),
    (_author_names_a_script_by_its_whole_path, "srv/index.js"),
    (_author_names("[node, dist/server.js]"), "dist/server.js"),
    (_author_names("[node, dist/server.js]"), "dist/helper.js"),
    (_author_names("[node, '{workshop}/dist/server.js']"), "dist/server.js"),
    (_author_names("[node, data/server.js]"), "data/server.js"),
    (_author_names("[node, dist/run]"), "dist/run.mjs"),
    (_author_names("[node, run]"), "run.js"),
    (_author_names("[node, '--require=hooks/h.js', /usr/lib/x.js]", "hooks/h.js"), "hooks/h.js"),
    (_author_names("[node, '--require=hooks/h.js', /usr/lib/x.js]", "hooks/h.js"), "hooks/other.js"),
    (_author_names("[node, '--import=./hooks/h.mjs', /usr/lib/x.js]"), "hooks/h.mjs"),
    (_author_names("[ruby, -rhooks/h.rb, /usr/lib/x.rb]"), "hooks/h.rb"),
    (_author_links_to_what_is_not_built, "build/out.js"),
    (_author_breaks_the_workshops_file, "data/new.yaml"),
    *(
        (_author_writes_a_worker_at_the_top(text), path)
        for text in _AT_THE_TOP
        for path in ("notes.md", "srv/index.js")
    ),
    *(
        (
            _author_leaves_a_file_half_written(f"toolsets: {{mcp: {{n: {{command: [{words}]}}\n---\nGo.\n"),
            "srv/index.js",
        )
        for words in ("node, srv/index.js", "node, 'srv/index.js'")
    ),
    (
        _author_leaves_a_file_half_written("toolsets: {mcp: {n: {command: [node, srv/i.js]}\n---\nGo.\n"),
        "srv/helper.js",
    ),
    (_author_names_a_script_by_its_whole_path, "srv/lib/helper.js"),
    (_author_leaves_a_file_half_written("x: 1\n---\n{{ file('notes.md') }}\n{% if"), "notes.md"),
    (_author_leaves_a_file_half_written("no_such_key: 1\n---\n{{ file('notes.md') }}\n{% if x"), "notes.md"),
    (
        _author_leaves_a_file_half_written(
            "toolsets: {delegation: {templates: {allow: ['data/*.yaml'], max_bytes: many}}}\n---\nGo.\n"
        ),
        "data/new.yaml",
    ),
    (
        _author_leaves_a_file_half_written("toolsets:\n  delegation: {templates: {lock: data/list.yaml}\n---\nGo.\n"),
        "data/list.yaml",
    ),
)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("change", "path"), CHANGES)
def test_what_an_author_changes_counts_at_once_and_half_written_too(
    whole: Files, change: Callable[[Path], None], path: str
) -> None:
    """Also after what was protected before has been worked out once."""
    protection_of(whole.workshop)
    change(whole.workshop)
    before = snapshot(whole.workshop)
    assert not writes(whole, path)
    assert snapshot(whole.workshop) == before
