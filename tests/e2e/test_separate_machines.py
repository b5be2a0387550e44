"""The files of a workshop on one machine, workflows and models on another, in the namespace of a team."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.support.patience import eventually
from tests.support.people.desk import Desk, use_provider
from tests.support.providers.pitch_decks import pitch_decks, received_pdfs
from tests.support.providers.provider import FakeProvider

NAMESPACE = "pitch"


def write_elsewhere(desk: Desk, folder: Path, store: Path) -> Desk:
    """Give the files of a workshop a queue of their own; return the machine that has `workshop.yaml` alone."""
    settings = yaml.safe_load((desk.workshop / "workshop.yaml").read_text())
    settings |= {
        "separate_files": True,
        "blobs": {"url": store.as_uri()},
        "providers": {"openai": {"max_requests_per_second": 50}},
    }
    folder.mkdir()
    for one in (desk.workshop, folder):
        (one / "workshop.yaml").write_text(yaml.safe_dump(settings))
    return Desk(folder, dict(desk.environment), desk.groups)


def enter_namespace(desk: Desk, address: str, profiles: Path) -> None:
    """Make a namespace at this server, and let commands find both by a profile and a variable."""
    desk.environment["TEMPORAL_ADDRESS"] = address
    desk.temporal("operator", "namespace", "create", "--namespace", NAMESPACE)
    del desk.environment["TEMPORAL_ADDRESS"]
    profiles.write_text(f'[profile.team]\naddress = "{address}"\n')
    desk.environment |= {
        "TEMPORAL_CONFIG_FILE": str(profiles),
        "TEMPORAL_PROFILE": "team",
        "TEMPORAL_NAMESPACE": NAMESPACE,
    }


@pytest.mark.thorough
def test_files_elsewhere_are_read_attached_and_written_in_the_namespace_of_a_team(
    desk: Desk, address: str, tmp_path: Path
) -> None:
    enter_namespace(desk, address, tmp_path / "temporal.toml")
    elsewhere = write_elsewhere(desk, tmp_path / "elsewhere", tmp_path / "store")
    with FakeProvider(pitch_decks()) as provider:
        use_provider(elsewhere, provider)
        elsewhere.environment |= {"LLM_DO_TARGET_CPU": "0.9", "LLM_DO_TARGET_MEMORY": "0.75"}
        desk.begin("worker", "--only", "files")
        elsewhere.begin("worker", "--only", "workflows,models")
        job = ("start", "pitch_orchestrator", "evaluate every deck", "--model", "openai-chat:m", "--id", "job")
        desk.type(*job, "--approve-all")
    assert sorted(desk.evaluations()) == desk.decks
    attached = {deck for request in provider.requests for deck in received_pdfs(request.body)}
    assert attached == {path.read_bytes() for path in (desk.workshop / "files/pipeline").glob("*.pdf")}
    assert [path.name for path in elsewhere.workshop.iterdir()] == ["workshop.yaml"]
    desk.environment["TEMPORAL_ADDRESS"] = address
    found = ("workflow", "list", "--query", "LlmDoState = 'closed' AND LlmDoWorker = 'pitch_orchestrator'")
    eventually(lambda: "job" in desk.temporal(*found), "the namespace lists the run by what it is searched by")
