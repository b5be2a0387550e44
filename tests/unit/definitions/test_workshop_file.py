"""`workshop.yaml`: found upwards, strict, and its sandbox a real folder inside."""

from __future__ import annotations

from pathlib import Path

import pytest
from workshop_folder import WorkshopFolder

from llm_do_temporal.definitions import WorkshopConfig, find_workshop, load_workshop
from llm_do_temporal.definitions.workshop import model_aliases
from llm_do_temporal.errors import DefinitionError, WorkshopNotFound
from llm_do_temporal.policy.approvals import Mode, Ruling


def test_a_workshop_is_found_from_any_folder_inside(workshop: WorkshopFolder) -> None:
    inner = workshop.root / "a" / "b"
    inner.mkdir(parents=True)
    assert find_workshop(inner) == workshop.root
    assert find_workshop(workshop.root) == workshop.root


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
          rules: {worker.call: pre_approved}
          default: blocked
        max_depth: 0
        on_refusal: abort
        """,
    )
    config = load_workshop(workshop.root).config
    assert (config.name, config.model) == ("decks", "fast")
    assert model_aliases(config) == {"fast": "anthropic:claude-haiku-4-5"}
    assert config.sandbox is not None
    assert config.sandbox.readonly
    assert config.approvals.mode is Mode.STRICT
    assert config.approvals.rules == {"worker.call": Ruling.PRE_APPROVED}
    assert (config.max_depth, config.on_refusal) == (0, "abort")


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("name: x\nsandbx: {}", 2, "unknown key 'sandbx'"),  # a key nobody knows
        ("approvals:\n  timeout: 72h", 2, "unknown key 'timeout' in 'approvals'; allowed: default, mode, rules"),
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
