"""Checks of changes that are not made yet: where they run, what is kept of them, and what is said where they do not."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.activities.commands import LayerGrounds
from llm_do_temporal.errors import BlobsUnreachable
from llm_do_temporal.extensions.review.activities import CheckActivities
from llm_do_temporal.extensions.review.messages import CHECK_OUTPUT_BYTES, CheckChangesInput, CheckResult
from llm_do_temporal.policy.layers.layer import NO_LAYER
from llm_do_temporal.sandbox.layers.contents import LayerContents
from tests.support.workshops.layered import MemoryBlobs, seen
from tests.support.workshops.layered_commands import HAS_OVERLAYS, LayeredCommands, layered_commands


@pytest.fixture
def commands(tmp_path: Path) -> Generator[LayeredCommands]:
    """A layer to check, in a workshop that is as it was afterwards."""
    made = layered_commands(tmp_path)
    before = seen(made.folder)
    yield made
    assert {path: node for path, node in seen(made.folder).items() if path != "workshop.yaml"} == {
        path: node for path, node in before.items() if path != "workshop.yaml"
    }


async def checked(commands: LayeredCommands, command: str, **more: Any) -> CheckResult:
    manifest = LayerContents(commands.blobs).manifest_of(commands.layer)
    checks = CheckActivities(commands.folder, commands.blobs, **more)
    return await ActivityEnvironment().run(checks.check_changes, CheckChangesInput(manifest=manifest, command=command))


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("", "it is no command: it begins with the name of a program"),
        ("'' x", "it is no command: it begins with the name of a program"),
        ("pytest 'src", "it cannot be split into words: no closing quotation"),
        ("no-such-program-at-all x", "there is no program 'no-such-program-at-all' where this command would run"),
        ("true \0", "it is no command: it begins with the name of a program"),
    ],
)
async def test_a_command_that_is_none_is_a_result(commands: LayeredCommands, command: str, says: str) -> None:
    result = await checked(commands, command)
    assert result == CheckResult(command=command, problem=f"the check was not run: {says}")
    assert not result.passed


async def test_without_overlays_the_reason_is_the_result(commands: LayeredCommands) -> None:
    grounds = LayerGrounds(commands.folder, commands.blobs, lambda _bwrap: "this kernel has none")
    result = await checked(commands, "true", layers=grounds)
    assert result.exit_code is None
    assert result.problem == (
        "the check was not run: commands cannot work on changes that are not made yet: this kernel has none"
    )


async def test_a_blob_store_that_is_away_is_asked_again(commands: LayeredCommands) -> None:
    class Away(MemoryBlobs):
        def read(self, sha256: str) -> bytes:
            raise BlobsUnreachable("the blob store cannot be used: it is away")

    asked = CheckChangesInput(manifest=LayerContents(MemoryBlobs()).manifest_of(NO_LAYER), command="true")
    grounds = LayerGrounds(commands.folder, Away(), lambda _bwrap: None)
    with pytest.raises(ApplicationError) as caught:
        await ActivityEnvironment().run(
            CheckActivities(commands.folder, Away(), lambda: "bwrap", layers=grounds).check_changes, asked
        )
    assert not caught.value.non_retryable


if HAS_OVERLAYS:

    async def test_a_check_sees_the_changes_and_what_it_writes_is_gone(commands: LayeredCommands) -> None:
        await commands.sh("echo changed > src/one.py; rm src/two.py; mkdir new; echo x > new/x")
        before = commands.changes
        result = await checked(commands, "sh -c 'pwd; cat src/one.py new/x; ls src; rm -r src; echo y > new/y; exit 3'")
        assert (result.exit_code, result.problem) == (3, "")
        assert result.output == "/\nchanged\nx\ndeep\none.py\n"
        again = await checked(commands, "ls src new")
        assert again.output == "new:\nx\n\nsrc:\ndeep\none.py\n"
        assert again.passed
        assert commands.changes == before

    async def test_a_check_runs_at_the_top_of_the_workers_files_also_of_those_they_may_only_read(
        commands: LayeredCommands,
    ) -> None:
        (commands.folder / "workshop.yaml").write_text("sandbox: {root: src, readonly: true}\n")
        result = await checked(commands, "sh -c 'ls; echo x > cache; cat cache; ls ../docs 2>/dev/null'")
        assert result.output == "deep\none.py\ntwo.py\nx\n"

    async def test_both_streams_are_kept_in_their_order_and_only_the_end(commands: LayeredCommands) -> None:
        result = await checked(commands, "sh -c 'echo 1; echo 2 >&2; echo 3'")
        assert result.output == "1\n2\n3\n"
        result = await checked(commands, "seq 1 100000")
        assert result.output.endswith("\n99999\n100000\n")
        assert CHECK_OUTPUT_BYTES - 10 <= len(result.output) <= CHECK_OUTPUT_BYTES
        assert result.output.split("\n")[0].isdigit()

    async def test_a_check_that_takes_too_long_has_not_passed(commands: LayeredCommands) -> None:
        script = "trap 'exit 0' TERM; while :; do sleep 0.05; done"
        result = await checked(commands, f'sh -c "{script}"', seconds=0.5)
        assert (result.exit_code, result.problem) == (None, "it was stopped after 0.5 seconds")
        assert not result.passed

    async def test_a_check_has_no_network_and_no_key(
        commands: LayeredCommands, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
        result = await checked(commands, "sh -c 'env; cat /proc/net/route /llm-do/.llm-do/state'")
        assert "sk-very-secret" not in result.output
        assert "No such file" in result.output
        assert "eth" not in result.output

    async def test_a_workshop_that_cannot_be_read_is_told(commands: LayeredCommands) -> None:
        (commands.folder / "workshop.yaml").write_text("sandbox: {root: nowhere}\n")
        result = await checked(commands, "true")
        assert "sandbox root 'nowhere' does not exist" in result.problem
        assert result.exit_code is None
