"""An editor that takes extensions of VS Code: code-server, from npm packages, with what is native compiled here.

Kept outside of the checkout, by version. Needs npm with Node 20, a C++ compiler, Python, and ripgrep on the PATH.
Run as a program, it builds what is missing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2

from llm_do_temporal.client.embedded.server import any_free_port, user_cache
from tests.support.patience import eventually

VERSION = "4.100.3"
"""The newest one for Node 20; it is Code 1.100.3."""
EXTENSION = Path(__file__).parents[2] / "editors/vscode/dist/llm-do-temporal.vsix"
PROGRAM = Path(sys.executable).parent / "llm-do-temporal"
NATIVE = {"@vscode/spdlog": "spdlog", "native-watchdog": "watchdog", "node-pty": "pty"}
"""Packages of Code that are compiled, and the libraries that come of it; others are for Windows, or for Kerberos."""
QUIET = {
    "workbench.startupEditor": "none",
    "workbench.colorTheme": "Default Light Modern",
    "workbench.tips.enabled": False,
    "editor.minimap.enabled": False,
    "telemetry.telemetryLevel": "off",
    "extensions.autoCheckUpdates": False,
    "remote.autoForwardPorts": False,
    # Else a terminal is a picture, in which no text can be found.
    "terminal.integrated.gpuAcceleration": "off",
}


def home() -> Path:
    """Where this version is kept."""
    return user_cache() / "editor" / f"code-server-{VERSION}"


def entry() -> Path:
    """The script that Node runs."""
    return home() / "node_modules/code-server/out/node/entry.js"


def build() -> None:
    """Install what is missing. No script of a package is run but those that compile."""
    if (home() / "ready").exists():
        return
    search = shutil.which("rg")
    if search is None:
        raise RuntimeError("ripgrep is not installed; the editor finds files with it")
    shutil.rmtree(home(), ignore_errors=True)
    home().mkdir(parents=True)
    _npm(home(), "install", "--ignore-scripts", f"code-server@{VERSION}")
    _npm(home(), "rebuild", "argon2")
    code = home() / "node_modules/code-server/lib/vscode"
    for folder in (code, code / "extensions"):
        _npm(folder, "install", "--ignore-scripts", "--omit=dev")
    for package, library in NATIVE.items():
        # What comes after compiling may fail; what counts is the library.
        _npm(code, "rebuild", package, check=False)
        if not (code / f"node_modules/{package}/build/Release/{library}.node").exists():
            raise RuntimeError(f"{package} was not compiled in {code}")
    (code / "node_modules.asar").symlink_to("node_modules")
    (code / "node_modules/@vscode/ripgrep/bin").mkdir(exist_ok=True)
    shutil.copy(search, code / "node_modules/@vscode/ripgrep/bin/rg")
    (home() / "ready").touch()


def _npm(folder: Path, *arguments: str, check: bool = True) -> None:
    headers = Path(shutil.which("node") or "node").resolve().parents[1]
    environment = {**os.environ, "npm_config_fund": "false", "npm_config_audit": "false"}
    if (headers / "include/node/node.h").exists():
        environment["npm_config_nodedir"] = str(headers)
    subprocess.run(("npm", *arguments), cwd=folder, env=environment, check=check)


@dataclass(frozen=True)
class CodeServer:
    """An editor that is served at an address, and the process that does."""

    link: str
    process: int

    def window(self, folder: Path) -> str:
        """The address of a window with the folder open."""
        return f"{self.link}/?folder={folder}"

    def language_servers(self) -> list[int]:
        """Processes of our language servers that it has started, or that its children have."""
        children: dict[int, list[int]] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(stat.read_text(encoding="utf-8").rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(stat.parent.name))
        found, waiting = list[int](), [self.process]
        while waiting:
            below = children.get(waiting.pop(), [])
            waiting += below
            found += [one for one in below if _command_line(one)[-2:] == [str(PROGRAM), "lsp"]]
        return found


def _command_line(process: int) -> list[str]:
    try:
        return Path(f"/proc/{process}/cmdline").read_text(encoding="utf-8").rstrip("\0").split("\0")
    except OSError:
        return []


@contextmanager
def code_server_in(folder: Path, command: list[str] | None = None) -> Generator[CodeServer]:
    """Serve an editor with the extension; all that it writes is in the folder. Its machine's setting is the command."""
    build()
    user = folder / "user"
    for name, settings in (
        ("User", QUIET),
        ("Machine", {"llm-do-temporal.command": command or [str(PROGRAM)]}),
    ):
        (user / name).mkdir(parents=True)
        (user / name / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    own = {name: str(folder / name.lower()) for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")}
    environment = {**os.environ, **own}
    program = ["node", str(entry()), "--user-data-dir", str(user), "--extensions-dir", str(folder / "extensions")]
    subprocess.run([*program, "--install-extension", str(EXTENSION)], env=environment, check=True)
    port = any_free_port()
    quiet = ("--auth", "none", "--disable-telemetry", "--disable-update-check")
    with (folder / "editor.log").open("wb") as log:
        process = subprocess.Popen(
            [*program, "--bind-addr", f"127.0.0.1:{port}", *quiet], env=environment, stdout=log, stderr=log
        )
    link = f"http://127.0.0.1:{port}"
    try:
        eventually(lambda: _is_up(link), "the editor answers")
        yield CodeServer(link, process.pid)
    finally:
        process.terminate()
        process.wait()


def _is_up(link: str) -> bool:
    try:
        return httpx2.get(f"{link}/healthz").is_success
    except httpx2.TransportError:
        return False


if __name__ == "__main__":
    build()
