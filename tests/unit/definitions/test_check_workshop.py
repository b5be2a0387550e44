"""`check_workshop` reports everything at once, in the order of the files."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_do_temporal.definitions.check import check_workshop
from llm_do_temporal.extension import definition_files
from tests.support.workshops.workshop_folder import WorkshopFolder


def test_a_good_workshop_has_no_problems(workshop: WorkshopFolder) -> None:
    workshop.write("workshop.yaml", "model: fast\nmodels: {fast: anthropic:x}\nsandbox: {root: .}\n")
    workshop.write(
        "workers/chief.worker",
        """\
        model: fast
        compatible_models: ["anthropic:*"]
        toolsets: {filesystem: {}, delegation: {writer: {}, allow_workers: [chief, writer]}}
        ---
        Lead.
        """,
    )
    workshop.write(
        "workers/writer.worker", "model: offline:echo\ntoolsets: {delegation: {allow_workers: [chief, '*']}}\n---\nx"
    )
    assert workshop.said() == []


def test_a_folder_without_a_workshop_is_one_problem(tmp_path: Path) -> None:
    (problem,) = check_workshop(tmp_path)
    assert (problem.file, problem.severity) == ("workshop.yaml", "error")
    assert problem.next_step is not None


def test_all_the_problems_of_all_files_are_reported(workshop: WorkshopFolder) -> None:
    workshop.write("workshop.yaml", "modell: x\nmax_depth: -1\nsandbox: {root: nowhere}\n")
    workshop.write(
        "workers/a.worker",
        """\
        descripton: x
        locked: 5
        toolsets:
          delegation:
            gone: {}
        output_schema_ref: gone.py:X
        ---
        Hello
        {{ name }}
        """,
    )
    workshop.write("workers/b.worker", "not keys\n")
    found = [(problem.file, problem.line) for problem in workshop.problems()]
    assert found == [
        ("workers/a.worker", 1),
        ("workers/a.worker", 2),
        ("workers/a.worker", 5),
        ("workers/a.worker", 6),
        ("workers/a.worker", 9),
        ("workers/b.worker", 1),
        ("workshop.yaml", 1),
        ("workshop.yaml", 2),
        ("workshop.yaml", 3),
    ]
    assert not any(str(workshop.root) in str(problem) for problem in workshop.problems())


@pytest.mark.parametrize(
    ("settings", "front", "said"),
    [
        # delegates that do not exist, by each face
        ("", "toolsets: {delegation: {gone: {}}}", "error workers/a.worker:1: there is no worker 'gone'"),
        (
            "",
            "toolsets:\n  delegation:\n    allow_workers:\n    - a\n    - pkg:a",
            "error workers/a.worker:5: there is no worker 'pkg:a'",
        ),
        # models
        ("", "model: claude", "error workers/a.worker:1: model 'claude' is neither an alias of workshop.yaml nor"),
        ("model: claude", "locked: true", "error workshop.yaml:1: model 'claude' is neither an alias"),
        (
            "models: {m: n}",
            "locked: true",
            "error workshop.yaml:1: alias 'm' stands for 'n', which is not provider:name",
        ),
        (
            "models: {m: openai:x}",
            "model: m\ncompatible_models: ['anthropic:*']",
            "error workers/a.worker:1: worker 'a' does not work with model 'openai:x'",
        ),
        # files
        (
            "sandbox: {root: ., readonly: true}",
            "sandbox:\n  restrict: /src\n  readonly: false",
            "error workers/a.worker:3: '/src' is read-only for the caller",
        ),
        ("", "sandbox: {restrict: /src}", "error workers/a.worker:1: sandbox restrict '/src' asks for files"),
        (
            "",
            "toolsets:\n  filesystem:",
            "warning workers/a.worker:2: the worker has file tools, but the workshop has no",
        ),
        ("", "sandbox: {paths: {in: {root: in, mode: rw}}}", "warning workers/a.worker:1: 'sandbox.paths' is deprec"),
        # a free default beside a rule that blocks
        (
            "sandbox: {root: .}",
            "toolsets:\n  shell:\n    rules: [{pattern: rm, blocked: true}]\n    default: {approval_required: false}",
            "warning workers/a.worker:4: commands that no rule fits run without a question, so the rule that blocks",
        ),
        # attachments nobody takes
        (
            "",
            "attachment_policy: {max_attachments: 1}\ntoolsets: {delegation: {none: {}}}",
            "warning workers/a.worker:2: attachments are allowed here, but worker 'none' takes none",
        ),
    ],
)
def test_one_problem_is_said_once(workshop: WorkshopFolder, settings: str, front: str, said: str) -> None:
    workshop.write("workshop.yaml", settings)
    workshop.write("workers/a.worker", f"{front}\n---\nx")
    workshop.write("workers/none.worker", "attachment_policy: {max_attachments: 0}\n---\nx")
    (only,) = workshop.said()
    assert only.startswith(said) or said in only


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("lock: templates/gone.yaml", ["error workers/a.worker:3: there is no template 'templates/gone.yaml'"]),
        ("lock: pkg:gone", ["error workers/a.worker:3: there is no template 'pkg:gone'"]),
        ("allow: [pkg:summarizer, gone.yml]", ["error workers/a.worker:3: there is no template 'gone.yml'"]),
        ("allow: [templates/good]", ["error workers/a.worker:3: 'templates/good' is not a template"]),
        # what is named wrongly is said once, and nothing is looked for
        ("lock: ../gone.yaml", ["error workers/a.worker:3: '../gone.yaml' is not a path inside the workshop"]),
        # of those that a glob stands for, only the mistakes in them are said
        ("allow: ['pkg:*', './templates/*.yaml']", []),
        ("allow: ['./templates/**/*.yaml', 'gone/*']", ["error templates/deep/bad.yaml:2: unknown key 'surprise'"]),
        ("lock: templates/deep/text.yml", ["error templates/deep/text.yml: template 'templates/deep/text.yml' is not"]),
        # a glob of everything is one of other files too
        ("allow: ['**', '*.yaml', '**/*.yml']", []),
        ("{enabled: false, lock: templates/gone.yaml}", []),
        # the model is chosen like any worker's, not here
        ("model: offline:echo", ["error workers/a.worker:3: unknown key 'model'"]),
    ],
)
def test_templates_that_a_worker_names_are_checked(workshop: WorkshopFolder, rules: str, said: list[str]) -> None:
    workshop.write("templates/good.yaml", "system: Judge.\n")
    workshop.write("templates/deep/bad.yaml", "system: Judge.\nsurprise: 1\n")
    workshop.write("templates/deep/text.yml", "just text\n")
    workshop.write("workers/a.worker", f"toolsets:\n  delegation:\n    templates: {{{rules.strip('{}')}}}\n---\nx")
    found = workshop.said()
    assert len(found) == len(said)
    assert all(line.startswith(words) for line, words in zip(found, said, strict=True))


def test_a_missing_delegate_comes_with_the_name_that_was_meant(workshop: WorkshopFolder) -> None:
    workshop.write("workers/chief.worker", "toolsets: {delegation: {evalutor: {}}}\n---\nx")
    workshop.write("workers/evaluator.worker", "---\n---\nx")
    (problem,) = workshop.problems()
    assert problem.next_step == "Did you mean 'evaluator'?"


@pytest.mark.parametrize(
    ("model", "steps"),
    [
        ("anthropic:claude-sonet-5-5", ["Did you mean 'anthropic:claude-sonnet-5-5'?"]),
        ("openai-responses:gpt-5-minni", ["Did you mean 'openai-responses:gpt-5-mini'?"]),
        ("anthropic:claude-sonnet-5-5", []),
        ("anthropic:Claude-Sonnet-5.5", []),
        # newer than the list, or one's own
        ("openai:ft:gpt-5:acme", []),
        ("anthropic:quux-9", []),
        ("ollama:gtp-5", []),
    ],
)
def test_a_model_beside_one_of_the_price_list_is_warned_of(
    workshop: WorkshopFolder, model: str, steps: list[str]
) -> None:
    workshop.write("workers/a.worker", f"model: {model}\n---\nx")
    found = workshop.problems()
    assert [problem.next_step for problem in found] == steps
    assert all(problem.severity == "warning" for problem in found)


def test_files_that_are_never_used_are_warned_of(workshop: WorkshopFolder) -> None:
    workshop.write("workers/a.worker", "---\n---\nx")
    workshop.write("a.yaml", "instructions: x\n")
    workshop.write("workers/deep/er/b.worker", "---\n---\nx")
    assert workshop.said() == [
        "warning a.yaml: never used: 'workers/a.worker' defines 'a' too",
        "warning workers/deep/er/b.worker: never used: "
        "a worker stands in workers/NAME.worker or workers/NAME/worker.worker",
    ]


def test_a_file_whose_name_no_worker_can_have_is_an_error(workshop: WorkshopFolder) -> None:
    workshop.write("workers/Bad Name.worker", "---\n---\nx")
    (said,) = workshop.said()
    assert said.startswith("error workers/Bad Name.worker: worker name 'Bad Name' is not valid")


@pytest.mark.parametrize(
    "place", ["workers/{}.worker", "workers/{}/worker.worker", "{}.worker", "workers/deep/{}.worker"]
)
@pytest.mark.parametrize("name", ["._a", ".#a", ".a", "~$a", "__MACOSX/._a", "__MACOSX/workers/a"])
def test_files_of_archives_and_editors_are_no_workers(workshop: WorkshopFolder, name: str, place: str) -> None:
    workshop.write("workers/a.worker", "toolsets: {delegation: {templates: {allow: ['templates/**']}}}\n---\nx")
    workshop.write("templates/ok.yaml", "instructions: x\n")
    known = workshop.registry().names()
    assert workshop.said() == []
    for path in (place.format(name), f"templates/{name}.yaml", f"workers/{name}.eval.yaml", f"{name}.eval.yaml"):
        (file := workshop.root / path).parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X\xff\xfe")
    workshop.write("workers/.DS_Store", "\0")
    assert workshop.said() == []
    assert workshop.registry().names() == known
    assert not [path for files in definition_files() for path in files.find(workshop.root)]


def test_links_that_editors_lock_files_with_are_no_workers(workshop: WorkshopFolder) -> None:
    workshop.write("workers/a.worker", "---\n---\nx")
    (workshop.root / "workers/.#a.worker").symlink_to("ada@laptop.42:1")
    (workshop.root / "workers/.#b.worker").symlink_to("a.worker")
    assert workshop.said() == []


def test_a_hidden_file_is_checked_too(workshop: WorkshopFolder) -> None:
    workshop.write("workers/a.worker", "---\n---\nx")
    workshop.write("workers/generated/a.worker", "locked: 5\n---\nx")
    assert [problem.severity for problem in workshop.problems()] == ["warning", "error"]


@pytest.mark.parametrize(
    ("settings", "front", "said"),
    [
        # a worker's own folders in a workshop without a sandbox, and within one
        ("", "sandbox:\n  paths:\n    in: {root: there}\n    out: {root: made, mode: rw}", []),
        ("sandbox: {root: .}", "sandbox:\n  paths:\n    in: {root: there/below}", []),
        # that reach out of it, or ask for more
        (
            "sandbox: {root: made}",
            "sandbox:\n  paths:\n    in: {root: there}",
            ["error workers/a.worker:2: sandbox path 'in' ('there') lies outside its caller's files"],
        ),
        (
            "sandbox: {root: ., readonly: true}",
            "sandbox:\n  paths:\n    in: {root: there, mode: rw}",
            ["error workers/a.worker:2: sandbox path 'in' asks for mode rw where its caller can only read ('/')"],
        ),
        # that are not there, or no folders; one that is written to is made
        (
            "",
            "sandbox:\n  paths:\n    in: {root: gone}",
            ["warning workers/a.worker:3: the folder 'gone' of '/in' does not exist; it is only read"],
        ),
        (
            "",
            "sandbox:\n  paths:\n    in: {root: there/a.txt, mode: rw}",
            ["warning workers/a.worker:3: the folder 'there/a.txt' of '/in' is not a folder"],
        ),
        # the workshop's files are as they are
        ("sandbox: {root: ., readonly: true}", "sandbox:\n  restrict: /gone", []),
    ],
)
def test_a_workers_own_folders_are_held_against_the_workshop(
    workshop: WorkshopFolder, settings: str, front: str, said: list[str]
) -> None:
    workshop.write("there/below/b.txt", "b")
    workshop.write("there/a.txt", "a")
    (workshop.root / "made").mkdir()
    workshop.write("workshop.yaml", settings)
    workshop.write("workers/a.worker", f"{front}\n---\nx")
    found = [one for one in workshop.said() if "deprecated" not in one]
    assert len(found) == len(said)
    assert all(line.startswith(words) for line, words in zip(found, said, strict=True))


@pytest.mark.parametrize(
    ("settings", "caller", "callee", "said"),
    [
        ("sandbox: {root: .}", "sandbox: {restrict: /a}", "sandbox: {restrict: /b}", "'/b' lies outside the caller's"),
        ("sandbox: {root: .}", "sandbox: {readonly: true}", "sandbox: {readonly: false}", "'/' is read-only for the"),
        # without a sandbox of the workshop: who has folders of its own can give no others
        ("", "sandbox: {paths: {a: {root: a}}}", "sandbox: {paths: {b: {root: b}}}", "path 'b' ('b') lies outside"),
        ("", "sandbox: {paths: {a: {root: a}}}", "sandbox: {paths: {b: {root: a/b}}}", None),
        ("", "description: x", "sandbox: {paths: {b: {root: b}}}", None),
        ("sandbox: {root: .}", "sandbox: {restrict: /a}", "description: x", None),
    ],
)
def test_a_call_that_its_files_would_refuse_is_found_before(
    workshop: WorkshopFolder, settings: str, caller: str, callee: str, said: str | None
) -> None:
    for folder in ("a/b", "b"):
        (workshop.root / folder).mkdir(parents=True)
    workshop.write("workshop.yaml", settings)
    toolsets = "toolsets: {delegation: {judge: {}, allow_workers: ['*']}}"
    workshop.write("workers/main.worker", f"{caller}\n{toolsets}\n---\nx")
    workshop.write("workers/judge.worker", f"{callee}\n---\nx")
    found = [one for one in workshop.said() if "deprecated" not in one]
    assert len(found) == (said is not None)
    if said is not None:
        assert found[0].startswith("warning workers/main.worker:2: a call of 'judge' will be refused: ")
        assert said in found[0]


def test_a_model_without_batches_is_named(workshop: WorkshopFolder) -> None:
    workshop.write(
        "workshop.yaml",
        "model: groq:llama-3.3-70b-versatile\nturns: batch\nmodels: {both: [anthropic:claude-sonnet-5-5, chat], "
        "chat: {model: openai-chat:x, base_url: 'http://127.0.0.1:9/v1'}}\n",
    )
    workshop.write("workers/b.worker", "turns: now\n---\nx")
    workshop.write("workers/c.worker", "turns: batch\nmodel: both\n---\nx")
    workshop.write("workers/d.worker", "model: anthropic:claude-sonnet-5-5\n---\nx")
    workshop.write("workers/e.worker", "---\nx")
    said = [problem for problem in check_workshop(workshop.root) if "batch API" in problem.message]
    assert [(one.file, one.severity) for one in said] == [("workers/c.worker", "error"), ("workers/e.worker", "error")]
    assert said[0].line == 1
    assert "'openai-chat:x'" in said[0].message
    assert "Set `turns: now`" in str(said[0].next_step)
