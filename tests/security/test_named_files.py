"""However a command spells a file, it is held to the file that was shown; what cannot be looked at is not run."""

from __future__ import annotations

import io
import shutil
import tarfile
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.commands import ShellActivities
from llm_do_temporal.messages.activities import CommandPreview, ShellInput
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.storage.places import workshop_blobs
from tests.support.patience import PATIENCE_SECONDS

SHOWN, SWAPPED = "echo shown\n", "echo SWAPPED\n"
SPELLED: dict[str, tuple[str, ...]] = {
    "beside a word with many commas": ("sh", "run.sh", ",".join(map(str, range(230)))),
    "beside a word with many colons": ("sh", "run.sh", ":".join(map(str, range(230)))),
    "beside many words": ("sh", "run.sh", *map(str, range(200))),
    "through a linked folder and back": ("sh", "link/../nested.sh"),
    "through it twice": ("sh", "link/../deeper/../nested.sh"),
    "through it from the top": ("sh", "./link/..//./nested.sh"),
    "by its process": ("sh", "/proc/self/cwd/run.sh"),
    "by its thread": ("sh", "/proc/thread-self/cwd/run.sh"),
    "by its process, with detours": ("sh", "/proc//self/./cwd//run.sh"),
    "glued to several letters": ("tar", "-xOfrun.tar"),
    "glued to two letters": ("tar", "-Oxfrun.tar"),
    "as an address": ("cat", "file:///run.sh"),
    "as an address with a host": ("cat", "file://localhost/run.sh"),
    "as an address in capitals": ("cat", "FILE://LOCALHOST/run.sh"),
    "as an address, escaped": ("cat", "file:///%72un%2esh"),
    "as an address without slashes": ("cat", "file:run.sh?mode=ro", ".dump"),
    "with the number of a page": ("cat", "run.sh[0]", "out.png"),
    "with a fragment": ("cat", "run.sh#part"),
    "without its suffix": ("cat", "page"),
    "without its suffix, in a folder": ("cat", "./deep/page"),
}
TOO_MANY: dict[str, tuple[str, ...]] = {
    "words": ("sh", "run.sh", *map(str, range(1200))),
    "commas": ("sh", "run.sh", ",".join(map(str, range(1200)))),
    "equal signs": ("sh", "run.sh", "=".join(map(str, range(1200)))),
    "letters of an option": ("sh", "run.sh", "-" + "".join(map(str, range(1200)))),
    "all of these": ("sh", "run.sh", *(f"{n},x{n}:y{n}@z{n}" for n in range(300))),
}
BOTH = pytest.mark.parametrize("isolated", [True, False], ids=["isolated", "bare"])


def shell(workshop: Path, *, isolated: bool) -> ShellActivities:
    blobs = workshop_blobs(workshop)
    return ShellActivities(workshop, blobs) if isolated else ShellActivities(workshop, blobs, bwrap=lambda: None)


def asked(*argv: str, **more: object) -> ShellInput:
    tree = Tree(mounts=(Mount(at="/", root="."),))
    return ShellInput.model_validate(
        {"argv": argv, "tree": tree, "cwd": "/", "timeout_seconds": PATIENCE_SECONDS, **more}
    )


def fill(workshop: Path, text: str) -> None:
    (workshop / "deep/deeper").mkdir(parents=True, exist_ok=True)
    for name in ("run.sh", "deep/nested.sh", "page.js", "deep/page.js"):
        (workshop / name).write_text(text)
    with tarfile.open(workshop / "run.tar", "w") as tar:
        member = tarfile.TarInfo("m")
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text.encode()))
    if not (workshop / "link").is_symlink():
        (workshop / "link").symlink_to("deep/deeper")


def previewed(activities: ShellActivities, *argv: str) -> CommandPreview:
    return ActivityEnvironment().run(activities.preview_command, asked(*argv))


async def refused(activities: ShellActivities, request: ShellInput) -> str:
    with pytest.raises(ApplicationError) as raised:
        await ActivityEnvironment().run(activities.run_command, request)
    return str(raised.value.type)


@pytest.mark.sampled(3)
@BOTH
@pytest.mark.parametrize("spelled", SPELLED)
async def test_a_command_whose_file_has_changed_does_not_run(tmp_path: Path, spelled: str, isolated: bool) -> None:
    fill(tmp_path, SHOWN)
    activities = shell(tmp_path, isolated=isolated)
    before = previewed(activities, *SPELLED[spelled])
    fill(tmp_path, SWAPPED)
    assert await refused(activities, asked(*SPELLED[spelled], expected=before.files)) == "ShownDiffers"


