"""Toolsets from elsewhere in worker files: what `check` says, and what a loaded worker keeps."""

from __future__ import annotations

from uuid import uuid4

import pytest
from pydantic_ai.settings import ModelSettings

from llm_do_temporal.definitions.check import check_workshop
from llm_do_temporal.definitions.keys.files import SETTING_NAMES
from llm_do_temporal.definitions.registry.registry import Registry
from llm_do_temporal.definitions.workshop import load_workshop
from llm_do_temporal.errors import DefinitionError
from llm_do_temporal.messages.definitions import PinnedWorker
from tests.support.workshops.workshop_folder import WorkshopFolder

CLASS = "class Search:\n    def get_tools(self): ...\n    def call_tool(self): ...\n\nOther = 5\n"


def load(workshop: WorkshopFolder) -> PinnedWorker:
    return Registry(load_workshop(workshop.root), load_toolsets=True).load("greeter")


def problems(workshop: WorkshopFolder) -> list[tuple[str, str]]:
    return [(problem.severity, problem.message) for problem in check_workshop(workshop.root)]


def worker(workshop: WorkshopFolder, front: str, config: str = "name: x") -> None:
    workshop.write("workshop.yaml", config)
    workshop.write("workers/greeter.worker", f"{front}\n---\nGreet.")


def test_a_class_of_the_workshop_is_kept_with_its_options(workshop: WorkshopFolder) -> None:
    name = f"search_{uuid4().hex}"
    workshop.write(f"{name}.py", CLASS)
    worker(
        workshop,
        f"toolsets:\n  s: {{index: decks, tools: {{find: {{pre_approved: true}}}}}}\n  {name}.Search:",
        f"toolset_aliases: {{s: {name}.Search}}",
    )
    one, other = load(workshop).external
    assert (one.name, one.reference, one.options) == ("s", f"{name}.Search", {"index": "decks"})
    assert one.tools["find"].ruling == "pre_approved"
    assert (other.name, other.options) == (f"{name}.Search", {})
    assert problems(workshop) == []


def test_what_cannot_be_loaded_is_a_warning_and_the_worker_has_the_rest(workshop: WorkshopFolder) -> None:
    name = f"search_{uuid4().hex}"
    workshop.write(f"{name}.py", CLASS)
    worker(workshop, f"toolsets:\n  nowhere.Search:\n  {name}.Missing:\n  {name}.Other:\n  {name}.Search:")
    loaded = load(workshop)
    assert [toolset.name for toolset in loaded.external] == [f"{name}.Search"]
    expected = [
        "toolset 'nowhere.Search' cannot be used, the worker runs without it: there is no module 'nowhere'",
        f"toolset '{name}.Missing' cannot be used, the worker runs without it: '{name}' has no class 'Missing'",
        f"toolset '{name}.Other' cannot be used, the worker runs without it: '{name}.Other' is not a toolset",
    ]
    found = [message for severity, message in problems(workshop) if severity == "warning"]
    assert all(message.startswith(words) for message, words in zip(found, expected, strict=True))
    assert all(words in warning for warning, words in zip(loaded.warnings, expected, strict=True))


@pytest.mark.parametrize(
    ("toolset", "said"),
    [
        # Nobody can know what a toolset will say; what looks like a typing error is still said.
        ("{name}.Judging", ["sandbox.wirte"]),
        ("nowhere.Search", ["sandbox.wirte"]),
        ("{name}.Search", ["net.read", "sandbox.wirte"]),
        ("{name}.Judging: {{enabled: false}}", ["net.read", "sandbox.wirte"]),
    ],
)
def test_rules_for_what_a_toolset_itself_names_are_no_mistakes(
    workshop: WorkshopFolder, toolset: str, said: list[str]
) -> None:
    name = f"search_{uuid4().hex}"
    workshop.write(f"{name}.py", f"{CLASS}\nclass Judging(Search):\n    def get_capabilities(self): ...\n")
    written = toolset.format(name=name)
    rules = "approvals: {rules: {net.read: pre_approved, sandbox.wirte: blocked, tool.call: blocked}}"
    worker(workshop, f"toolsets:\n  {written}{'' if ': ' in written else ':'}", rules)
    found = [message for _, message in problems(workshop) if "is known to have the capability" in message]
    assert [message.split("'")[1] for message in found] == said


def test_an_alias_that_stands_for_no_class_is_an_error(workshop: WorkshopFolder) -> None:
    worker(workshop, "toolsets:\n  s:", "toolset_aliases: {s: search}")
    assert problems(workshop) == [("error", "toolset 's' stands for 'search', which is not package.module.Class")]


