"""A session of Neovim at the language server, and what it shows; run as a program, it writes that into the docs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "editors.md"
SCRIPT = Path(__file__).with_name("session.lua")
BEGIN, END = "<!-- transcript -->\n```text\n", "```\n<!-- end of transcript -->"
_SECONDS = 500
_FILES = {
    "workshop.yaml": """\
models: {fast: offline:echo}
sandbox: {root: files}
approvals:
  rules:
    sandbox.read: pre_approved
    worker.call: {approvers: [ada, bo], quorum: 2}
""",
    "workers/editor.worker": """\
description: Has reports written 📰
model: fast
toolsets:
  delegation:
    reporter: {}
    fact_checker: {}
  filesystem: {}
---
Have the reporter write what you are asked for.
""",
    "workers/reporter.worker": "description: Writes a report.\n---\nWrite.\n",
    "files/README.md": "Files of the workers.\n",
}


def find_neovim() -> str | None:
    """Return the program; None where it is not installed."""
    return shutil.which("nvim")


def snippet() -> str:
    """Return the lines that the docs have for Neovim 0.7."""
    return PAGE.read_text("utf-8").split("```lua\n")[1].split("```")[0]


def written_transcript() -> str:
    return PAGE.read_text("utf-8").split(BEGIN)[1].split(END)[0]


def session(program: str, folder: Path) -> str:
    """Make a workshop in a folder, sit down at it with Neovim, and return what is shown."""
    workshop = folder / "workshop"
    for name, text in _FILES.items():
        path = workshop / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    (folder / "snippet.lua").write_text(snippet(), "utf-8")
    shown = folder / "shown"
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "LLM_DO_SNIPPET": str(folder / "snippet.lua"),
        "LLM_DO_TRANSCRIPT": str(shown),
        "XDG_STATE_HOME": str(folder),
        "XDG_CACHE_HOME": str(folder),
    }
    command = [program, "--headless", "--clean", "-n", "-c", f"luafile {SCRIPT}", "-c", "cquit"]
    done = subprocess.run(
        command, cwd=workshop, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    assert shown.exists(), done.stderr
    return shown.read_text("utf-8")


def main() -> None:
    """Write the transcript into the docs anew."""
    program = find_neovim()
    assert program is not None
    with tempfile.TemporaryDirectory() as folder:
        shown = session(program, Path(folder))
    page = PAGE.read_text("utf-8")
    PAGE.write_text(page.replace(f"{BEGIN}{written_transcript()}{END}", f"{BEGIN}{shown}{END}"), "utf-8")


if __name__ == "__main__":
    main()