@pytest.mark.parametrize("name", ["run.sh", "deep/nested.sh", "deep/../run.sh", "link/../nested.sh"])
async def test_a_bare_command_is_held_by_the_name_of_the_host_too(tmp_path: Path, name: str) -> None:
    fill(tmp_path, SHOWN)
    argv = ("sh", f"{tmp_path}/{name}")
    activities = shell(tmp_path, isolated=False)
    before = previewed(activities, *argv)
    fill(tmp_path, SWAPPED)
    assert await refused(activities, asked(*argv, expected=before.files)) == "ShownDiffers"


LINKS: dict[str, tuple[tuple[str, ...], str]] = {
    "to another folder": (("du", "deep"), "other"),
    "to a folder outside": (("du", "deep"), "/usr/share"),
    "to a file outside": (("cat", "notes.md"), "/etc/hostname"),
    "to nothing": (("cat", "notes.md"), "gone.md"),
    "in the way to a new file": (("cp", "run.sh", "deep/new.sh"), "other"),
}


def replace_by_link(workshop: Path, name: str, target: str) -> None:
    (workshop / "other").mkdir()
    shutil.rmtree(workshop / name, ignore_errors=True)
    (workshop / name).symlink_to(target)


@pytest.mark.parametrize("link", LINKS)
def test_a_link_that_leads_elsewhere_is_part_of_what_is_shown(tmp_path: Path, link: str) -> None:
    argv, target = LINKS[link]
    fill(tmp_path, SHOWN)
    activities = shell(tmp_path, isolated=True)
    plain = {one.path: one.place for one in previewed(activities, *argv).files or ()}
    name = argv[-1].partition("/")[0]
    replace_by_link(tmp_path, name, target)
    (found,) = (one for one in previewed(activities, *argv).files or () if one.path == f"/{argv[-1]}")
    assert plain.get(found.path) is None
    assert found.sha256 is None
    assert found.place not in (None, argv[-1])
    assert str(tmp_path.parent) not in str(found.place)
    assert "usr" not in str(found.place)


@BOTH
@pytest.mark.parametrize("link", LINKS)
async def test_a_folder_that_became_a_link_is_not_the_one_that_was_shown(
    tmp_path: Path, link: str, isolated: bool
) -> None:
    argv, target = LINKS[link]
    fill(tmp_path, SHOWN)
    activities = shell(tmp_path, isolated=isolated)
    before = previewed(activities, *argv)
    replace_by_link(tmp_path, argv[-1].partition("/")[0], target)
    assert await refused(activities, asked(*argv, expected=before.files)) == "ShownDiffers"


@BOTH
@pytest.mark.parametrize("many", TOO_MANY)
async def test_what_has_more_names_than_are_looked_at_is_refused(tmp_path: Path, many: str, isolated: bool) -> None:
    fill(tmp_path, SHOWN)
    activities = shell(tmp_path, isolated=isolated)
    with pytest.raises(ApplicationError) as raised:
        previewed(activities, *TOO_MANY[many])
    assert raised.value.type == "SandboxRefusal"
    assert "at most 1000 are looked at" in str(raised.value)
    assert await refused(activities, asked(*TOO_MANY[many], expected=())) == "SandboxRefusal"


@pytest.mark.parametrize("command", [("cat", "run.sh"), ("pwd",), ("cat", "/etc/hostname")], ids=repr)
@pytest.mark.parametrize("shown", [True, False], ids=["shown isolated", "shown bare"])
async def test_isolation_is_part_of_what_was_shown(tmp_path: Path, command: tuple[str, ...], shown: bool) -> None:
    fill(tmp_path, SHOWN)
    before = previewed(shell(tmp_path, isolated=shown), *command)
    request = asked(*command, expected=before.files, expected_isolated=before.isolated)
    assert await refused(shell(tmp_path, isolated=not shown), request) == "ShownDiffers"


@pytest.mark.control
@BOTH
async def test_what_nobody_was_asked_about_runs_with_any_number_of_words(tmp_path: Path, isolated: bool) -> None:
    fill(tmp_path, SHOWN)
    request = asked(*TOO_MANY["words"])
    result = await ActivityEnvironment().run(shell(tmp_path, isolated=isolated).run_command, request)
    assert result.stdout.text == "shown\n"