def test_a_worker_among_the_toolsets_is_an_error_that_says_where_it_belongs(workshop: WorkshopFolder) -> None:
    workshop.write("workers/evaluator.worker", "---\n---\nEvaluate.")
    worker(workshop, "toolsets:\n  evaluator: {}")
    (problem,) = check_workshop(workshop.root)
    assert problem.message.startswith("unknown toolset 'evaluator' in 'toolsets'")
    written = "`delegation: {evaluator: {}}`"
    assert problem.next_step == f"'evaluator' is a worker: to call it, write {written} below `toolsets:`."
    worker(workshop, "toolsets:\n  delegation: {evaluator: {}}")
    assert check_workshop(workshop.root) == []
    delegation = load(workshop).delegation
    assert delegation is not None
    assert [tool.name for tool in delegation.tools] == ["evaluator"]


def test_what_is_switched_off_is_not_loaded(workshop: WorkshopFolder) -> None:
    worker(workshop, "toolsets:\n  nowhere.Search: {enabled: false}\n  mcp: {a: {command: [x], enabled: false}}")
    assert load(workshop).external == ()
    assert problems(workshop) == []


def test_mcp_servers_keep_names_of_variables_and_no_values(workshop: WorkshopFolder) -> None:
    worker(
        workshop,
        "toolsets:\n  mcp:\n    a: {command: [x, y], env: [TOKEN]}\n"
        "    b: {url: 'https://x/mcp', headers_env: {Authorization: AUTH}}",
    )
    servers = [toolset.server for toolset in load(workshop).external]
    assert [server.model_dump(exclude_defaults=True) for server in servers if server is not None] == [
        {"command": ("x", "y"), "env": ("TOKEN",)},
        {"url": "https://x/mcp", "headers_env": {"Authorization": "AUTH"}},
    ]


@pytest.mark.parametrize(
    ("front", "line", "words"),
    [
        ("toolsets:\n  mcp: {a: {}}", 2, "a server has either 'command' or 'url'"),
        ("toolsets:\n  mcp: {a: {command: [x], url: 'http://a/b'}}", 2, "a server has either 'command' or 'url'"),
        ("toolsets:\n  mcp: {a: {url: 'http://a/b', env: [A]}}", 2, "a server with 'url' has 'headers_env'"),
        ("toolsets:\n  mcp: {a: {command: [x], headers_env: {A: B}}}", 2, "a server with 'command' has 'env'"),
        ("toolsets:\n  mcp: {a: {url: 'http://a/b?key=1'}}", 2, "without user, query or fragment"),
        ("toolsets:\n  mcp: {a: {command: [x, --key, sk-1]}}", 2, "this looks like a key"),
        ("toolsets:\n  mcp: {a: {command: [x], env: [sk-1]}}", 2, "it is the name of an environment variable"),
        ("toolsets:\n  a.B: {pre_approved: true, blocked: true}", 2, "exclude each other; keep one of them"),
        ("toolsets:\n  a.B: {token: sk-1}", 2, "this looks like a key"),
        # tools at the provider
        ("server_side_tools: [search]", 1, "'server_side_tools.0' should be 'web_search', 'web_fetch'"),
        ("server_side_tools: [{tool_type: code_execution, max_uses: 1}]", 1, "'code_execution' has no option 'max_u"),
        (
            "server_side_tools:\n- {tool_type: web_fetch, allowed_domains: [a], blocked_domains: [b]}",
            2,
            "'allowed_domains' and 'blocked_domains' exclude each other",
        ),
    ],
)
def test_a_mistake_is_named_with_its_line(workshop: WorkshopFolder, front: str, line: int, words: str) -> None:
    worker(workshop, front)
    with pytest.raises(DefinitionError) as caught:
        load(workshop)
    assert words in caught.value.problem
    assert caught.value.line == line


def test_a_setting_that_nobody_knows_is_a_warning_with_the_one_that_was_meant(workshop: WorkshopFolder) -> None:
    worker(workshop, "model_settings: {temprature: 0, openai_reasoning_effort: low}", "model_settings: {top_p: 1}")
    (problem,) = check_workshop(workshop.root)
    assert (problem.severity, problem.next_step) == ("warning", "Did you mean 'temperature'?")


def test_the_settings_are_those_of_the_installed_library() -> None:
    assert set(ModelSettings.__annotations__) == SETTING_NAMES


def test_tools_at_the_provider_are_kept_with_their_options(workshop: WorkshopFolder) -> None:
    worker(workshop, "server_side_tools: [{tool_type: web_search, max_uses: 3}, code_execution]")
    tools = [(tool.tool_type, tool.options) for tool in load(workshop).server_side_tools]
    assert tools == [("web_search", {"max_uses": 3}), ("code_execution", {})]
