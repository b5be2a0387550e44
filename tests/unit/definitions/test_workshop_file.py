"""`workshop.yaml`: found upwards, strict, and its sandbox a real folder inside."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_do_temporal.definitions.keys.files import WorkshopConfig
from llm_do_temporal.definitions.workshop import (
    find_workshop,
    load_workshop,
    model_aliases,
    notify_settings,
    own_queues,
    page_address,
)
from llm_do_temporal.errors import DefinitionError, UsageError, WorkshopNotFound
from llm_do_temporal.policy.approvals import Mode, Rule, Ruling
from llm_do_temporal.policy.notifications import NotifyEvent, NotifyTarget
from tests.support.workshops.workshop_folder import WorkshopFolder


def test_a_workshop_is_found_from_any_folder_inside(workshop: WorkshopFolder) -> None:
    inner = workshop.root / "a" / "b"
    inner.mkdir(parents=True)
    assert find_workshop(inner) == workshop.root
    assert find_workshop(workshop.root) == workshop.root


def test_a_workshop_inside_another_is_only_used_by_name(workshop: WorkshopFolder) -> None:
    inner = workshop.root / "files" / "made"
    (inner / "deep").mkdir(parents=True)
    (inner / "workshop.yaml").write_text("name: made\n")
    for start in (inner, inner / "deep"):
        with pytest.raises(WorkshopNotFound, match="is a workshop inside the workshop"):
            find_workshop(start)
    with pytest.raises(WorkshopNotFound, match="is a workshop inside the workshop"):
        find_workshop(inner / "deep", named=True)
    assert find_workshop(inner, named=True) == inner


def test_outside_a_workshop_the_next_step_is_said(tmp_path: Path) -> None:
    with pytest.raises(WorkshopNotFound) as caught:
        find_workshop(tmp_path)
    assert caught.value.next_step is not None
    assert "--workshop DIR" in caught.value.next_step
    assert str(tmp_path) not in str(caught.value)
    with pytest.raises(WorkshopNotFound):
        load_workshop(tmp_path)


def test_an_empty_workshop_file_has_the_defaults(workshop: WorkshopFolder) -> None:
    workshop.write("workshop.yaml", "")
    loaded = load_workshop(workshop.root)
    assert loaded.config == WorkshopConfig()
    assert loaded.config.sandbox is None
    assert loaded.config.max_depth == 5
    assert loaded.root == workshop.root


def test_every_key_is_read(workshop: WorkshopFolder) -> None:
    (workshop.root / "files").mkdir()
    workshop.write(
        "workshop.yaml",
        """\
        name: decks
        description: Evaluates pitch decks.
        model: fast
        models: {fast: anthropic:claude-haiku-4-5}
        sandbox: {root: ./files, readonly: true, write_approval: false}
        approvals:
          mode: strict
          rules:
            worker.call: pre_approved
            sandbox.write: {approvers: [ann, bob], quorum: 2, timeout: 1h, on_timeout: fail, forbid_own: true}
          default: blocked
          timeout: 72h
          remind_after: 24h
        max_depth: 0
        on_refusal: abort
        notify: [{url: 'https://a.example/hook', secret_env: HOOK_SECRET, events: [run.failed]}]
        ui_url: https://approvals.example.com/
        """,
    )
    config = load_workshop(workshop.root).config
    assert (config.name, config.model) == ("decks", "fast")
    assert model_aliases(config) == {"fast": "anthropic:claude-haiku-4-5"}
    assert config.sandbox is not None
    assert config.sandbox.readonly
    assert config.approvals.mode is Mode.STRICT
    assert config.approvals.rules == {
        "worker.call": Rule(ruling=Ruling.PRE_APPROVED),
        "sandbox.write": Rule(approvers=("ann", "bob"), quorum=2, timeout=3600, on_timeout="fail", forbid_own=True),
    }
    assert (config.approvals.timeout, config.approvals.remind_after) == (72 * 3600, 24 * 3600)
    assert (config.max_depth, config.on_refusal) == (0, "abort")
    assert config.notify[0].events == (NotifyEvent.RUN_FAILED,)
    assert (
        notify_settings(config, {"LLM_DO_UI_URL": "https://elsewhere.example"}).ui_url
        == "https://approvals.example.com"
    )


@pytest.mark.parametrize("given", ["a.example", "ftp://a.example", "https://", "https://a.example/?x=1", "https://a b"])
def test_a_variable_that_is_no_address_of_a_page_is_refused_by_name(given: str) -> None:
    with pytest.raises(UsageError, match="LLM_DO_UI_URL cannot be used"):
        page_address(WorkshopConfig(), {"LLM_DO_UI_URL": given})
    named = WorkshopConfig(ui_url="https://a.example")
    assert page_address(named, {"LLM_DO_UI_URL": given}) == "https://a.example"


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("https://a.example/", "https://a.example"),
        ("", None),
        ("a.example", None),  # no address: messages go without links, and no run fails for it
    ],
)
def test_the_page_may_be_named_by_a_variable(given: str, used: str | None) -> None:
    target = NotifyTarget(url="https://a.example", secret_env="HOOK_SECRET")
    assert notify_settings(WorkshopConfig(notify=(target,)), {"LLM_DO_UI_URL": given}).ui_url == used


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("name: x\nsandbx: {}", 2, "unknown key 'sandbx'"),  # a key nobody knows
        (
            "approvals:\n  timeouts: 72h",
            2,
            "unknown key 'timeouts' in 'approvals'; allowed: allow, default, mode, on_timeout, ",
        ),
        ("approvals:\n  timeout: 72 h", 2, "'approvals.timeout': '72 h' is not a time; write it like 90s"),
        ("approvals: {on_timeout: approve}", 1, "'approvals.on_timeout' should be 'reject' or 'fail', not 'approve'"),
        (
            "approvals:\n  rules:\n    worker.call:\n      aprovers: [ann]",
            4,
            "unknown key 'aprovers' in 'approvals.rules.worker.call'; allowed: approvers, forbid_own, ",
        ),
        ("approvals:\n  rules:\n    a.b: {approvers: []}", 3, "'approvals.rules.a.b.approvers' "),
        (
            "approvals:\n  rules:\n    a.b: {approvers: [x], quorum: 2}",
            3,
            "'approvals.rules.a.b': `quorum: 2` can never",
        ),
        ("approvals:\n  rules:\n    a.b: {ruling: allow}", 3, "'approvals.rules.a.b.ruling' should be 'pre_approved'"),
        ("approvals:\n  rules:\n    a.b: [ann]", 3, "'approvals.rules.a.b' should be keys and values, not a list"),
        ("approvals:\n  rules:\n    worker.call: allow", 3, "'approvals.rules.worker.call' should be 'pre_approved'"),
        ("max_depth: -1", 1, "'max_depth' should be greater than or equal to 0"),  # out of range
        ("max_depth: 2.5", 1, "'max_depth' should be a whole number"),  # wrong type
        ("models: {fast: {model: 'a:b', provider: x}}", 1, "unknown key 'provider' in 'models.fast'; allowed: "),
        ("models: {fast: 5}", 1, "'models.fast' should be"),
        ("models: {fast: {model: 'a:b', base_url: localhost}}", 1, "it is an address like http://"),
        ("models: {fast: {model: 'a:b', base_url: 'http://me:pass@x/v1'}}", 1, "an address has no user, password"),
        ("models: {fast: {model: 'a:b', api_key_env: sk-1234}}", 1, "it is the name of an environment variable"),
        ("models: {fast: {model: 'a:b', settings: {extra_headers: {x: sk-1}}}}", 1, "this looks like a key"),
        ("model_settings: {extra_body: {token: [Bearer abc]}}", 1, "this looks like a key"),
        ("model_settings:\n  temperature: 1e999", 1, "'temperature' is a number, and '1e999' is none"),
        ("model_settings: {max_tokens: true}", 1, "'max_tokens' is a number, and True is none"),
        ("limits:\n  time: 3x", 2, "'limits.time': '3x' is not a time; write it like 90s, 30m, 2h or 3d"),
        ("limits:\n  turns: '5'", 2, "'limits.turns' should be a whole number, not '5'"),
        ("limits: {max_turns: 5}", 1, "unknown key 'max_turns' in 'limits'; allowed: cost, invocations, "),
        ("model_resolution: none", 1, "'model_resolution' should be 'inherited' or 'isolated'"),
        ("attachments_as: pdf", 1, "'attachments_as' should be"),
        ("sandbox: {readonly: true}", 1, "'sandbox.root' is missing"),
        ("sandbox:\n  root: ..", 2, "sandbox root '..' leaves the workshop"),
        ("sandbox:\n  root: /etc", 2, "sandbox root '/etc' leaves the workshop"),
        ("sandbox:\n  root: nowhere", 2, "sandbox root 'nowhere' does not exist"),
        ("sandbox:\n  root: workshop.yaml", 2, "sandbox root 'workshop.yaml' is not a folder"),
        ("sandbox:\n  root: out", 2, "sandbox root 'out' is a link that leads out of the workshop"),
        ("sandbox:\n  root: circle", 2, "sandbox root 'circle' cannot be opened"),
        ("just text", 1, "this is not a list of keys and values"),
        ("limits:\n  time: 99999999999999999999d", 2, "is too long; a time is at most 3660 days"),
        ("limits:\n  cost: 1e999999999", 2, "'limits.cost' should be less than or equal to 1000000000"),
        ("limits:\n  cost: '1e1000000'", 2, "'limits.cost' should be less than or equal to 1000000000"),
        ("limits:\n  cost: .inf", 2, "'.inf' is not a valid float"),
        ("limits:\n  cost: 1e-999999999", 2, "'limits.cost': it has more than 20 places behind the point"),
        ("limits:\n  tokens: 1000000000001", 2, "'limits.tokens' should be less than or equal to 1000000000000"),
        ("notify:\n  - {url: 'https://a.example', secret: x}", 2, "unknown key 'secret' in 'notify.0'; allowed: "),
        ("notify: [{url: 'https://hooks.slack.com/x'}]", 1, "this address is a secret: put it into an environment"),
        ("notify: [{url: 'https://a.example'}]", 1, "'notify.0': 'secret_env' is missing: it names the variable"),
        ("notify: {url: 'https://a.example'}", 1, "'notify' should be a list"),
        ("ui_url: approvals.example.com", 1, "'ui_url': it is an address like https://llm.example.com"),
        ("views:\n  mine: {state: broken}", 2, "there is no state 'broken'"),
        ("views:\n  mine: {since: lately}", 2, "'lately' is no time"),
        ("views:\n  mine: {color: red}", 2, "unknown key 'color'"),
    ],
)
def test_a_mistake_is_named_with_its_line(workshop: WorkshopFolder, text: str, line: int, words: str) -> None:
    (workshop.root / "out").symlink_to(workshop.root.parent)
    (workshop.root / "circle").symlink_to(workshop.root / "circle")
    workshop.write("workshop.yaml", text)
    with pytest.raises(DefinitionError) as caught:
        load_workshop(workshop.root)
    assert words in caught.value.problem
    assert (caught.value.file, caught.value.line) == ("workshop.yaml", line)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (
            "providers:\n  openai: {max_requests: 2}",
            2,
            "unknown key 'max_requests' in 'providers.openai'; allowed: max_",
        ),
        ("providers: {openai: 2}", 1, "'providers.openai' should be keys and values, not '2'"),
        ("providers: {openai: {max_requests_per_second: 0}}", 1, "should be greater than 0"),
        ("providers: {openai: {max_requests_per_second: true}}", 1, "should be a valid number"),
        ("providers: {'open ai': {}}", 1, "'providers.open ai"),
        (
            "models: {fast: 'openai:gpt-5-mini'}\nproviders:\n  fast: {max_requests_per_second: 2}",
            2,
            "'providers': the alias 'fast' is short for 'openai:gpt-5-mini'; name the provider instead",
        ),
        ("separate_files: files", 1, "'separate_files' should be true or false"),
    ],
)
def test_a_mistake_about_task_queues_is_named_too(workshop: WorkshopFolder, text: str, line: int, words: str) -> None:
    workshop.write("workshop.yaml", text)
    with pytest.raises(DefinitionError) as caught:
        own_queues(workshop.root)
    assert words in caught.value.problem
    assert caught.value.line == line


def test_only_what_is_said_of_task_queues_keeps_a_service_from_starting(workshop: WorkshopFolder) -> None:
    workshop.write("workshop.yaml", "max_depth: many")
    assert own_queues(workshop.root) == ({}, False)
    assert own_queues(workshop.root / "nowhere") == ({}, False)


def test_files_that_are_elsewhere_may_be_missing_here(workshop: WorkshopFolder) -> None:
    workshop.write("workshop.yaml", "separate_files: true\nsandbox: {root: data}")
    assert load_workshop(workshop.root).config.sandbox is not None


def test_a_sandbox_behind_a_link_that_stays_inside_is_fine(workshop: WorkshopFolder) -> None:
    (workshop.root / "real").mkdir()
    (workshop.root / "link").symlink_to("real")
    workshop.write("workshop.yaml", "sandbox: {root: link}")
    assert load_workshop(workshop.root).config.sandbox is not None


def test_a_model_may_be_a_list(workshop: WorkshopFolder) -> None:
    workshop.write("workshop.yaml", "model: [good, p:c]\nmodels: {good: [p:a, p:b]}\n")
    config = load_workshop(workshop.root).config
    assert config.model == "good,p:c"
    assert model_aliases(config) == {"good": "p:a,p:b"}


def test_views_are_filters_of_the_list_of_runs(workshop: WorkshopFolder) -> None:
    workshop.write("workshop.yaml", "views:\n  broken decks: {worker: deck_reader, state: failed, since: 7d}\n")
    views = load_workshop(workshop.root).config.views
    assert views["broken decks"].given == {"state": "failed", "worker": "deck_reader", "since": "7d"}


def test_a_model_has_the_price_that_its_alias_states(workshop: WorkshopFolder) -> None:
    workshop.write("workshop.yaml", "models:\n  own: {model: 'openai-chat:x', price: {input: 0.5, output: 2}}\n")
    own = load_workshop(workshop.root).config.models["own"]
    assert own.price is not None
    assert own.price.cost_of(told=1_000_000, written=1_000_000) == 2.5
