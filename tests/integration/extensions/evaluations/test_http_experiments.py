"""Evaluations at the HTTP door: begun from a file of the workshop by its name, watched, read and compared."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import yaml

from llm_do_temporal.doors.http.app import build_api
from llm_do_temporal.doors.principal import TokenFile, TokenScope
from llm_do_temporal.doors.service import DoorService
from llm_do_temporal.errors import UsageError
from llm_do_temporal.remote import ExperimentStart, RemoteClient
from llm_do_temporal.testing import scripted
from llm_do_temporal.ui.http_server import AppServer, listen
from tests.support.doors.http_client import Program, person, program
from tests.support.runs.place import Place

CASES = [{"name": f"case-{number}", "inputs": f"greet {number}", "expected_output": "Hello!"} for number in range(6)]


def greeting(place: Place, answer: str, instructions: str = "Greet.", **more: Any) -> None:
    """Write an evaluation, and a worker that answers this."""
    keys = {"worker": "main", "cases": CASES, "evaluators": ["EqualsExpected"], **more}
    place.write("greeting.eval.yaml", yaml.safe_dump(keys))
    place.worker("main", scripted(answer), instructions=instructions)


async def evaluated(place: Place, who: Program, **more: Any) -> str:
    """Run the evaluation, and return its id once it has ended."""
    begun = await who.ask("POST", "/experiments", json={"evaluation": "greeting", **more})
    assert begun.status == 202, begun.body
    name = begun.body["experiment"]
    assert begun.headers["location"] == f"/api/v1/experiments/{name}"
    place.started.append(name)
    while True:
        now = (await who.ask("GET", f"/experiments/{name}")).body
        if now["state"] != "running":
            assert now["state"] == "completed", now
            return name


@pytest.mark.thorough
async def test_a_person_evaluates_reads_and_compares(place: Place) -> None:
    greeting(place, "Hello!")
    ada = person(place)
    assert (await ada.ask("GET", "/evaluations")).body == ["greeting"]
    good = await evaluated(place, ada)
    facts = (await ada.ask("GET", f"/experiments/{good}")).body
    assert (facts["evaluation"], facts["worker"], facts["done"], facts["total"]) == ("greeting", "main", 6, 6)
    assert facts["has_results"]
    again = await ada.ask("POST", "/experiments", json={"evaluation": "greeting"})
    assert (again.body["experiment"], again.body["how"]) == (good, "finished")
    first = (await ada.ask("GET", f"/experiments/{good}/results", params={"limit": 4})).body
    rest = (await ada.ask("GET", f"/experiments/{good}/results", params={"after": first["following"]})).body
    results = [*first["results"], *rest["results"]]
    assert [one["case"] for one in results] == [f"case-{number}" for number in range(6)]
    assert {(one["output"], one["scores"]["EqualsExpected"]) for one in results} == {("Hello!", True)}
    case = {"begins": results[0]["run"]}
    while not (listed := (await ada.ask("GET", "/runs", params={**case, "evaluations": True})).body["runs"]):
        pass
    assert [one["run"] for one in listed] == [results[0]["run"]]
    assert (await ada.ask("GET", "/runs", params=case)).body["runs"] == []
    greeting(place, "Go away!", "Be rude.")
    bad = await evaluated(place, ada)
    assert bad != good
    compared = (await ada.ask("GET", "/comparison", params={"one": good, "other": bad})).body
    assert compared["is_worse"]
    (metric,) = compared["comparison"]["metrics"]
    assert (metric["losses"], metric["one"], metric["other"]) == (6, 1.0, 0.0)
    same = await ada.ask("GET", "/comparison", params={"one": good, "other": good})
    assert (same.status, same.body["code"]) == (422, "UsageError")
    part = await evaluated(place, ada, cases=["case-2"], repeats=2)
    assert (await ada.ask("GET", f"/experiments/{part}")).body["total"] == 2


async def test_what_cannot_be_evaluated_is_said_and_nothing_begins(place: Place) -> None:
    greeting(place, "Hello!")
    place.write("other/hidden.eval.yaml", "worker: main\ncases: [{name: a, inputs: b}]\n")
    place.write("broken.eval.yaml", "worker: 3\n")
    ada = person(place)
    for name in ("nothing", "../greeting", "greeting.eval.yaml", "other/hidden", "hidden", "/etc/passwd", "a\0b", "*"):
        refused = await ada.ask("POST", "/experiments", json={"evaluation": name})
        assert (refused.status, refused.body["code"]) == (404, "UnknownHere"), name
    for wrong in (
        {"evaluation": "broken"},
        {"evaluation": "greeting", "repeats": 0},
        {"evaluation": "greeting", "cases": ["case-9"]},
        {"evaluation": "greeting", "worker": "nobody"},
        {"evaluation": "greeting", "file": "x"},
        {"evaluation": ""},
    ):
        refused = await ada.ask("POST", "/experiments", json=wrong)
        assert refused.status in (404, 422), (wrong, refused.body)
    for path in ("/experiments/nothing", "/experiments/nothing/results"):
        assert (await ada.ask("GET", path)).status == 404


@pytest.mark.thorough
async def test_no_program_evaluates_or_reads_what_came_of_it(place: Place) -> None:
    greeting(place, "Hello!")
    place.worker("main", scripted("Hello!"), export=True)
    ada = person(place)
    name = await evaluated(place, ada)
    for who in (program(place), program(place, "reader", frozenset({TokenScope.READ}))):
        for method, path in (
            ("GET", "/evaluations"),
            ("POST", "/experiments"),
            ("GET", "/experiments"),
            ("GET", f"/experiments/{name}"),
            ("GET", f"/experiments/{name}/results"),
            ("GET", f"/comparison?one={name}&other={name}"),
        ):
            sent = {"json": {"evaluation": "greeting"}} if method == "POST" else {}
            refused = await who.ask(method, path, **sent)
            assert (refused.status, refused.body["code"]) == (403, "AccessRefused"), path


async def test_a_program_without_temporal_evaluates_reads_and_compares(place: Place) -> None:
    greeting(place, "Hello!", cases=CASES[:1])
    tokens = TokenFile.of_workshop(place.folder)
    token = tokens.create("ada", frozenset(TokenScope), is_person=True)
    server = AppServer(listen("127.0.0.1", 0, what="the HTTP API"))
    serving = asyncio.create_task(server.serve(build_api(DoorService(place.client, place.folder), tokens)))
    try:
        async with RemoteClient(f"http://127.0.0.1:{server.port}", token) as runs:
            assert await runs.evaluations() == ["greeting"]
            begun = await runs.evaluate(ExperimentStart(evaluation="greeting"))
            place.started.append(begun.experiment)
            while (now := await runs.experiment(begun.experiment)).state == "running":
                pass
            assert now.done == 1
            assert begun.experiment in [one.experiment for one in await runs.experiments()]
            assert [one.output for one in (await runs.results(begun.experiment)).results] == ["Hello!"]
            with pytest.raises(UsageError, match="are the same experiment"):
                await runs.compare(begun.experiment, begun.experiment)
    finally:
        server.stop()
        await serving
