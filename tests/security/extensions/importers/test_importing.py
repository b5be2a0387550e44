"""Workers of strangers, as they are imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_do_temporal.extensions.importers.convert import import_workers
from tests.support.workshops.folders import SECRET

STRANGERS = (
    *(
        "{{ file('.env') }}",
        "{% include '.env' %}",
        "{{ 'a' * 2000000000 }}",
        "{{ ''.__class__ }}",
        "{% extends 'a' %}",
    ),
    *(
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{{ nobody }}",
        "{{ lipsum() }}",
    ),
)


@pytest.mark.parametrize("body", STRANGERS)
def test_importing_renders_nothing_of_a_strangers(tmp_path: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / ".env").write_text(SECRET)
    (source / "main.worker").write_text(f"---\nname: main\n---\nHello. {body}\n")

    def fail(*_: object) -> str:
        raise AssertionError("something was rendered")

    monkeypatch.setattr("llm_do_temporal.definitions.workers.instructions.render", fail)
    report = import_workers(source, tmp_path / "made")
    monkeypatch.undo()
    assert set(report.workers) == {"main"}
    written = [path.read_text() for path in (tmp_path / "made").rglob("*") if path.is_file()]
    assert not any(SECRET in text for text in written)
