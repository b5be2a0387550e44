"""Workers of other programs become a workshop that `check` accepts, and what could not be carried over is said."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from llm_do_temporal.definitions.check import check_workshop
from llm_do_temporal.definitions.registry.registry import Registry
from llm_do_temporal.definitions.workshop import load_workshop
from llm_do_temporal.errors import UsageError
from llm_do_temporal.extensions.importers.convert import import_workers
from llm_do_temporal.extensions.importers.drafts import ImportReport
from llm_do_temporal.messages.definitions import PinnedWorker
from llm_do_temporal.policy.files.sandbox import WorkshopSandbox

OLDER = """\
name: orchestrator
description: Coordinates.
model: claude-sonnet-4
entry: true
sandbox:
  paths:
    input: {root: ./pipeline, mode: ro, suffixes: [".pdf"], read_approval: true}
    output: {root: ./evaluations, mode: rw}
toolsets:
  filesystem: {}
  delegation: {allow_workers: [Evaluator]}
server_side_tools: [{tool_type: web_search, max_uses: 3}]
attachment_policy: {max_attachments: 1, allowed_suffixes: [.pdf]}
---

{{ file('PROCEDURE.md') }}
"""


def put(folder: Path, **files: str) -> None:
    """Write files; `__` stands for `/` and `_dot_` for a dot."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder to import from."""
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


def imported(source: Path) -> ImportReport:
    """Import, and hold what was made against `check`."""
    report = import_workers(source, source.parent / "made")
    errors = [str(one) for one in check_workshop(report.target) if one.severity == "error"] if report.workers else []
    assert errors == []
    return report


def worker(report: ImportReport, name: str) -> PinnedWorker:
    """A worker as it would be loaded."""
    return Registry(load_workshop(report.target)).load(name)


def said(report: ImportReport) -> str:
    """All notes."""
    return "\n".join(str(note) for note in report.notes)


def test_workers_in_the_older_form_keep_folders_delegation_and_text(source: Path) -> None:
    put(source, workers__orchestrator_dot_worker=OLDER, PROCEDURE_dot_md="Do it well.\n")
    put(source, workers__Evaluator_dot_worker="---\nname: Evaluator\n---\nEvaluate.\n")
    report = imported(source)
    main = worker(report, "orchestrator")
    assert main.instructions == "Do it well."
    assert main.model == "anthropic:claude-sonnet-4"
    assert main.sandbox is not None
    assert main.sandbox.paths is not None
    assert set(main.sandbox.paths) == {"input", "output"}
    assert main.delegation is not None
    assert main.delegation.allow_workers == ("evaluator",)
    assert main.server_side_tools[0].tool_type == "web_search"
    assert main.attachment_policy.max_attachments == 1
    assert (report.target / "pipeline").is_dir()
    assert "renamed from 'Evaluator' to 'evaluator'" in said(report)
    assert "'entry' is left out" in said(report)


@pytest.mark.parametrize("config", ["workshop.yaml", "project.yaml"])
def test_settings_of_the_project_are_carried_over(source: Path, config: str) -> None:
    (source / config).write_text("name: decks\nmodel: openai:gpt-5\nsandbox: {root: src, readonly: true}\nfoo: 1\n")
    put(source, main_dot_worker="---\ntoolsets: {filesystem: {}}\n---\nGo.\n")
    report = imported(source)
    settings = load_workshop(report.target).config
    assert (settings.name, settings.model) == ("decks", "openai:gpt-5")
    assert settings.sandbox == WorkshopSandbox(root="src", readonly=True)
    assert "'foo' is left out" in said(report)


def test_folders_of_the_project_go_into_its_workers(source: Path) -> None:
    put(source, project_dot_yaml="sandbox: {paths: {docs: {root: ./docs}}}\n")
    put(source, main_dot_worker="---\ntoolsets: {filesystem: {}}\n---\nGo.\n")
    pinned = worker(imported(source), "main")
    assert pinned.sandbox is not None
    assert set(pinned.sandbox.paths or {}) == {"docs"}


def test_a_worker_with_a_folder_keeps_what_stands_beside_it(source: Path) -> None:
    text = "---\nname: brief\n---\n{% include 'style.md' %}{{ file('MORE.md') }}\n"
    put(source, workers__brief__worker_dot_worker=text, workers__brief__MORE_dot_md="Really.")
    put(source, workers__brief__style_dot_md="Be short. {{ mine }}\n")
    report = imported(source)
    assert worker(report, "brief").instructions == "Be short. {{ mine }}Really."
    assert "'style.md' is included as text" in said(report)


