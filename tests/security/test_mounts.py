"""What an isolated command tries with the files that define, whatever program it is that an approval let run."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from llm_do_temporal.definitions.protection import protection_of
from llm_do_temporal.policy.files.protection import Protection
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.sandbox import mounts
from llm_do_temporal.sandbox.bubblewrap import working_bwrap
from llm_do_temporal.sandbox.mounts import plan_mounts
from tests.support.workshops.hostile_commands import FILES, SECRET, Ground

BWRAP = working_bwrap()
pytestmark = pytest.mark.skipif(BWRAP is None, reason="commands cannot be isolated on this machine")


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path / "workshop", BWRAP)


CHANGES = [
    # what defines, by every way of changing a file
    "echo x > tools.py",
    "echo x >> tools.py",
    "echo x > workshop.yaml",
    "echo x > lead.worker",
    "echo x > workers/helper.worker",
    "echo x > workers/generated/made.worker",
    "echo x > templates/one.yaml",
    "echo x > prompts/deep/two.yaml",
    "echo x > lib/pkg/mod.py",
    "echo x > .git/config",
    "echo x > .git/hooks/pre-commit",
    ": > tools.py",
    "truncate -s 0 tools.py",
    "dd if=/dev/zero of=tools.py bs=1 count=1 conv=notrunc",
    "sed -i s/1/2/ tools.py",
    "exec 3<>tools.py",
    "python3 -c \"import os; f=os.open('tools.py', os.O_RDONLY); os.ftruncate(f, 0)\"",
    "python3 -c \"open(f'/proc/self/fd/{open(\\'tools.py\\').fileno()}', 'w')\"",
    "python3 -c \"import os; os.truncate('tools.py', 0)\"",
    # by its mode, its time or its attributes
    "chmod 777 tools.py",
    "chmod u+s tools.py",
    "chown 1:1 tools.py",
    "touch -d 1999-01-01 tools.py",
    "setfattr -n user.x -v y tools.py",
    "python3 -c \"import os; os.setxattr('tools.py', 'user.x', b'y')\"",
    "chmod 700 .",
    # taken away, moved, put in the place of another
    "rm -f tools.py",
    "rm -rf workers templates prompts .git lib",
    "mv tools.py src/",
    "mv src/a.txt tools.py",
    "mv -T src workers",
    "mv workers src/",
    "mv prompts src/",
    "mv prompts/deep prompts/deeper",
    "mv lib lib2 && mkdir lib",
    "mv lib/pkg src/pkg",
    "mv workers workers2 && mkdir workers",
    "mv .git src/git",
    "mv src src2",
    "mv /llm-do /llm-do2",
    "mv files/data.txt x.worker",
    "cp src/evil.txt workers/",
    "install -m 600 src/evil.txt workers/evil.worker",
    "python3 -c \"import os; os.replace('src/a.txt', 'tools.py')\"",
    "python3 -c \"import ctypes; ctypes.CDLL(None).renameat2(-100, b'src', -100, b'workers', 2)\"",
    # new definitions, directly and in folders that are not there yet
    "touch evil.worker",
    "touch evil.py",
    "touch evil.yaml",
    "touch src.worker",
    "mkdir evil && touch evil/x.worker",
    "touch workers/evil.worker",
    "touch workers/generated/evil.worker",
    "mkdir workers/sub && touch workers/sub/x.yaml",
    "touch templates/evil.yaml",
    "touch prompts/evil.yaml",
    "mkdir -p prompts/new/deeper && touch prompts/new/deeper/evil.yaml",
    "touch prompts/deep/evil.yaml",
    "touch lib/pkg/os.py",
    "touch lib/pkg.py",
    "touch .git/new",
    "mkdir .git/hooks/x",
    "mkdir .husky",
    "mkdir TEMPLATES && touch TEMPLATES/x.yaml",
    "ln -s src/evil.txt evil.worker",
    "ln -s ../src/evil.txt workers/evil.worker",
    "mkfifo evil.worker",
    "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('evil.worker')\"",
    # by another name of the same file
    "ln tools.py notes2.md",
    "ln tools.py src/notes.md && echo x > src/notes.md",
    "ln -f tools.py notes.md",
    "ln notes.md src/notes.md",
    "ln src/evil.txt workers/evil.worker",
    "ln -s ../tools.py src/notes.md && echo x > src/notes.md",
    "ln -s /tools.py src/notes.md && echo x > src/notes.md",
    "ln -s /llm-do/tools.py src/notes.md && echo x > src/notes.md",
    "ln -s ../workers src/w && touch src/w/evil.worker",
    "ln -s .. src/up && touch src/up/evil.worker",
    "echo x > /tools.py",
    "echo x > /proc/self/cwd/tools.py",
    "echo x > /proc/self/root/llm-do/tools.py",
    "echo x > /proc/1/root/llm-do/tools.py",
    "echo x > /proc/1/cwd/tools.py",
    "for f in /proc/*/fd/*; do echo x > $f/tools.py; touch $f/evil.worker; done",
    # past the mounts
    "mount -o remount,rw /llm-do",
    "mount -o remount,bind,rw /llm-do && touch evil.worker",
    "mount --bind src workers && touch workers/evil.worker",
    "mount -t tmpfs none workers",
    "umount /llm-do/src",
    "umount -l /llm-do",
    "unshare -Urm sh -c 'mount -o remount,bind,rw /llm-do; touch evil.worker'",
    "unshare -Urm sh -c 'umount /llm-do/src; mount --bind src workers; touch workers/evil.worker'",
    "unshare -m true && touch evil.worker",
    "nsenter -t 1 -m touch evil.worker",
    "chroot /llm-do /bin/touch evil.worker",
    "mknod src/disk b 254 0 && cat src/disk",
    "python3 -c \"import ctypes; ctypes.CDLL(None).mount(b'none', b'/llm-do', None, 4096|32, None); open('evil','w')\"",
    # what is not of the workshop
    "echo x > ../outside.txt",
    "touch /usr/evil /etc/evil /llm-do/../evil /proc/evil",
    "echo x > .llm-do/host.json",
    "mkdir .LLM-DO",
    "rm -rf .llm-do",
    "mv .llm-do src/state",
]
"""Nothing of these may change what defines. Without overlays, nothing changes outside of the folders that hold no
definition."""


@pytest.mark.sampled(8)
@pytest.mark.parametrize("script", CHANGES)
async def test_no_command_changes_what_defines(ground: Ground, script: str) -> None:
    ground.overlays = False
    modes = {path: path.stat().st_mode for path in ground.folder.rglob("*.py")}
    result = await ground.script(script)
    free = ("src/", "docs/", "files/")
    assert {name for name in ground.changed() if not name.startswith(free)} - {"notes.md"} == set(), result.stderr
    assert {path: path.stat().st_mode for path in modes} == modes
    assert (ground.folder / "notes.md").stat().st_ino != (ground.folder / "tools.py").stat().st_ino
    assert not any(path.is_fifo() or path.is_socket() for path in ground.folder.glob("*"))
    made = {path.name for path in ground.folder.iterdir()} | {path.name for path in ground.folder.glob("workers/*")}
    assert not {name for name in made if "evil" in name or name.endswith("2")}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("script", CHANGES)
async def test_no_command_over_an_overlay_does_what_write_file_could_not(ground: Ground, script: str) -> None:
    protection = protection_of(ground.folder)
    shape = {path: path.lstat().st_mode for path in ground.folder.rglob("*")}
    result = await ground.script(script)
    changed = {name for name in ground.changed() if not name.startswith("files/")}
    assert not {name for name in changed if name.startswith("../") or protection.protects(name)}, result.stderr
    left = {path for path in shape if path.exists() or path.is_symlink()}
    assert not {path for path in shape.keys() - left if not path.is_relative_to(ground.folder / "files")}
    assert {path: path.lstat().st_mode for path in left} == {path: shape[path] for path in left}
    made = set(ground.folder.rglob("*")) - shape.keys() - set((ground.folder / ".llm-do").rglob("*"))
    assert all(path.is_file() or any(path.iterdir()) for path in made)
    assert not any(path.is_symlink() or path.is_fifo() or path.is_socket() for path in made)
    assert (ground.folder / "notes.md").stat().st_ino != (ground.folder / "tools.py").stat().st_ino


READS = [
    "cat .llm-do/host.json",
    "ls -A .llm-do; find / -name host.json -exec cat {} + 2>&1",
    "cat /proc/1/root/llm-do/.llm-do/host.json",
    "ln -s ../.llm-do src/state; cat src/state/host.json",
    "umount .llm-do; cat .llm-do/host.json",
    "unshare -Urm sh -c 'umount /llm-do/.llm-do; cat .llm-do/host.json'",
    "cat ../outside.txt; cat /outside.txt; cat src/../../outside.txt",
    "cat /proc/*/environ | tr '\\0' '\\n'; cat /proc/*/cmdline",
    "for f in /proc/*/fd/*; do ls $f/; cat $f/../outside.txt; done",
    "python3 -c \"import os; d=os.open('/', 0); print(os.open('../outside.txt', 0, dir_fd=d))\"",
    "cat /proc/self/mountinfo",
    "find / -name outside.txt -exec cat {} +",
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("script", READS)
async def test_no_command_reads_what_is_not_its_own(
    ground: Ground, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    (ground.folder / ".env").write_text("nothing")
    result = await ground.script(script)
    assert SECRET not in result.stdout.text + result.stderr.text


KERNEL = [
    "cat /proc/sys/kernel/core_pattern > /proc/sys/kernel/core_pattern",
    "cat /proc/sys/kernel/domainname > /proc/sys/kernel/domainname",
    "cat /proc/sys/kernel/modprobe > /proc/sys/kernel/modprobe",
    "cat /proc/sys/kernel/hotplug > /proc/sys/kernel/hotplug",
    "cat /proc/sys/vm/swappiness > /proc/sys/vm/swappiness",
    "cat /proc/sys/fs/protected_hardlinks > /proc/sys/fs/protected_hardlinks",
    "cat /proc/sys/user/max_user_namespaces > /proc/sys/user/max_user_namespaces",
    "echo h > /proc/sysrq-trigger",
    "echo 1000 > /proc/1/oom_score_adj",
    "mount -o remount,rw /proc",
    "unshare -Ur true",
    "unshare -Urpf --mount-proc true",
    "test -w /proc/sys/kernel/core_pattern",
    "ls /sys/kernel",
    "cat /dev/mem",
    "cat /dev/vda",
    "kill -0 2147",
    "python3 -c \"import socket; socket.create_connection(('127.0.0.1', 7233), 2)\"",
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("script", KERNEL)
async def test_no_command_reaches_the_machine(ground: Ground, script: str) -> None:
    result = await ground.script(script)
    assert result.exit_code != 0


@pytest.mark.parametrize("script", ["touch evil.worker", "touch sub/evil.worker", "git init -q .", "mkdir -p a/.git"])
async def test_what_is_no_definition_where_it_lies_is_an_ordinary_file(ground: Ground, script: str) -> None:
    ground.tree = FILES
    await ground.script(script)
    assert {name for name in ground.changed() if not name.startswith("files/")} == set()


REPOSITORY = "mkdir -p proj/.git/hooks proj/src && cd proj && echo safe > .git/config"
TAKEOVERS = [
    "echo evil > proj/.git/config",
    "rm -rf proj/.git",
    "mv proj/.git proj/git && mkdir proj/.git && echo evil > proj/.git/config",
    "mv proj proj2 && mkdir -p proj/.git && echo evil > proj/.git/config",
    "mv proj /tmp/ && mkdir -p proj/.git && echo evil > proj/.git/config",
    "rm -rf proj; mkdir -p proj/.git; echo evil > proj/.git/config",
    "ln -sfn ../evil proj/.git",
    "python3 -c \"import ctypes; ctypes.CDLL(None).renameat2(-100, b'proj', -100, b'sub', 2)\"",
    "touch proj/.git/hooks/pre-commit",
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("script", TAKEOVERS)
async def test_a_repository_among_the_files_keeps_its_state(ground: Ground, script: str) -> None:
    ground.tree = FILES
    assert (await ground.script(REPOSITORY)).exit_code == 0
    await ground.script(script)
    repository = ground.folder / "files/proj/.git"
    assert (repository / "config").read_text() == "safe\n"
    assert list((repository / "hooks").iterdir()) == []


GIT = [
    ("core.fsmonitor", "git -C proj status"),
    ("core.pager", "git -C proj -p log"),
    ("core.sshCommand", "git -C proj fetch ssh://x/y"),
    ("core.editor", "git -C proj commit --allow-empty"),
    ("core.askPass", "git -C proj fetch http://127.0.0.1:1/x"),
    ("credential.helper", "git -C proj fetch http://127.0.0.1:1/x"),
    ("diff.external", "git -C proj diff HEAD"),
    ("sequence.editor", "git -C proj rebase -i HEAD"),
    ("core.hooksPath", "git -C proj commit --allow-empty -m x"),
    ("gpg.program", "git -C proj log --oneline"),
]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("way", [BWRAP, None], ids=["isolated", "bare"])
@pytest.mark.parametrize(("key", "command"), GIT)
async def test_looking_at_a_repository_runs_nothing_that_it_names(
    tmp_path: Path, way: str | None, key: str, command: str
) -> None:
    ground = Ground(tmp_path / "workshop", way, FILES)
    ran = "sub/it-ran"
    (ground.folder / "files/evil").mkdir()
    program = ground.folder / "files/evil/pre-commit"
    top = "/llm-do" if way else str(ground.folder / "files")
    program.write_text(f"#!/bin/sh\ntouch {top}/{ran}\n")
    program.chmod(0o755)
    made = await ground.script(
        "git init -q proj && cd proj && echo 1 > a && git add a && "
        "git -c user.name=x -c user.email=x@y commit -qm a && echo 2 > a && "
        f"git config user.name x && git config user.email x@y && git config log.showSignature true && "
        f"git config {key} {top}/evil{'' if key == 'core.hooksPath' else '/pre-commit'}"
    )
    assert made.exit_code == 0, made.stderr
    await ground.run(*command.split())
    assert not (ground.folder / "files" / ran).exists()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("way", [BWRAP, None], ids=["isolated", "bare"])
@pytest.mark.parametrize("command", ["git status", "git log", "git diff", "git show", "git fetch"])
async def test_a_folder_that_looks_like_a_repository_is_none(tmp_path: Path, way: str | None, command: str) -> None:
    tree = Tree(mounts=(Mount(at="/", root="files/bare", base="files/bare"),))
    ground = Ground(tmp_path / "workshop", way, tree)
    bare = ground.folder / "files/bare"
    for folder in ("objects", "refs"):
        (bare / folder).mkdir(parents=True)
    (bare / "HEAD").write_text("ref: refs/heads/main\n")
    ran = "/llm-do/it-ran" if way else str(bare / "it-ran")
    for key in ("core.fsmonitor", "core.pager", "core.sshCommand", "remote.origin.uploadpack", "alias.status"):
        section, _, name = key.rpartition(".")
        section = 'remote "origin"' if section.startswith("remote") else section
        with (bare / "config").open("a") as file:
            file.write(f'[{section}]\n\t{name} = "touch {ran};false"\n\tbare = false\n\tworktree = .\n\turl = .\n')
    result = await ground.run(*command.split())
    assert result.exit_code != 0
    assert not (bare / "it-ran").exists()


# --- the plan ---


def planned(folder: Path, protection: Protection | None = None) -> dict[str, bool]:
    """What is mounted, and whether it is writable."""
    with ExitStack() as opened:
        descriptor = os.open(folder, os.O_RDONLY)
        opened.callback(os.close, descriptor)
        plan = plan_mounts(
            descriptor, ".", "/llm-do", readonly=False, protection=protection or Protection(), opened=opened
        )
        return {bind.inside: bind.writable for bind in plan.binds}


def test_where_there_is_too_much_to_look_at_nothing_is_writable(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        (ground.folder / f"src/{number}").mkdir()
    monkeypatch.setattr(mounts, "MAX_ENTRIES", 60)
    binds = planned(ground.folder)
    assert binds["/llm-do"] is False
    assert not any(inside.startswith("/llm-do/src") for inside in binds)


async def test_what_could_not_be_looked_at_is_said(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "MAX_BINDS", 2)
    ground.overlays = False
    result = await ground.script("touch src/new docs/new files/new")
    assert result.exit_code != 0
    assert "read-only here" in (result.note or "")
    assert str(ground.folder) not in (result.note or "")


def test_a_deep_folder_is_read_only(tmp_path: Path) -> None:
    deep = tmp_path / "/".join(["d"] * (mounts.MAX_DEPTH + 3))
    deep.mkdir(parents=True)
    binds = planned(tmp_path)
    assert not any(binds.values())


def test_few_open_files_are_taken_where_few_may_be_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def limits(_which: int) -> tuple[int, int]:
        return 256, 1024

    monkeypatch.setattr(mounts.resource, "getrlimit", limits)
    assert mounts.most_binds() == 16


def test_a_link_is_never_mounted(ground: Ground) -> None:
    (ground.folder / "out").symlink_to("/etc")
    (ground.folder / "in").symlink_to("tools.py")
    binds = planned(ground.folder)
    assert "/llm-do/out" not in binds
    assert "/llm-do/in" not in binds


@pytest.mark.parametrize("kind", ["link to a folder", "link to a file", "other folder"])
def test_what_is_swapped_between_looking_and_mounting_is_not_mounted(
    ground: Ground, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = mounts._looked_through  # pyright: ignore[reportPrivateUsage]

    def then_swapped(*given: object) -> object:
        found = real(*given)  # pyright: ignore[reportArgumentType]
        if given[0] == "":
            (ground.folder / "src").rename(ground.folder / "gone")
            if kind == "other folder":
                (ground.folder / "src").mkdir()
            else:
                (ground.folder / "src").symlink_to("workers" if "folder" in kind else "tools.py")
        return found

    monkeypatch.setattr(mounts, "_looked_through", then_swapped)
    assert "/llm-do/src" not in planned(ground.folder)


# --- ordinary use ---


@pytest.mark.control
async def test_files_of_a_folder_of_their_own_are_written_freely(ground: Ground) -> None:
    ground.tree = FILES
    result = await ground.script(
        "echo x > new.txt; mkdir d; mv sub d/; echo y > data.txt; rm d/sub/more.txt; echo z > run.py"
    )
    assert (result.exit_code, result.stderr.text, result.note) == (0, "", None)
    assert ground.changed() == {"files/new.txt", "files/data.txt", "files/sub/more.txt", "files/run.py"}


@pytest.mark.control
async def test_outside_of_the_workers_own_folder_files_that_are_there_are_written(ground: Ground) -> None:
    result = await ground.script("echo x > src/a.txt; echo z > files/new; echo y > notes.md; cat tools.py .git/config")
    assert (result.exit_code, result.stderr.text) == (0, "")
    assert ground.changed() == {"src/a.txt", "files/new", "notes.md"}


@pytest.mark.control
async def test_a_repository_is_read(ground: Ground) -> None:
    ground.tree = FILES
    made = await ground.script("git init -q . && git add -A && git -c user.name=x -c user.email=x@y commit -qm a")
    assert made.exit_code == 0, made.stderr
    assert (await ground.run("git", "status", "--short")).stdout.text == ""
    assert (await ground.run("git", "log", "--format=%s")).stdout.text == "a\n"
