"""Files that define a worker, known without running any of them."""

from __future__ import annotations

from pathlib import Path

from llm_do_temporal.definitions.registry.registry import worker_files
from llm_do_temporal.definitions.workers.places import WorkerPlace, named_worker

WORKER = """---
schema_in_ref: inputs.py:Order
output_schema_ref: shapes.results.Receipt
toolsets:
  custom: {count_words: {}}
---
Do it {% include 'tone.md' %}.
"""


def names(root: Path, text: str) -> set[str]:
    """Write a worker in a folder of its own; return its files below the workshop."""
    path = root / "workers/clerk/worker.worker"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    found = worker_files(WorkerPlace(named_worker(path), path, root))
    assert found[0] == path
    return {file.relative_to(root).as_posix() for file in found[1:]}


def test_included_texts_classes_and_functions_are_looked_for_beside_the_worker_and_in_the_workshop(
    tmp_path: Path,
) -> None:
    beside = {f"workers/clerk/{name}" for name in ("inputs.py", "tone.md", "tools.py")}
    assert names(tmp_path, WORKER) == {*beside, "inputs.py", "tone.md", "tools.py"}


def test_names_that_lead_out_of_the_workshop_are_not_looked_at(tmp_path: Path) -> None:
    text = "---\nschema_in_ref: ../secret.py:Key\noutput_schema_ref: /etc/secret.py:Key\n---\nDo it.\n"
    assert names(tmp_path, text) == set()


def test_a_file_with_mistakes_is_its_own_only_file(tmp_path: Path) -> None:
    assert names(tmp_path, "---\nmodel: [\n---\nDo it.\n") == set()


def test_a_worker_in_a_folder_is_called_like_the_folder() -> None:
    assert [named_worker(Path(path)) for path in ("a/clerk.worker", "a/clerk/worker.worker")] == ["clerk", "clerk"]