def test_schemas_and_python_tools_come_with_the_files_they_import_and_are_not_run(source: Path) -> None:
    put(
        source,
        main_dot_worker="output_schema_ref: shapes.Answer\ntoolsets: {custom: {slug: {}, ghost: {}}}\n---\nGo.\n",
        shapes_dot_py="import base\n\n\nclass Answer(base.Base):\n    text: str\n",
        base_dot_py="from pydantic import BaseModel\n\n\nclass Base(BaseModel):\n    n: int\n",
        tools_dot_py="import pathlib\n\n\ndef slug(text: str) -> str:\n    'Slug.'\n    return text\n",
    )
    report = import_workers(source, source.parent / "made")
    assert {path.name for path in report.target.glob("*.py")} == {"shapes.py", "base.py", "tools.py"}
    assert not list(source.rglob("__pycache__"))
    assert "Python tool 'ghost' is left out" in said(report)
    assert set((worker(report, "main").output_schema or {})["properties"]) == {"n", "text"}


def test_python_tools_that_orchestrate_take_their_names_from_here(source: Path) -> None:
    put(
        source,
        main_dot_worker="toolsets: {delegation: {judge: {}}, custom: {ask: {}}}\n---\nGo.\n",
        judge_dot_worker="---\n---\nJudge.\n",
        tools_dot_py="from llm_do import tool_context\nfrom llm_do.types import ToolContext\n\n\n@tool_context\n"
        "async def ask(task: str, ctx: ToolContext) -> str:\n    return await ctx.call_tool('judge', task)\n",
    )
    report = imported(source)
    assert "'tools.py' imports from llm_do; that was changed to llm_do_temporal" in said(report)
    assert "llm_do." not in (report.target / "tools.py").read_text()


def test_a_prompt_in_a_file_of_its_own_is_taken(source: Path) -> None:
    put(source, main_dot_worker="description: x\n", prompts__main_dot_txt="Say {{ this }} literally.")
    assert worker(imported(source), "main").instructions == "Say {{ this }} literally."


AGENT = """\
---
name: {name}
description: Reviews code: use it often. Example: <a: b>
tools: {tools}
model: {model}
---
Review. Keep {{{{ braces }}}} and {{% endraw %}} as they are.
"""


@pytest.mark.parametrize(
    ("tools", "filesystem", "readonly", "rules"),
    [
        ("Read, Grep", True, True, None),
        ("Read, Write", True, None, None),
        ("Read, Bash", True, True, ()),
        ("Bash(git diff:*), Bash(npm test)", False, None, ("git diff", "npm test")),
        ("TodoWrite", False, None, None),
    ],
)
def test_agents_of_claude_code_get_the_tools_that_are_like_theirs(
    source: Path, tools: str, filesystem: bool, readonly: bool | None, rules: tuple[str, ...] | None
) -> None:
    put(source, _dot_claude__agents__reviewer_dot_md=AGENT.format(name="reviewer", tools=tools, model="opus"))
    report = imported(source)
    pinned = worker(report, "reviewer")
    assert pinned.instructions == "Review. Keep {{ braces }} and {% endraw %} as they are."
    assert pinned.model == "opus"
    assert "opus" in load_workshop(report.target).config.models
    assert pinned.filesystem is filesystem
    assert (pinned.sandbox.readonly if pinned.sandbox else None) is readonly
    assert (None if pinned.shell is None else tuple(rule.pattern for rule in pinned.shell.rules)) == rules
    assert pinned.shell is None or all(rule.approval_required for rule in pinned.shell.rules)


