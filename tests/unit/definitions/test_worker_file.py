"""Worker files: their shapes, their keys, and what is said of every mistake."""

from __future__ import annotations

import hashlib

import pytest

from llm_do_temporal.errors import DefinitionError
from llm_do_temporal.policy.files.attachments import AttachmentPolicy
from llm_do_temporal.policy.files.sandbox import WorkerSandbox
from tests.support.workshops.workshop_folder import WorkshopFolder

GREETING = "Say hello."


@pytest.mark.parametrize(
    "text",
    [
        "description: d\n---\nSay hello.\n",  # front matter, separator, body
        "---\ndescription: d\n---\nSay hello.\n",  # a leading separator
        "\n\n---\ndescription: d\n--- \n\n\nSay hello.\n\n",  # blank lines and trailing blanks
        "---\ndescription: d\ninstructions: |\n  Say hello.\n---\n",  # closed front matter, no body
        "description: d\ninstructions: Say hello.\n",  # no separator at all
        "description: d\ninstructions: Something else.\n---\nSay hello.\n",  # the body wins
        "description: d\r\n---\r\nSay hello.\r\n",  # line ends of another system
        "\ufeffdescription: d\n---\nSay hello.",  # a byte order mark, no newline at the end
    ],
)
def test_every_shape_of_a_worker_file_is_read(workshop: WorkshopFolder, text: str) -> None:
    workshop.write("workers/greeter.worker", text)
    worker = workshop.load("greeter")
    assert worker.instructions == GREETING
    assert worker.description == "d"


def test_a_worker_needs_nothing_but_instructions(workshop: WorkshopFolder) -> None:
    workshop.write("workers/greeter.worker", "---\n---\nSay hello.")
    worker = workshop.load("greeter")
    assert (worker.name, worker.instructions, worker.model) == ("greeter", GREETING, None)
    assert (worker.filesystem, worker.delegation, worker.locked) == (False, None, False)
    assert worker.attachment_policy == AttachmentPolicy()


@pytest.mark.parametrize("suffix", ["yaml", "yml"])
def test_a_yaml_file_with_instructions_is_a_worker(workshop: WorkshopFolder, suffix: str) -> None:
    workshop.write(f"workers/greeter.{suffix}", "name: greeter\ninstructions: Say hello.\n")
    assert workshop.load("greeter").instructions == GREETING


def test_a_line_of_dashes_in_the_body_is_text(workshop: WorkshopFolder) -> None:
    workshop.write("workers/greeter.worker", "description: d\n---\nOne\n\n---\n\nTwo\n")
    assert workshop.load("greeter").instructions == "One\n\n---\n\nTwo"


def test_every_key_reaches_the_pinned_worker(workshop: WorkshopFolder) -> None:
    file = workshop.write(
        "workers/orchestrator.worker",
        """\
        name: orchestrator
        description: Evaluates.
        model: anthropic:claude-sonnet-5-5
        compatible_models: ["anthropic:*"]
        output_schema: {type: object, properties: {yes: {type: boolean}}}
        sandbox: {restrict: /pipeline, readonly: true, suffixes: [.PDF]}
        attachment_policy: {max_attachments: 1, max_total_bytes: 15000000, allowed_suffixes: [.pdf]}
        toolsets:
          filesystem: {}
          delegation: {allow_workers: ["*"]}
        locked: true
        ---
        You evaluate.
        """,
    )
    worker = workshop.load("orchestrator")
    assert worker.source == "workers/orchestrator.worker"
    assert worker.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert worker.model == "anthropic:claude-sonnet-5-5"
    assert worker.compatible_models == ("anthropic:*",)
    assert worker.output_schema == {"type": "object", "properties": {"yes": {"type": "boolean"}}}
    assert worker.sandbox == WorkerSandbox(restrict="/pipeline", readonly=True, suffixes=(".pdf",))
    assert worker.attachment_policy.max_attachments == 1
    assert worker.filesystem
    assert worker.delegation is not None
    assert worker.delegation.allow_workers == ("*",)
    assert worker.locked
    assert worker.warnings == ()


@pytest.mark.parametrize("toolset", ["filesystem: {}", "filesystem:", "filesystem: null"])
def test_a_toolset_with_nothing_after_it_is_switched_on(workshop: WorkshopFolder, toolset: str) -> None:
    workshop.write("workers/reader.worker", f"toolsets:\n  {toolset}\n  delegation:\n---\nRead.")
    worker = workshop.load("reader")
    assert worker.filesystem
    assert worker.delegation is not None
    assert worker.delegation.allow_workers is None


