"""Forks over the HTTP API: who may make one, what it comes to before it starts, and one for each key."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.doors.principal import TokenScope
from llm_do_temporal.testing import scripted
from tests.support.doors.http_client import person, program
from tests.support.runs.parked import FILESYSTEM, write_call
from tests.support.runs.place import Place

START = frozenset({TokenScope.START, TokenScope.READ})


async def test_a_person_forks_a_run_and_knows_before_what_that_comes_to(place: Place) -> None:
    place.worker("writer", scripted(write_call("/a.txt"), "Done."), toolsets=FILESYSTEM, export=True)
    ci, ada = program(place), person(place)
    run = (await ada.start("writer")).body["run"]
    place.started.append(run)
    await ada.until(run, "waiting")
    await ada.decide(run, "a1")
    await ada.until(run, "completed")
    plan = await ada.ask("POST", f"/runs/{run}/forks/forecast", json={"at": ["main@2"]})
    assert (plan.status, plan.body["is_free"], plan.body["estimate"]["reused"]) == (
        200,
        False,
        {"low": 1, "high": 1},
    ), plan.body
    free = await ada.ask("POST", f"/runs/{run}/forks/forecast", json={})
    assert free.body["is_free"]
    forks = [
        await ada.ask("POST", f"/runs/{run}/forks", json={"at": ["main@2"]}, headers={"Idempotency-Key": "k"})
        for _ in range(2)
    ]
    assert [one.status for one in forks] == [202, 202], forks
    assert forks[0].body["run"] == forks[1].body["run"]
    place.started.append(forks[0].body["run"])
    other = await ada.ask("POST", f"/runs/{run}/forks", json={"at": ["main@1"]}, headers={"Idempotency-Key": "k"})
    assert (other.status, other.body["detail"]) == (422, "this key was used before, with another request")
    ended = await ada.until(forks[0].body["run"], "completed")
    assert (ended["output"], ended["fork_of"], ended["started_by"]) == ("Done.", run, "ada")
    assert ended["usage"]["requests"] == 1
    for who in (ci, program(place, "other", START)):
        refused = await who.ask("POST", f"/runs/{run}/forks", json={})
        assert refused.status == 403, refused.body
    for changes in (
        {"at": ["main@99"]},
        {"at": ["x"]},
        {"model": "opnai:gpt-5"},
        {"worker": "/etc/passwd"},
        {"results": ["main@1=@/etc/passwd"]},
        {"decide": ["a1=approve"]},
        {"settings": ["toolsets=shell"]},
    ):
        assert (await ada.ask("POST", f"/runs/{run}/forks", json=changes)).status == 422, changes


@pytest.mark.thorough
@pytest.mark.parametrize("model", ["gpt-5", "quux:m"])
async def test_a_fork_warns_of_what_may_fail_in_the_answer_that_has_begun_it(place: Place, model: str) -> None:
    place.worker("writer", scripted("Done."), export=True)
    ada = person(place)
    run = (await ada.start("writer")).body["run"]
    place.started.append(run)
    await ada.until(run, "completed")
    asked: dict[str, Any] = {"json": {"model": model}, "headers": {"Idempotency-Key": "k"}}
    forks = [(await ada.ask("POST", f"/runs/{run}/forks", **asked)).body for _ in range(2)]
    assert forks[0]["run"] == forks[1]["run"]
    place.started.append(forks[0]["run"])
    assert [model.partition(":")[0] in one for one in forks[0]["warnings"]] == [True], forks
    assert forks[1]["warnings"] == []
    assert (await ada.until(forks[0]["run"], "completed"))["warnings"] == []