@pytest.mark.parametrize(
    ("tools", "disallowed", "filesystem", "readonly", "notes"),
    [
        ("Read(docs/**)", "", False, None, ["'Read(docs/**)' is left out"]),
        ("Read, Edit(src/*.py)", "", True, True, ["'Edit(src/*.py)' is left out"]),
        ("Read(*), Write(**)", "", True, None, []),
        ("Read, Write", "Write(secrets/**)", True, True, ["'Write' is left out: 'Write(secrets/**)' is disallowed"]),
        ("Write", "Read", False, None, ["'Write' is left out: 'read' is disallowed"]),
        ("Read, Write", "Read(*)", False, None, ["'Write' is left out: 'read' is disallowed"]),
        ("Edit", "Write", False, None, ["'Edit' is left out: 'write' is disallowed"]),
        ("Read, Glob", "Glob", False, None, ["'Read' is left out: 'glob' is disallowed"]),
        ("Read, Grep", "Grep", True, True, []),
        ("Read, Write", "'*'", False, None, ["'Read' is left out: '*' is disallowed"]),
        ("Read", "Read(~/.ssh/**)", False, None, ["'Read' is left out"]),
        ("Read, Write", "Write", True, True, []),
    ],
)
def test_a_limited_tool_gives_no_more_than_it_did(
    source: Path, tools: str, disallowed: str, filesystem: bool, readonly: bool | None, notes: list[str]
) -> None:
    text = AGENT.format(name="reviewer", tools=tools, model=f"inherit\ndisallowedTools: {disallowed}")
    put(source, agents__reviewer_dot_md=text)
    report = imported(source)
    pinned = worker(report, "reviewer")
    assert pinned.filesystem is filesystem
    assert (pinned.sandbox.readonly if pinned.sandbox else None) is readonly
    assert [note in said(report) for note in notes] == [True] * len(notes)


@pytest.mark.parametrize(
    ("tools", "found"),
    [
        ("WebFetch", [None]),
        ("WebFetch(domain:a.org), WebFetch(domain:b.org)", [["a.org", "b.org"]]),
        ("WebFetch(domain:a.org), WebFetch", [None]),
        ("WebFetch, WebFetch(domain:a.org)", [None]),
        ("WebFetch(https://a.org/*)", []),
        ("WebFetch(domain:)", []),
    ],
)
def test_the_web_is_no_larger_than_it_was(source: Path, tools: str, found: list[Any]) -> None:
    put(source, agents__reviewer_dot_md=AGENT.format(name="reviewer", tools=tools, model="opus"))
    report = imported(source)
    written = yaml.safe_load((report.target / "workers/reviewer.worker").read_text().split("---")[1])
    assert [one.get("allowed_domains") for one in written.get("server_side_tools", [])] == found
    assert found or "is left out: its limit has no counterpart" in said(report)


def test_all_workers_of_several_tasks_may_be_called(source: Path) -> None:
    for name in ("a", "b", "c"):
        put(source, **{f"agents__{name}_dot_md": AGENT.format(name=name, tools="Read", model="opus")})
    put(source, agents__main_dot_md=AGENT.format(name="main", tools="Task(a), Task(b), Read", model="opus"))
    pinned = worker(imported(source), "main")
    assert pinned.delegation is not None
    assert pinned.delegation.allow_workers == ("a", "b")


@pytest.mark.parametrize("disallowed", ["Bash", "Bash(*)", "Bash(:*)", "Bash( * )", "bash(**)", "'*'"])
def test_a_tool_that_is_disallowed_as_a_whole_is_not_given(source: Path, disallowed: str) -> None:
    put(
        source,
        agents__r_dot_md=AGENT.format(name="r", tools="Bash, Read", model=f"opus\ndisallowedTools: {disallowed}"),
    )
    assert worker(imported(source), "r").shell is None


def test_a_disallowed_command_is_blocked_before_all_rules(source: Path) -> None:
    text = AGENT.format(name="r", tools="Bash, Read", model="opus\ndisallowedTools: Bash(rm:*), Bash(git push:*)")
    put(source, agents__r_dot_md=text)
    shell = worker(imported(source), "r").shell
    assert shell is not None
    assert [(rule.pattern, rule.blocked) for rule in shell.rules] == [("rm", True), ("git push", True)]


def test_what_has_no_counterpart_is_said(source: Path) -> None:
    text = AGENT.format(name="reviewer", tools="Read, mcp__github__get, Sing", model="inherit")
    put(source, agents__reviewer_dot_md=text)
    report = imported(source)
    assert worker(report, "reviewer").model is None
    assert "MCP server 'github'" in said(report)
    assert "tool 'Sing' is left out" in said(report)


def test_other_markdown_is_no_worker(source: Path) -> None:
    put(source, README_dot_md="# Hi\n", skills__x__SKILL_dot_md="---\nname: x\ndescription: y\n---\nz\n")
    assert imported(source).workers == {}


