"""Mistakes in the command line of `certify`, in a process of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.people.forked_program import run_forked

USAGE = [
    (["greeter", "--every", "0"], "--every 0 is not a number above zero"),
    (["greeter", "--kill", "cat"], 'Invalid value "cat" for --kill'),
    (["greeter.eval.yaml", "hi"], "PROMPT says nothing beside the evaluation 'greeter.eval.yaml'"),
    (["greeter.eval.yaml", "--fork-at", "main@1"], "--fork-at says nothing beside the evaluation"),
    (["gone.eval.yaml"], "there is no evaluation file 'gone.eval.yaml'"),
    (["greeter", "--address", "h:1"], "leaves 'h:1' alone"),
    (["greeter", "--model", "openai:gpt-5"], "'openai:gpt-5' may charge for each time"),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("arguments", "said"), USAGE, ids=[" ".join(arguments) for arguments, _ in USAGE])
def test_a_mistake_is_one_message_and_exit_code_2(arguments: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "workers").mkdir()
    (tmp_path / "workshop.yaml").write_text("model: offline:echo\n")
    (tmp_path / "workers" / "greeter.worker").write_text("description: Greets.\n---\nSay hello.\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TEMPORAL_", "LLM_DO_"))}
    done = run_forked(["certify", *arguments], folder=tmp_path, environment=kept | {"HOME": str(tmp_path)})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("llm-do-temporal: ")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 2
