"""Reads that a fork takes from the record of another run, where the record cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ExecuteActivityInput

from llm_do_temporal.activities.reuse import RecordedReads
from llm_do_temporal.activities.runtime.records import ForkRecords
from llm_do_temporal.messages.effects import ReadFileInput
from llm_do_temporal.messages.experiments.source import ForkSource
from llm_do_temporal.policy.files.sandbox import Mount
from llm_do_temporal.storage.places import workshop_blobs


@pytest.mark.parametrize("content", [None, b"", b"{}", b"[" * 100_000], ids=["gone", "empty", "other", "deep"])
async def test_a_record_that_cannot_be_read_is_a_final_failure(tmp_path: Path, content: bytes | None) -> None:
    blobs = workshop_blobs(tmp_path)
    index = "0" * 64 if content is None else blobs.put_bytes(content)
    fork = ForkSource(run="first", index=index, then=True)
    request = ReadFileInput(
        mount=Mount(at="/", root="."), relative="a.txt", path="/a.txt", max_chars=10, offset=0, fork=fork
    )
    following: Any = None
    inbound = RecordedReads(blobs, ForkRecords(blobs)).intercept_activity(following)

    async def read() -> Any:
        return await inbound.execute_activity(ExecuteActivityInput(fn=read, args=[request], executor=None, headers={}))

    with pytest.raises(ApplicationError) as caught:
        await ActivityEnvironment().run(read)
    assert caught.value.non_retryable
