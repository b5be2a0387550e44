from __future__ import annotations

import pytest

from llm_do_temporal.policy.models.context_window import first_kept


@pytest.mark.parametrize(
    ("sizes", "max_tokens", "left_out"),
    [
        pytest.param([], 10, 0, id="nothing was said"),
        pytest.param([4000, 4000], None, 0, id="no limit"),
        pytest.param([20, 20], 10, 0, id="exactly at the limit"),
        pytest.param([20, 21], 10, 1, id="one character more: down to half"),
        pytest.param([10, 10, 10, 10, 1], 10, 3, id="as many as it takes"),
        pytest.param([10, 10, 10, 10, 1, 10, 10], 10, 3, id="no more until it is full again"),
        pytest.param([10, 10, 10, 10, 1, 10, 10, 10], 10, 6, id="then again"),
        pytest.param([500], 10, 0, id="the newest stays, however long"),
        pytest.param([5, 500], 10, 1, id="and nothing else then"),
    ],
)
def test_what_is_left_out_of_a_long_conversation(sizes: list[int], max_tokens: int | None, left_out: int) -> None:
    assert first_kept(sizes, max_tokens) == left_out