def test_a_key_with_nothing_after_it_is_a_key_left_out(workshop: WorkshopFolder) -> None:
    workshop.write("workers/reader.worker", "model:\nsandbox:\ntoolsets:\nattachment_policy:\n---\nRead.")
    assert workshop.load("reader").model is None


@pytest.mark.parametrize(
    ("front", "line", "words"),
    [
        # a key nobody knows, with the one that was meant
        ("model: a:b\ndescripton: x", 2, "unknown key 'descripton'; allowed: attachment_policy, "),
        # the same at every level
        ("sandbox:\n  readony: true", 2, "unknown key 'readony' in 'sandbox'; allowed: max_file_bytes, "),
        ("sandbox:\n  paths:\n    in:\n      root: a\n      mod: ro", 5, "unknown key 'mod' in 'sandbox.paths.in'"),
        ("attachment_policy:\n  max: 1", 2, "unknown key 'max' in 'attachment_policy'"),
        ("toolsets:\n  filesystem: {root: x}", 2, "unknown key 'root' in 'toolsets.filesystem'; allowed: enabled"),
        ("toolsets:\n  delegation:\n    other: {a: 1}", 3, "unknown key 'a' in 'toolsets.delegation.other'"),
        # a toolset that is none
        ("toolsets:\n  shel: {}", 2, "unknown toolset 'shel' in 'toolsets'; allowed: custom, "),
        # wrong types, none of which is quietly converted
        ("model: 5", 1, "'model' should be text, not '5'"),
        ("locked: 'yes'", 1, "'locked' should be true or false, not 'yes'"),
        ("attachment_policy:\n  max_attachments: true", 2, "max_attachments' should be a whole number, not 'true'"),
        ("compatible_models: anthropic:*", 1, "'compatible_models' should be a list, not 'anthropic:*'"),
        ("toolsets: [filesystem]", 1, "'toolsets' should be keys and values, not a list"),
        ("sandbox:\n  paths:\n    in: {mode: ro}", 3, "'sandbox.paths.in.root' is missing"),
        # values out of range
        ("compatible_models: []", 1, "'compatible_models': an empty list allows no model"),
        ("attachment_policy:\n  max_total_bytes: -1", 2, "greater than or equal to 0, not '-1'"),
        ("attachment_policy: {allowed_suffixes: [pdf]}", 1, "a suffix starts with a dot, like '.pdf'; got 'pdf'"),
        # names
        ("description: x\nname: other", 2, "name 'other' is not what the file is called; write 'greeter'"),
        ("toolsets:\n  delegation:\n    Bad Name: {}", 3, "worker name 'Bad Name' is not valid"),
        ("toolsets:\n  delegation:\n    allow_workers:\n    - ok\n    - ../up", 5, "worker name '../up' is not valid"),
        ("toolsets:\n  delegation:\n    worker_call: {}", 3, "unknown key 'worker_call' in 'toolsets.delegation'"),
        ("toolsets:\n  delegation:\n    templates: {lock: ../x.yaml}", 3, "is not a path inside the workshop"),
        # sandboxes that could never be right
        ("sandbox:\n  restrict: src", 2, "sandbox restrict 'src' must start with '/'"),
        ("sandbox:\n  paths:\n    in:\n      root: ../up", 4, "sandbox root '../up' leaves the workshop"),
        ("sandbox:\n  paths:\n    a/b: {root: a}", 3, "'a/b' cannot be the name of a path"),
        # schemas
        ("output_schema:\n  type: array", 2, "'output_schema': the type of a result must be 'object'"),
        ("output_schema: {type: object}\noutput_schema_ref: a.B", 2, "are both given"),
        # YAML
        ("model: a: b", 1, "not valid YAML: mapping values are not allowed here"),
        ("model: a:b\nmodel: c:d", 2, "duplicate key 'model'; it already stands in line 1"),
        ("model: !!python/object/apply:os.getcwd []", 1, "tag '!!python/object/apply:os.getcwd' is not allowed"),
        ("description: !secret x", 1, "the YAML tag '!secret' is not allowed"),
        ("description: &a x\n<<: {locked: true}", 2, "merge keys ('<<') are not supported"),
        ("? [a, b]\n: c", 1, "a key must be plain text"),
        ("description: d\nattachment_policy: {max_attachments: .inf}", 2, "'.inf' is not a valid float"),
        ("- a\n- b", 1, "this is not a list of keys and values"),
        ("description: \x01", 1, "it contains a character that is not text"),
        ('description: "\\ud800"', 1, "it contains a character that is not text"),
        ('"\\ud800": x', 1, "a key must be plain text"),
    ],
)
def test_a_mistake_is_named_with_its_file_and_line(workshop: WorkshopFolder, front: str, line: int, words: str) -> None:
    workshop.write("workers/greeter.worker", f"{front}\n---\nSay hello.")
    with pytest.raises(DefinitionError) as caught:
        workshop.load("greeter")
    assert words in caught.value.problem
    assert (caught.value.file, caught.value.line) == ("workers/greeter.worker", line)
    assert str(workshop.root) not in str(caught.value)


