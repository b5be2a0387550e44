"""A command runs with the files that it names as they were when it was shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.commands import ShellActivities
from llm_do_temporal.messages.activities import CommandPreview, ShellInput
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.storage.places import workshop_blobs
from tests.support.patience import PATIENCE_SECONDS

RUNS = "#!/bin/sh\ntrue\n"


def swapped(workshop: Path) -> None:
    (workshop / "run.sh").write_text("#!/bin/sh\ntouch it-ran\n")


def linked(workshop: Path) -> None:
    (workshop / "run.sh").rename(workshop / "other.sh")
    swapped(workshop)
    (workshop / "run.sh").rename(workshop / "evil.sh")
    (workshop / "run.sh").symlink_to("evil.sh")


CHANGES: dict[str, Callable[[Path], object]] = {
    "other bytes": swapped,
    "a link": linked,
    "gone": lambda workshop: (workshop / "run.sh").unlink(),
    "other permissions": lambda workshop: (workshop / "run.sh").chmod(0o777),
}
WORDS: dict[str, tuple[str, ...]] = {
    "as the program": ("./run.sh",),
    "as an argument": ("sh", "run.sh"),
    "from the top": ("sh", "/run.sh"),
    "by detours": ("sh", "sub/../run.sh"),
    "in an option": ("sh", "--file=run.sh"),
    "glued to an option": ("sh", "-frun.sh"),
    "in a list": ("sh", "a,run.sh"),
    "behind a colon": ("sh", "x:run.sh"),
    "for a program that reads it": ("cat", "run.sh"),
}


def shell(workshop: Path) -> tuple[ShellActivities, Callable[..., ShellInput]]:
    (workshop / "sub").mkdir(parents=True)
    (workshop / "run.sh").write_text(RUNS)
    (workshop / "run.sh").chmod(0o755)

    def asked(*argv: str, **more: Any) -> ShellInput:
        tree = Tree(mounts=(Mount(at="/", root="."),))
        return ShellInput(argv=argv, tree=tree, cwd="/", timeout_seconds=PATIENCE_SECONDS, **more)

    return ShellActivities(workshop, workshop_blobs(workshop), bwrap=lambda: None), asked


async def preview(activities: ShellActivities, request: ShellInput) -> CommandPreview:
    return ActivityEnvironment().run(activities.preview_command, request)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("words", WORDS)
async def test_a_command_whose_file_has_changed_does_not_run(tmp_path: Path, words: str, change: str) -> None:
    activities, asked = shell(tmp_path / "workshop")
    before = await preview(activities, asked(*WORDS[words]))
    assert [one.path for one in before.files or ()] == ["/run.sh"]
    CHANGES[change](tmp_path / "workshop")
    with pytest.raises(ApplicationError) as differs:
        await ActivityEnvironment().run(activities.run_command, asked(*WORDS[words], expected=before.files))
    assert differs.value.type == "ShownDiffers"
    assert str(tmp_path) not in str(differs.value)
    assert not (tmp_path / "workshop/it-ran").exists()


@pytest.mark.parametrize("words", [one for one in WORDS if one != "as the program"])
async def test_a_command_whose_file_is_there_only_now_does_not_run(tmp_path: Path, words: str) -> None:
    activities, asked = shell(tmp_path / "workshop")
    (tmp_path / "workshop/run.sh").unlink()
    before = await preview(activities, asked(*WORDS[words]))
    assert before.files == ()
    swapped(tmp_path / "workshop")
    with pytest.raises(ApplicationError) as differs:
        await ActivityEnvironment().run(activities.run_command, asked(*WORDS[words], expected=before.files))
    assert differs.value.type == "ShownDiffers"


@pytest.mark.control
async def test_a_command_whose_files_are_as_they_were_runs(tmp_path: Path) -> None:
    activities, asked = shell(tmp_path / "workshop")
    before = await preview(activities, asked("cat", "run.sh"))
    result = await ActivityEnvironment().run(activities.run_command, asked("cat", "run.sh", expected=before.files))
    assert (result.exit_code, result.stdout.text) == (0, RUNS)
