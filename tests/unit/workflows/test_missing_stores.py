"""What an activity that could not reach the blob store means for the effect it was to have."""

from __future__ import annotations

import pytest
from temporalio.exceptions import ApplicationError

from llm_do_temporal.activities.failures import as_failure
from llm_do_temporal.errors import BlobsUnreachable, EffectFailed
from llm_do_temporal.workflows.effects import lacks_blobs
from llm_do_temporal.workflows.once import is_unknown
from tests.unit.workflows.test_gate import activity_failed


@pytest.mark.parametrize(
    ("failure", "away"),
    [
        (as_failure(BlobsUnreachable("it does not answer")), True),
        # As the SDK makes one of an error that leaves its own reading or keeping of a value.
        (ApplicationError("it does not answer", type="BlobsUnreachable"), True),
        (as_failure(EffectFailed("no such file")), False),
    ],
)
def test_an_effect_waits_for_the_blob_store_and_is_not_repeated_without_a_word(
    failure: ApplicationError, away: bool
) -> None:
    error = activity_failed(failure)
    assert lacks_blobs(error) is away
    assert is_unknown(error) is away