def test_lines_are_counted_from_the_top_of_the_file(workshop: WorkshopFolder) -> None:
    workshop.write("workers/greeter.worker", "\n---\n\nlocked: 3\n---\nSay hello.")
    with pytest.raises(DefinitionError, match=r"^workers/greeter\.worker:4: 'locked'"):
        workshop.load("greeter")


def test_the_key_that_was_meant_is_suggested(workshop: WorkshopFolder) -> None:
    workshop.write("workers/greeter.worker", "descripton: x\n---\nSay hello.")
    with pytest.raises(DefinitionError) as caught:
        workshop.load("greeter")
    assert caught.value.next_step == "Did you mean 'description'?"


def test_the_first_mistake_says_how_many_follow(workshop: WorkshopFolder) -> None:
    workshop.write("workers/greeter.worker", "locked: 1\nmodel: 2\nwhat: 3\n---\nSay hello.")
    with pytest.raises(DefinitionError, match="'locked' should be true or false") as caught:
        workshop.load("greeter")
    assert caught.value.next_step == "2 more problems: `llm-do-temporal check` lists all of them."


@pytest.mark.parametrize("text", ["You are a greeter.\n", "", "description: d\n", "description: d\n---\n  \n"])
def test_a_file_without_keys_or_without_instructions_says_what_a_worker_file_is(
    workshop: WorkshopFolder, text: str
) -> None:
    workshop.write("workers/greeter.worker", text)
    with pytest.raises(DefinitionError) as caught:
        workshop.load("greeter")
    assert caught.value.next_step is not None
    assert "the instructions below it" in caught.value.next_step


@pytest.mark.parametrize(
    "front",
    [
        "a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n"
        "d: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d]",  # aliases that multiply
        "a: &a [*a]",  # an alias to itself
        "a: " + "[" * 3000,  # brackets without end
    ],
)
def test_a_document_made_to_explode_is_refused(workshop: WorkshopFolder, front: str) -> None:
    workshop.write("workers/greeter.worker", f"{front}\n---\nSay hello.")
    with pytest.raises(DefinitionError, match=r"nested|more than 20000 values"):
        workshop.load("greeter")


def test_an_ordinary_alias_is_written_out(workshop: WorkshopFolder) -> None:
    workshop.write(
        "workers/greeter.worker",
        "attachment_policy: {allowed_suffixes: &s [.pdf]}\nsandbox: {suffixes: *s}\n---\nSay hello.",
    )
    worker = workshop.load("greeter")
    assert worker.sandbox is not None
    assert worker.sandbox.suffixes == worker.attachment_policy.allowed_suffixes == (".pdf",)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"x" * (1024 * 1024 + 1), "is larger than 1048576 bytes"),  # too large
        (b"description: d\n---\n\xff", r"is not UTF-8 text \(line 3\)"),  # not text
    ],
)
def test_a_file_that_is_no_definition_is_refused(workshop: WorkshopFolder, content: bytes, words: str) -> None:
    workshop.write("workers/greeter.worker", "").write_bytes(content)
    with pytest.raises(DefinitionError, match=words):
        workshop.load("greeter")


def test_the_older_form_of_sandbox_is_taken_with_a_warning_that_says_what_to_write(workshop: WorkshopFolder) -> None:
    workshop.write("workshop.yaml", "")
    workshop.write("workers/reader.worker", "sandbox:\n  paths:\n    input: {root: ./pipeline, mode: ro}\n---\nRead.")
    worker = workshop.load("reader")
    assert worker.sandbox is not None
    assert worker.warnings == (
        "workers/reader.worker:2: 'sandbox.paths' is deprecated; write `sandbox: {root: .}` in workshop.yaml and, "
        "to narrow it, `sandbox: {restrict: /pipeline}` here",
    )
