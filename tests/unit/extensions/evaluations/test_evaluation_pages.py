"""Pages of evaluations: they show what came of cases, and obey nothing that a model wrote."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from llm_do_temporal.extensions.evaluations import pages
from llm_do_temporal.extensions.evaluations.client import Experiment, ExperimentListing
from llm_do_temporal.extensions.evaluations.files import THEIRS, read_evaluation
from llm_do_temporal.extensions.evaluations.policy.scores import EVALUATORS
from tests.support.extensions.evaluations.example_records import BEGAN, example_listing, example_record
from tests.support.people.browser import Page
from tests.support.people.signed_in import BASE, browser_with

OLD = example_record(cases=12, digest="a1" * 32)
NEW = example_record(
    cases=12,
    digest="b2" * 32,
    shift=-0.2,
    errors=("deck-3",),
    worker_version="f" * 64,
    began=BEGAN + timedelta(days=2),
)
OTHER = example_record(name="<b>tones</b>", digest="c3" * 32, cases=1, repeats=1)
RECORDS = {record.workflow: record for record in (NEW, OLD, OTHER)}


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch) -> list[ExperimentListing]:
    """Experiments of the server, the newest first; a test may change them."""
    found = [example_listing(record) for record in RECORDS.values()]

    async def listed(_: Any) -> list[ExperimentListing]:
        return found

    async def read(_: Any, listing: ExperimentListing) -> Experiment:
        return Experiment(listing, RECORDS[listing.workflow])

    monkeypatch.setattr(pages, "list_experiments", listed)
    monkeypatch.setattr(pages, "read_listed", read)
    return found


async def opened(address: str) -> Page:
    # The server is not asked: readers are replaced.
    return await (await browser_with(SimpleNamespace(temporal=None))).open(address)


@pytest.mark.usefixtures("listings")
async def test_all_evaluations_have_their_experiments_and_trends() -> None:
    page = await opened("/evaluations")
    assert page.status == 200
    assert page.html.count("<figure") == 4
    assert "b2b2b2b2b2b2" in page.html
    assert "/evaluations/a1a1a1a1a1a1/compare/b2b2b2b2b2b2" in page.html
    assert "&lt;b&gt;tones&lt;/b&gt;" in page.html
    assert "<b>tones" not in page.html
    assert '<circle class="new"' in page.html  # the newest is of another version of the worker


@pytest.mark.usefixtures("listings")
async def test_one_evaluation_is_shown_by_its_name() -> None:
    page = await opened("/evaluations?name=pitches")
    assert "b2b2b2b2b2b2" in page.html
    assert "c3c3c3c3c3c3" not in page.html


async def test_without_experiments_the_page_says_how_to_begin(listings: list[ExperimentListing]) -> None:
    listings.clear()
    page = await opened("/evaluations")
    assert "No evaluation has been run." in page.html


@pytest.mark.usefixtures("listings")
async def test_an_experiment_has_its_gate_its_metrics_and_a_row_for_each_case() -> None:
    page = await opened("/evaluations/b2b2b2b2b2b2")
    assert "Not all thresholds are kept." in page.html
    assert "2 runs of cases ended in an error; wanted at most 0: not kept." in page.html
    assert page.html.count('<th scope="row"><a href="/evaluations/b2b2b2b2b2b2?case=deck-') == 12
    assert "/runs/eval-pitches-b2b2b2b2b2b2%2Fdeck-3%2F1" in page.html
    assert '<option value="a1a1a1a1a1a1">' in page.html


@pytest.mark.usefixtures("listings")
async def test_a_case_has_its_answers_scores_and_reasons_and_obeys_none_of_them() -> None:
    page = await opened("/evaluations/a1a1a1a1a1a1?case=deck-1")
    assert "Evaluate deck 1." in page.html
    assert "could not judge it: polite.py cannot be read" in page.html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.html
    assert "<script>alert(1)" not in page.html
    assert '<span class="hidden-char">' in page.html


@pytest.mark.usefixtures("listings")
async def test_an_error_is_shown_as_one() -> None:
    page = await opened("/evaluations/b2b2b2b2b2b2?case=deck-3")
    assert "<b>ModelFailed</b>: the provider said no" in page.html


@pytest.mark.usefixtures("listings")
async def test_two_experiments_stand_side_by_side_the_worst_case_first() -> None:
    page = await opened("/evaluations/a1a1a1a1a1a1/compare/b2b2b2b2b2b2")
    assert page.status == 200
    assert "critic.quality</b>: B is worse" in page.html
    assert "These stand beside the verdicts and are no part of them." in page.html
    assert page.html.count('<details class="panel case"') == 12
    assert page.html.index("<b>deck-3</b>") < page.html.index("<b>deck-1</b>")
    assert "the definition &#39;evaluator.worker&#39;: bbbbbbbb, then ffffffff" in page.html
    assert "<script>alert(1)" not in page.html


@pytest.mark.usefixtures("listings")
async def test_one_case_of_two_experiments_has_a_page_of_its_own() -> None:
    page = await opened("/evaluations/a1a1a1a1a1a1/compare/b2b2b2b2b2b2?case=deck-4")
    assert page.html.count('<details class="panel case"') == 1
    assert page.html.count("Run 1:") == 2


@pytest.mark.usefixtures("listings")
async def test_the_form_leads_to_the_comparison() -> None:
    page = await opened("/evaluations/b2b2b2b2b2b2/compare?with=a1a1a1a1a1a1")
    assert page.address == f"{BASE}/evaluations/a1a1a1a1a1a1/compare/b2b2b2b2b2b2"


@pytest.mark.usefixtures("listings")
async def test_experiments_with_other_cases_are_not_compared() -> None:
    page = await opened("/evaluations/a1a1a1a1a1a1/compare/a1a1a1a1a1a1")
    assert page.status == 422
    assert "are the same experiment" in page.html


@pytest.mark.usefixtures("listings")
@pytest.mark.parametrize(
    "address", ["/evaluations/nothing", "/evaluations/a1a1a1a1a1a1?case=none", "/evaluations/a1a1a1a1a1a1/compare/xyz"]
)
async def test_what_is_not_there_is_said_to_be_missing(address: str) -> None:
    page = await opened(address)
    assert page.status == 404


async def test_an_experiment_that_goes_on_says_how_far_it_is(listings: list[ExperimentListing]) -> None:
    listings[0] = example_listing(NEW, state="running", ended_at=None, facts={"record": "", "done": 5, "passed": None})
    page = await opened("/evaluations/b2b2b2b2b2b2")
    assert "There are no results yet." in page.html
    assert "5 of 24 done" in page.html


async def test_an_experiment_whose_key_is_missing_says_so(listings: list[ExperimentListing]) -> None:
    listings[0] = example_listing(NEW, missing_key="k7", facts={"digest": "", "name": NEW.workflow, "metrics": {}})
    page = await opened(f"/evaluations/{NEW.workflow}")
    assert "key k7 is missing here" in page.html
    assert "key k7 is missing here" in (await opened("/evaluations")).html


PAGE = Path(__file__).parents[4] / "docs" / "reference" / "evaluation-file.md"
_NAMES = re.compile(r"`([^`]+)`")


def test_the_example_of_the_page_is_an_evaluation(tmp_path: Path) -> None:
    example = PAGE.read_text("utf-8").split("```yaml\n", 1)[1].split("```", 1)[0]
    (tmp_path / "workers").mkdir()
    (tmp_path / "workshop.yaml").write_text("sandbox: {root: files}\n")
    path = tmp_path.resolve() / "workers" / "greetings.eval.yaml"
    path.write_text(example)
    found = read_evaluation(path, tmp_path.resolve())
    assert [str(problem) for problem in found.problems] == []
    assert found.spec is not None
    assert len(found.spec.cases) == 2


def test_every_evaluator_is_on_the_page_with_its_keys() -> None:
    text = PAGE.read_text("utf-8")
    rows = [line.split("|")[1:-1] for line in text.split("\n") if line.startswith("| `")]
    told = {_NAMES.findall(cells[0])[0]: {*_NAMES.findall(cells[1]), *_NAMES.findall(cells[2])} for cells in rows}
    arguments = {_NAMES.findall(cells[0])[0]: _NAMES.findall(cells[1]) for cells in rows}
    for name, kind in EVALUATORS.items():
        assert told[name] == kind.model_fields.keys() - {"kind", "evaluation_name"}, name
        assert arguments[name] == ([] if kind.argument is None else [kind.argument]), name
    assert all(f"`{name}`" in text for name in THEIRS)
