"""Repositories and names of files that a command leaves for the next one."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_do_temporal.sandbox.bubblewrap import working_bwrap
from tests.support.workshops.hostile_commands import FILES, Ground

BWRAP = working_bwrap()


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    if BWRAP is None:
        pytest.skip("commands cannot be isolated on this machine")
    return Ground(tmp_path / "workshop", BWRAP)


REMOTES = {
    "git -C proj ls-remote": "git config remote.origin.uploadpack {evil}",
    "git -C proj fetch": "git config remote.origin.uploadpack {evil}",
    "git -C proj pull": "git config remote.origin.uploadpack {evil}",
    "git -C proj push origin HEAD:x": "git config remote.origin.receivepack {evil}",
    "git -C proj remote show origin": "git config remote.origin.uploadpack {evil}",
    "git -C proj remote update": "git config remote.origin.uploadpack {evil}; git config protocol.file.allow always",
    "git -C proj ls-remote other": "git config remote.other.url file://{top}/proj; "
    "git config remote.other.uploadpack {evil}",
    "git -C proj show": "git config extensions.partialClone origin; git config remote.origin.promisor true; "
    "git config remote.origin.uploadpack {evil}; git config core.repositoryformatversion 1; "
    "rm -f .git/objects/$(git rev-parse HEAD:a | sed 's#^..#&/#')",
    "git -C proj fetch git://127.0.0.1:1/x": "git config core.gitProxy {evil}",
    "git -C proj ls-remote git://127.0.0.1:1/x": "git config core.gitProxy '{evil} for 127.0.0.1'",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", [BWRAP, None], ids=["isolated", "bare"])
@pytest.mark.parametrize("command", REMOTES)
async def test_a_remote_of_a_repository_names_no_program(tmp_path: Path, way: str | None, command: str) -> None:
    ground = Ground(tmp_path / "workshop", way, FILES)
    top = "/llm-do" if way else str(ground.folder / "files")
    evil = ground.folder / "files/evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {top}/sub/it-ran\n")
    evil.chmod(0o755)
    made = await ground.script(
        "git init -q proj && cd proj && git config user.name x && git config user.email x@y && echo 1 > a && git add a "
        "&& git commit -qm a && git config remote.origin.url . && "
        + REMOTES[command].replace("{evil}", f"{top}/evil.sh").replace("{top}", top)
    )
    assert made.exit_code == 0, made.stderr
    await ground.run(*command.split())
    assert not (ground.folder / "files/sub/it-ran").exists()


NAMES = ["bad\\xff", "\\xc3", "\\xed\\xa0\\x80", "\\xf0\\x9f", "a\\x80b"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
async def test_the_result_of_a_command_can_be_told_whatever_names_there_are(ground: Ground, name: str) -> None:
    ground.tree = FILES
    await ground.run(
        "python3",
        "-c",
        f"import os\nos.mkdir(b'{name}'); os.chdir(b'{name}')\nfor i in range(105): os.mkdir('d'); os.chdir('d')",
    )
    told = (await ground.run("echo", "hello")).model_dump_json()
    assert "hello" in told
