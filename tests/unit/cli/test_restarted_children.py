"""When a host starts a child process again, and what it reports of one that does not stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_do_temporal.client.embedded.host import MOST_FAILURES, STEADY_SECONDS, Restarts
from llm_do_temporal.errors import DefinitionError, UsageError


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def failed(log: Path, *, code: int | None = 1, logged: str = "") -> UsageError:
    """Return the error after a child that logs this has failed as often as it may."""
    restarts = Restarts("worker service", log, Clock())

    def fail() -> float:
        restarts.begin()
        with log.open("a") as file:
            file.write(logged)
        return restarts.delay_after(code)

    for _ in range(MOST_FAILURES - 1):
        fail()
    with pytest.raises(UsageError) as found:
        fail()
    return found.value


def test_each_start_comes_later_than_the_one_before(tmp_path: Path) -> None:
    restarts = Restarts("worker service", tmp_path / "log", Clock())
    delays: list[float] = []
    for _ in range(MOST_FAILURES - 1):
        restarts.begin()
        delays.append(restarts.delay_after(1))
    assert delays == [0.25, 0.5, 1.0, 2.0]
    restarts.begin()
    with pytest.raises(UsageError, match=f"the worker service ended {MOST_FAILURES} times in a row"):
        restarts.delay_after(1)


def test_a_child_that_stayed_for_a_while_begins_with_the_first_delay(tmp_path: Path) -> None:
    clock = Clock()
    restarts = Restarts("worker service", tmp_path / "log", clock)
    for _ in range(3 * MOST_FAILURES):
        restarts.begin()
        clock.now += STEADY_SECONDS
        assert restarts.delay_after(-9) == 0.25


@pytest.mark.parametrize("code", [UsageError.exit_code, DefinitionError.exit_code])
def test_a_mistake_in_the_configuration_is_reported_at_the_first_end(tmp_path: Path, code: int) -> None:
    log = tmp_path / "service.log"
    log.write_text("of an earlier service\n")
    restarts = Restarts("worker service", log, Clock())
    restarts.begin()
    with log.open("a") as file:
        file.write("llm-do-temporal: the setting is wrong\nSet another.\n")
    with pytest.raises(UsageError) as found:
        restarts.delay_after(code)
    assert str(found.value) == (
        f"the worker service ended at its start (exit code {code}): llm-do-temporal: the setting is wrong Set another."
    )
    assert found.value.next_step is not None
    assert ".llm-do/service.log" in found.value.next_step


def test_a_mistake_in_a_file_that_is_being_edited_does_not_end_a_host_that_was_steady(tmp_path: Path) -> None:
    clock = Clock()
    restarts = Restarts("worker service", tmp_path / "log", clock)
    restarts.begin()
    clock.now += STEADY_SECONDS
    restarts.delay_after(-15)
    restarts.begin()
    assert restarts.delay_after(DefinitionError.exit_code) == 0.5


@pytest.mark.parametrize(
    ("code", "logged", "told"),
    [
        (
            1,
            'Traceback (most recent call last):\n  File "x.py", line 1\n    a\nImportError: b\n',
            "(exit code 1): ImportError: b",
        ),
        (-9, "", "(signal SIGKILL): no reason given"),
        (None, "listen: address in use\n", "(no answer): listen: address in use"),
        (1, "one\x1b[31m\ntwo\n", "one"),
    ],
)
def test_the_reason_is_what_the_child_has_logged_last(tmp_path: Path, code: int | None, logged: str, told: str) -> None:
    message = str(failed(tmp_path / "log", code=code, logged=logged))
    assert told in message
    assert "Traceback" not in message
    assert "\x1b" not in message


def test_a_key_in_the_log_is_not_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-abcdefghijklmnopqrstuvwx")
    message = str(failed(tmp_path / "log", logged="refused: sk-abcdefghijklmnopqrstuvwx\n"))
    assert "refused" in message
    assert "abcdefghijkl" not in message


def test_a_long_log_is_reported_in_part(tmp_path: Path) -> None:
    assert len(str(failed(tmp_path / "log", logged="x" * 100_000 + "\n"))) < 1_000
