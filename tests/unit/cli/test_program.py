"""The program in a process of its own: exit codes, what goes where, and what is not imported."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from llm_do_temporal.cli.app import COMMANDS
from tests.support.people.forked_program import run_forked

PROGRAM = "from llm_do_temporal.cli.__main__ import main; main()"
NOBODY = "127.0.0.1:1"
"""No server listens there."""


@pytest.fixture
def workshop(tmp_path: Path) -> Path:
    (tmp_path / "workers").mkdir()
    (tmp_path / "workshop.yaml").write_text("model: offline:echo\n")
    (tmp_path / "workers" / "greeter.worker").write_text("description: Greets.\n---\nSay hello.\n")
    (tmp_path / "workers" / "reader.worker").write_text(
        "attachment_policy: {max_attachments: 1, allowed_suffixes: [.pdf]}\n---\nRead it.\n"
    )
    return tmp_path


def environment_in(folder: Path) -> dict[str, str]:
    """The variables of a process that is at home in the folder, without those that say where a server is."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TEMPORAL_", "LLM_DO_"))}
    return kept | {"HOME": str(folder)}


def run(*arguments: str, folder: Path, stdin: str = "", code: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command; from the beginning where its standard input or its start matter."""
    if not stdin and code is None:
        return run_forked(arguments, folder=folder, environment=environment_in(folder))
    return subprocess.run(
        [sys.executable, "-c", code or PROGRAM, *arguments],
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env=environment_in(folder),
    )


_MISTAKES = [
    # a command line that cannot be carried out, what stderr says of it
    (["nonsense"], 'Unknown command "nonsense"'),
    (["start"], "name the worker to run"),
    (["start", "greeter", "hi", "more"], "Unused Tokens: ['more']"),
    (["start", "greeter", "--no-such-flag"], "Unknown option: --no-such-flag"),
    (["start", "greeter", "-o", "yaml"], 'Invalid value "yaml" for -o'),
    (["start", "greeter", "--timeout", "soon"], "unable to convert"),
    (["start", "greeter", "--timeout", "0"], "--timeout 0 is not a number of seconds above zero"),
    (["start", "greeter", "--approve-all", "--strict"], "--approve-all and --strict exclude each other"),
    (["start", "greeter", "--input", "{"], "the value of --input is not JSON"),
    (["start", "greeter", "--input", '{"n": 1e999}'], "the value of --input is not JSON: inf is no number of JSON"),
    (["start", "greeter", "--input", '{"half": "\\ud83d"}'], "the value of --input is not JSON"),
    (
        ["start", "greeter", "not \udcff text"],
        "is not UTF-8 text\n  Type it in UTF-8; if it is",
    ),
    (["start", "greeter", "--input", "@gone.json"], "the file 'gone.json' given with --input cannot be read"),
    (["start", "reader", "-a", "gone.pdf"], "there is no file 'gone.pdf'; check its path"),
    (["start", "reader", "-a", "workshop.yaml"], "'workshop.yaml' has a suffix that worker 'reader' does not accept"),
    (["start", "greeter", "--namespace", "other"], "--namespace says nothing without a server"),
    (["reject", "run", "a1"], "--reason requires an argument"),
    (["start", "greeter", "--each", "no*.pdf"], "--each 'no*.pdf' matches no file here"),
    (["start", "greeter", "--each", __file__, __file__], "the shell has put files in the place of a pattern"),
    (["start", "--each", __file__, __file__], "the shell has put files in the place of a pattern"),
    (["start", "greeter", "-a", __file__, __file__], "the shell has put files in the place of a pattern"),
    (["start", "greeter", "--each-line", __file__, __file__], "the shell has put files in the place of a pattern"),
    (["start", "greeter", "--each", "*", "--each-line", "x"], "--each and --each-line exclude each other"),
    (["start", "greeter", "--each-line", "gone.txt"], "the file 'gone.txt' given with --each-line cannot be read"),
    (["start", "greeter", "--strict-inputs"], "--strict-inputs says nothing without --each"),
    (["start", "greeter", "--as-it-was"], "--as-it-was says nothing without --retry-failed"),
    (["start", "greeter", "--concurrency", "3"], "--concurrency says nothing without --each"),
    (["start", "greeter", "--each", "*", "--concurrency", "0"], "--concurrency 0 is not a number from 1 to 500"),
    (["start", "--retry-failed", "run", "-a", "x"], "--retry-failed takes the items"),
    (["reject", "run", "a1", "--reason", " "], "--reason is empty"),
    (["modify", "run", "a1"], "there is no terminal to edit the arguments in"),
    (["modify", "run", "a1", "--args", "[1]"], "the value of --args is not a JSON object"),
    (["watch", "run", "--from-seq", "3"], "--from-seq says nothing without -o jsonl"),
    (["watch", "run", "-o", "jsonl", "--from-seq", "0"], "--from-seq 0 is not a number above zero"),
    (["approvals", "watch"], "approvals watch needs a terminal"),
    (["export", "run", "-o", "gone/run.md"], "'gone/run.md' given with --output is no place for a file"),
    (["export", "run", "--format", "pdf"], 'Invalid value "pdf" for --format'),
    (["export", "run", "--patch", "--format", "md"], "--patch has a format of its own"),
    (["export", "run", "-o", "run.xlsx"], "no format is known by the suffix '.xlsx'"),
    (["export", "run", "-o", "run.csv", "--format", "md"], "named like a file of the format csv, and --format is md"),
    (["eval", "export", "greeting", "-o", "exp.xls"], "no format is known by the suffix '.xls'"),
    (["eval", "export", "greeting", "-o", "exp.CSV", "--format", "junit"], "like a file of the format csv"),
    (["eval", "export", "greeting", "-o", "e.csv", "--against", "x"], "--against is for --format markdown alone"),
    (["list", "--limit", "0"], "--limit 0 is not a number above zero"),
    (["gc", "--older-than", "soon"], "--older-than soon: 'soon' is not a time"),
    (["gc", "--older-than", f"{'9' * 5_000}d"], "is too long; a time is at most 10000 days"),
    (["check", "gone"], "there is no file or folder 'gone'"),
    (["dev", "--port", "99999"], "99999 is not a port"),
    (["dev", "--address", "h:1"], "cannot use 'h:1'"),
    (["approvals", "--address", "h:1", "--tls-cert-path", "gone.pem"], "the TLS file 'gone.pem' cannot be read"),
]
USAGE = [one for one in _MISTAKES if one[0][0] in {*COMMANDS, "nonsense"}]
"""Without those of commands that are taken out."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("arguments", "said"), USAGE, ids=[" ".join(arguments) for arguments, _ in USAGE])
def test_a_mistake_in_the_command_line_is_one_message_and_exit_code_2(
    arguments: list[str], said: str, workshop: Path
) -> None:
    done = run_forked(arguments, folder=workshop, environment=environment_in(workshop))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("llm-do-temporal: ")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_a_mistake_in_the_command_line_leaves_nothing_behind(workshop: Path) -> None:
    run("start", "greeter", "--approve-all", "--strict", folder=workshop)
    assert not (workshop / ".llm-do").exists()


@pytest.mark.parametrize("arguments", [["start", "nobody"], ["start", "../greeter"], ["start", "broken"]])
def test_a_bad_definition_is_exit_code_8_before_any_server_is_asked(arguments: list[str], workshop: Path) -> None:
    (workshop / "workers" / "broken.worker").write_text("nonsense: 1\n---\nhi\n")
    done = run(*arguments, "--address", NOBODY, folder=workshop)
    assert (done.returncode, done.stdout) == (8, "")


@pytest.mark.extension("maintenance")
def test_gc_through_a_server_does_not_forget_the_runs_of_the_workshops_own(workshop: Path) -> None:
    (workshop / ".llm-do").mkdir()
    (workshop / ".llm-do" / "temporal.db").touch()
    done = run("gc", "--address", NOBODY, folder=workshop)
    assert (done.returncode, done.stdout) == (2, "")
    assert "has runs on its own embedded server too" in done.stderr


@pytest.mark.parametrize("command", [["gc"], ["delete", "run", "--yes"]], ids=lambda command: command[0])
@pytest.mark.extension("maintenance")
def test_the_workshops_own_server_removes_nothing_that_other_servers_may_need(
    command: list[str], workshop: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The store has one blob, older than an hour: of a run that this server knows nothing of."""
    shared = tmp_path_factory.mktemp("shared") / "blobs"
    blob = shared / "sha256" / "2c" / hashlib.sha256(b"foo").hexdigest()
    blob.parent.mkdir(parents=True)
    blob.write_bytes(b"foo")
    os.utime(blob, (1000, 1000))
    (workshop / "workshop.yaml").write_text(f"model: offline:echo\nblobs: {{url: '{shared.as_uri()}'}}\n")
    done = run(*command, folder=workshop)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"runs of other servers may need what is in '{shared.as_uri()}'" in done.stderr
    assert f"LLM_DO_BLOBS_URL={workshop.as_uri()}/.llm-do/blobs" in done.stderr
    assert (blob.exists(), (workshop / ".llm-do").exists()) == (True, False)


def test_no_workshop_is_exit_code_8(tmp_path: Path) -> None:
    done = run("list", folder=tmp_path)
    assert done.returncode == 8
    assert "no workshop.yaml" in done.stderr
    assert "`llm-do-temporal init` makes a workshop" in done.stderr


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "arguments",
    [
        ["start", "greeter", "hi"],
        ["watch", "run"],
        ["result", "run"],
        ["show", "run"],
        ["list"],
        pytest.param(["gc"], marks=pytest.mark.extension("maintenance")),
        pytest.param(["logs", "run"], marks=pytest.mark.extension("export")),
        pytest.param(["export", "run"], marks=pytest.mark.extension("export")),
        ["cancel", "run"],
        ["approvals"],
        ["approve", "run"],
        ["reject", "run", "--reason", "no"],
        ["modify", "run", "--args", "{}"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_no_server_is_exit_code_4_and_says_what_to_do(arguments: list[str], workshop: Path) -> None:
    arguments = [*arguments, "--address", NOBODY]
    done = run_forked(arguments, folder=workshop, environment=environment_in(workshop))
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.splitlines() == [
        f"llm-do-temporal: no Temporal server answers at '{NOBODY}' (Connection refused)",
        "  Start one with `llm-do-temporal dev`, or name another with --address or TEMPORAL_ADDRESS.",
    ]


def test_the_prompt_can_come_from_stdin(workshop: Path) -> None:
    done = run("start", "greeter", "-", "--address", NOBODY, folder=workshop, stdin="x" * 17_000_000)
    assert done.returncode == 2
    assert "the prompt on stdin has more than 16777216 bytes" in done.stderr


def test_an_attachment_is_kept_where_the_worker_service_finds_it(workshop: Path) -> None:
    (workshop / "deck.pdf").write_bytes(b"%PDF-1.4")
    assert run("start", "reader", "-a", "deck.pdf", "--address", NOBODY, folder=workshop).returncode == 4
    kept = [path for path in (workshop / ".llm-do" / "blobs").rglob("*") if path.is_file()]
    assert [path.read_bytes() for path in kept] == [b"%PDF-1.4"]


def test_a_start_warns_of_files_that_no_model_can_read_as_they_are(workshop: Path) -> None:
    given = {
        "cut.pdf": b"%PDF-1.4 ...",
        "locked.pdf": b"%PDF-1.4 trailer << /Encrypt 1 0 R >> startxref 1 %%EOF",
        "page.pdf": b"<html>",
        "sums.xlsx": b"PK\x03\x04",
        "whole.pdf": b"%PDF-1.4 startxref 1 %%EOF",
        "sums.csv": b"\xff\xfea\0",
    }
    for name, data in given.items():
        (workshop / name).write_bytes(data)
    (workshop / "workers" / "all.worker").write_text("attachment_policy: {max_attachments: 9}\n---\nRead.\n")
    attached = [word for name in given for word in ("-a", name)]
    done = run("start", "all", *attached, "--address", NOBODY, folder=workshop)
    (warning,) = [line for line in done.stderr.splitlines() if "as they are" in line]
    assert "'cut.pdf': it was cut: its end is missing; 'locked.pdf': it is encrypted with a password" in warning
    assert "'page.pdf': its content is text/html, not application/pdf; 'sums.xlsx': it was cut" in warning
    assert "whole.pdf" not in warning
    assert "sums.csv" not in warning


def test_with_json_a_run_that_could_not_start_is_an_object_too(workshop: Path) -> None:
    done = run("start", "nobody", "-o", "json", folder=workshop)
    shown = json.loads(done.stdout)
    assert done.returncode == 8
    assert (shown["type"], shown["run"], shown["error"]["code"]) == ("run.failed", None, "WorkerNotFound")


def test_tracebacks_appear_when_they_are_asked_for(workshop: Path) -> None:
    code = "import os; os.environ['LLM_DO_DEBUG'] = '1'\nfrom llm_do_temporal.cli.__main__ import main; main()"
    done = run("list", "--limit", "0", folder=workshop, code=code)
    assert done.returncode == 2
    assert "Traceback" in done.stderr


def test_check_prints_problems_and_counts_them(workshop: Path) -> None:
    assert run("check", folder=workshop).returncode == 0
    (workshop / "workers" / "broken.worker").write_text("description: x\nnonsense: 1\n---\nhi\n")
    done = run("check", folder=workshop)
    assert done.returncode == 8
    assert done.stdout.startswith("workers/broken.worker:2: error: unknown key 'nonsense'")
    assert done.stderr == "1 error, 0 warnings\n"


def test_check_of_one_file_is_about_that_file(workshop: Path) -> None:
    (workshop / "workers" / "broken.worker").write_text("nonsense: 1\n---\nhi\n")
    assert run("check", "workers/greeter.worker", folder=workshop).returncode == 0
    assert run("check", "workers/broken.worker", folder=workshop).returncode == 8


def test_help_names_every_command(tmp_path: Path) -> None:
    done = run("--help", folder=tmp_path)
    assert done.returncode == 0
    assert all(f"│ {command} " in done.stdout for command in COMMANDS)


SPY = """
import os, sys
leave = os._exit
def spy(code):
    sys.stderr.write("IMPORTED " + " ".join(sorted(sys.modules)) + chr(10))
    sys.stderr.flush()
    leave(code)
os._exit = spy
from llm_do_temporal.cli.__main__ import main
main()
"""
"""Leaves like the program does, naming every module that was imported on the way."""


def imported(done: subprocess.CompletedProcess[str]) -> set[str]:
    line = next(line for line in done.stderr.splitlines() if line.startswith("IMPORTED "))
    return {".".join(name.split(".")[:2]) if name.startswith("llm_do") else name.split(".")[0] for name in line.split()}


def test_help_imports_neither_temporal_nor_yaml(tmp_path: Path) -> None:
    done = run("--help", folder=tmp_path, code=SPY)
    assert done.returncode == 0
    assert not imported(done) & {"temporalio", "yaml", "jinja2", "opentelemetry", "pydantic", "pydantic_ai"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "arguments",
    [["approvals"], ["approve", "run"], ["list"], ["watch", "run"], ["start", "greeter", "hi"]],
    ids=lambda arguments: arguments[0],
)
def test_no_command_imports_agents(arguments: list[str], workshop: Path) -> None:
    done = run(*arguments, "--address", NOBODY, folder=workshop, code=SPY)
    assert done.returncode == 4
    assert not imported(done) & {
        "opentelemetry",
        "pydantic_ai",
        "llm_do_temporal.activities",
        "llm_do_temporal.service",
        "llm_do_temporal.workflows",
    }


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("antropic:claude-sonnet-5-5", "Did you mean 'anthropic:claude-sonnet-5-5'?"),
        ("offline:note", "Did you mean 'offline:notes'?"),
        (
            "anthropic:claude-sonnet-5-5",
            "ANTHROPIC_API_KEY is not set, and the model 'anthropic:claude-sonnet-5-5' needs",
        ),
    ],
)
def test_a_model_that_cannot_answer_is_a_mistake_before_a_server_is_started(
    model: str, said: str, workshop: Path
) -> None:
    done = run("start", "greeter", "hi", "--model", model, folder=workshop)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert not (workshop / ".llm-do/temporal.db").exists()