def test_agent_files_call_each_other_by_name(source: Path) -> None:
    put(source, main_dot_agent="---\nname: main\ntoolsets: [filesystem_ro, helper, shell_readonly]\n---\nGo.\n")
    put(source, helper_dot_agent="---\nname: helper\ndescription: Helps.\ntools: {filesystem: {}}\n---\nHelp.\n")
    pinned = worker(imported(source), "main")
    assert pinned.delegation is not None
    assert [tool.name for tool in pinned.delegation.tools] == ["helper"]
    assert pinned.sandbox is not None
    assert pinned.sandbox.readonly


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("Code Reviewer", "code_reviewer"),
        ("2nd", "worker_2nd"),
        ("../../etc/passwd", "etc_passwd"),
        ("read_file", "read_file_worker"),
        ("Ünïcode", "n_code"),
        ("x" * 100, "x" * 64),
    ],
)
def test_names_are_made_ones_that_workers_can_have(source: Path, given: str, name: str) -> None:
    put(source, a_dot_agent=f"---\nname: {given!r}\n---\nGo.\n")
    report = imported(source)
    assert list(report.workers) == [name]
    assert f"to '{name}'" in said(report)


def test_two_of_one_name_stay_two(source: Path) -> None:
    put(source, a_dot_agent="---\nname: Same\n---\nOne.\n", b_dot_agent="---\nname: same\n---\nTwo.\n")
    assert list(imported(source).workers) == ["same", "same_2"]


def test_a_rule_that_cannot_be_carried_over_makes_the_rest_ask(source: Path) -> None:
    shell = "{rules: [{pattern: rm, deny: true}, {pattern: '*', approval_required: false}]"
    put(source, main_dot_worker=f"toolsets:\n  shell: {shell}, default: {{approval_required: false}}}}\n---\nGo.\n")
    policy = worker(imported(source), "main").shell
    assert policy is not None
    assert policy.rules == ()
    assert policy.default is not None
    assert policy.default.approval_required


def test_a_sandbox_that_cannot_be_understood_leaves_no_files(source: Path) -> None:
    put(source, main_dot_worker="sandbox: {readonly: maybe}\ntoolsets: {filesystem: {}}\n---\nGo.\n")
    pinned = worker(imported(source), "main")
    assert (pinned.filesystem, pinned.sandbox) == (False, None)


def test_a_folder_outside_is_not_a_sandbox(source: Path) -> None:
    paths = "{up: {root: ../x}, root: {root: /etc}, home: {root: ~/x}, fine: {root: ok}}"
    put(source, main_dot_worker=f"sandbox: {{paths: {paths}}}\ntoolsets: {{filesystem: {{}}}}\n---\nGo.\n")
    pinned = worker(imported(source), "main")
    assert pinned.sandbox is not None
    assert set(pinned.sandbox.paths or {}) == {"fine"}


@pytest.mark.parametrize(
    ("text", "part"),
    [
        # nothing in it
        ("", "the file is empty"),
        # YAML that ends in the middle
        ("a: [\n---\nGo.\n", "not valid YAML"),
        # an alias that contains itself
        ("a: &a [*a]\n---\nGo.\n", "nested"),
        # objects of Python
        ("a: !!python/object/apply:os.system [ls]\n---\nGo.\n", "YAML tag"),
        # no instructions
        ("description: x\n---\n", "no instructions"),
        # not keys
        ("- a\n- b\n---\nGo.\n", "no keys"),
    ],
)
def test_a_file_that_is_broken_is_said_and_passed_over(source: Path, text: str, part: str) -> None:
    put(source, bad_dot_worker=text, good_dot_worker="description: x\n---\nGo.\n")
    report = imported(source)
    assert list(report.workers) == ["good"]
    assert part in said(report)


def test_nothing_outside_the_folder_is_read(source: Path) -> None:
    (source.parent / "secret.md").write_text("SECRET")
    (source / "link.md").symlink_to(source.parent / "secret.md")
    (source / "evil.worker").symlink_to(source.parent / "secret.md")
    (source / "loop.worker").symlink_to(source / "loop.worker")
    os.mkfifo(source / "pipe.worker")
    (source / "big.worker").write_bytes(b"x: " + b"y" * (1024 * 1024))
    body = "{{ file('link.md') }} {{ file('../secret.md') }}"
    put(source, main_dot_worker=f"output_schema_ref: ../x.py:X\n---\n{body}\n")
    report = imported(source)
    assert list(report.workers) == ["main"]
    assert "SECRET" not in "".join(path.read_text() for path in report.target.rglob("*") if path.is_file())
    for part in ("evil.worker", "loop.worker", "pipe.worker", "big.worker", "leads out of the folder"):
        assert part in said(report)


def test_nothing_that_exists_is_written_over(source: Path, tmp_path: Path) -> None:
    put(source, main_dot_worker="description: x\n---\nGo.\n")
    put(tmp_path, made__mine_dot_txt="mine")
    with pytest.raises(UsageError, match="not empty"):
        import_workers(source, tmp_path / "made")
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["mine.txt"]


