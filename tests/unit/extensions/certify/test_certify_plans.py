"""Plans of crash proofs, as their flags make them."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_do_temporal.client.start import StartRequest
from llm_do_temporal.errors import UsageError
from llm_do_temporal.extensions.certify.command import Blows

REQUEST = StartRequest(worker="editor", read_prompt=lambda: "", read_input=lambda: None)


def test_a_fork_is_rehearsed_only_where_a_turn_of_it_is_named() -> None:
    assert Blows().plan(Path(), REQUEST).fork_at is None
    assert Blows(fork_at=("main@2",)).plan(Path(), REQUEST).fork_at == ("main@2",)


@pytest.mark.parametrize("blows", [Blows(every=0), Blows(jobs=0)])
def test_numbers_below_one_are_refused(blows: Blows) -> None:
    with pytest.raises(UsageError, match="is not a number above zero"):
        blows.plan(Path(), REQUEST)