def test_an_empty_folder_can_be_the_target(source: Path, tmp_path: Path) -> None:
    put(source, main_dot_worker="description: x\n---\nGo.\n")
    (tmp_path / "made").mkdir()
    assert list(imported(source).workers) == ["main"]


def test_where_nothing_can_be_imported_nothing_is_made(source: Path, tmp_path: Path) -> None:
    put(source, bad_dot_worker="")
    assert imported(source).workers == {}
    assert {path.name for path in tmp_path.iterdir()} == {"source"}


def test_one_file_can_be_imported_alone(source: Path) -> None:
    put(source, one_dot_worker="description: x\n---\nGo.\n", two_dot_worker="description: x\n---\nGo.\n")
    report = import_workers(source / "one.worker", source.parent / "made")
    assert list(report.workers) == ["one"]


PLAIN_AGENT = "---\nname: reviewer\ndescription: Reviews.\n---\nReview it.\n"
OTHERS = {
    "_dot_claude__skills__pdf__SKILL.md": PLAIN_AGENT,
    "_dot_claude__skills__pdf__reference.md": PLAIN_AGENT,
    "_dot_claude__commands__git__fix.md": PLAIN_AGENT,
    "_dot_claude__hooks__check.sh": "exit 0\n",
    "_dot_claude__settings.json": "{}\n",
    "_dot_mcp.json": "{}\n",
    "CLAUDE.md": PLAIN_AGENT,
    "market__helper___dot_claude-plugin__plugin.json": "{}\n",
    "market__helper__commands__go.md": PLAIN_AGENT,
    "market__helper__skills__x__skill.md": PLAIN_AGENT,
    "docs__commands__list.md": "# Commands\n",
}


def test_what_was_found_and_is_no_worker_is_listed_with_the_way_to_carry_it_over(source: Path) -> None:
    put(
        source,
        **OTHERS,
        **{"_dot_claude__agents__reviewer.md": PLAIN_AGENT, "market__helper__agents__second.md": PLAIN_AGENT},
    )
    put(source, **{"_dot_claude__agents__broken.md": "Just text.\n", "_dot_claude__agents__._reviewer.md": "\0\5\26"})
    report = imported(source)
    assert sorted(report.workers.values()) == [".claude/agents/reviewer.md", "market/helper/agents/second.md"]
    notes = [note.message for note in report.notes if note.message.startswith("not imported: ")]
    assert [note.removeprefix("not imported: ").partition("): ")[0] for note in notes] == [
        "Markdown (.claude/agents/broken.md",
        "commands (.claude/commands/git/fix.md, market/helper/commands/go.md",
        "files of skills (.claude/skills/pdf/reference.md",
        "hooks (.claude/hooks/check.sh",
        "lists of MCP servers (.mcp.json",
        "plugins (market/helper",
        "settings (.claude/settings.json",
        "skills (.claude/skills/pdf/SKILL.md, market/helper/skills/x/skill.md",
        "texts for all agents (CLAUDE.md",
    ]
    assert all(note.partition("): ")[2] for note in notes)


def test_a_folder_without_workers_is_refused_with_what_is_in_it(source: Path) -> None:
    put(source, **OTHERS, **{"src__main.py": "", "workers__config.yaml": "a: 1\n"})
    report = imported(source)
    assert (report.workers, report.target.exists()) == ({}, False)
    text = said(report)
    for words in (
        "skills (",
        "commands (",
        "Markdown (docs/commands/list.md)",
        "YAML (workers/config.yaml)",
        "main.py)",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("_dot_claude__skills__pdf__SKILL.md", "skills (SKILL.md): put what a worker needs"),
        ("_dot_claude__commands__fix.md", "commands (fix.md): give their text to `start`"),
        ("notes.md", "Markdown (notes.md): an agent begins with `name` and `description`"),
    ],
)
def test_a_file_that_is_no_worker_is_refused_with_the_reason(source: Path, name: str, words: str) -> None:
    put(source, **{name: "# Notes\n" if name == "notes.md" else PLAIN_AGENT})
    file = next(path for path in source.rglob("*.md"))
    report = import_workers(file, source.parent / "made")
    assert report.workers == {}
    assert words in said(report)


def test_many_files_of_a_kind_are_one_line(source: Path) -> None:
    put(source, **{f"_dot_claude__commands__c{number:02}.md": PLAIN_AGENT for number in range(30)})
    (note,) = imported(source).notes
    assert " and 20 more): " in note.message
