"""Who may call whom, how deep, and under which names."""

from __future__ import annotations

import pytest

from llm_do_temporal.errors import DefinitionError, DelegationRefusal, DepthExceeded
from llm_do_temporal.policy.delegation import (
    DEFAULT_MAX_DEPTH,
    MAX_WORKER_NAME_CHARS,
    RESERVED_NAMES,
    TemplateRules,
    check_allowed,
    check_depth,
    check_name,
    choose_template,
    is_template,
    normalise_template,
    template_problems,
    worker_name,
)


@pytest.mark.parametrize(
    "name", ["a", "evaluator", "pitch_deck-2", "a" * MAX_WORKER_NAME_CHARS, "worker_calls", "final"]
)
def test_plain_names_are_valid(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a" * (MAX_WORKER_NAME_CHARS + 1),
        "Evaluator",
        "1st",
        "_private",
        "-flag",
        "two words",
        "a.b",
        # a name becomes a path
        "../evil",
        "/etc/passwd",
        "a/b",
        "a\\b",
        "pkg:a",
        # a pattern that ends in $ would let this one through
        "evaluator\n",
        "evaluator\0",
        # letters and digits that only look like the allowed ones
        "\u0435valuator",
        "a\u0661",
        "éval",
    ],
)
def test_other_names_are_not(name: str) -> None:
    with pytest.raises(DefinitionError, match="is not valid; a name is a lower-case letter"):
        check_name(name)


def test_the_message_about_a_long_name_is_short() -> None:
    with pytest.raises(DefinitionError) as wrong:
        check_name("A" * 100_000)
    assert len(str(wrong.value)) < 300


OF_THE_REFERENCE = {"worker_call", "worker_create", "shell", "read_file", "write_file", "list_files"}


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES | OF_THE_REFERENCE))
def test_the_names_of_tools_are_reserved(name: str) -> None:
    with pytest.raises(DefinitionError, match="is reserved for a tool"):
        check_name(name)


@pytest.mark.parametrize("allow", [("evaluator",), ("writer", "evaluator"), ("*",), ("writer", "*")])
def test_a_listed_worker_may_be_called(allow: tuple[str, ...]) -> None:
    check_allowed("evaluator", allow, caller="main")


@pytest.mark.parametrize(
    ("allow", "listed"),
    [
        # nobody is nobody
        ((), "it may call nobody"),
        (("writer", "reader"), "it may call 'writer', 'reader'"),
        # names are whole, in small letters, and no patterns
        (("evaluator2",), "'evaluator2'"),
        (("Evaluator",), "'Evaluator'"),
        (("eval*",), "'eval*'"),
        (("**",), r"'**'"),
    ],
)
def test_any_other_worker_may_not(allow: tuple[str, ...], listed: str) -> None:
    with pytest.raises(DelegationRefusal) as refused:
        check_allowed("evaluator", allow, caller="main")
    assert str(refused.value).startswith("worker 'main' may not call 'evaluator'; ")
    assert listed in str(refused.value)


@pytest.mark.parametrize(("depth", "limit"), [(0, 0), (0, 5), (5, 5), (4, 5)])
def test_workers_run_down_to_the_limit(depth: int, limit: int) -> None:
    check_depth(depth, limit, worker="evaluator")


@pytest.mark.parametrize(("depth", "limit"), [(1, 0), (6, DEFAULT_MAX_DEPTH), (100, 5)])
def test_and_no_deeper(depth: int, limit: int) -> None:
    with pytest.raises(DepthExceeded) as refused:
        check_depth(depth, limit, worker="evaluator")
    assert str(refused.value) == (
        f"RecursionError: maximum worker depth exceeded: 'evaluator' would run at depth {depth}, "
        f"the limit is {limit} (max_depth)"
    )


TEMPLATES_OF_THE_REFERENCE = ("pkg:*", "./templates/**/*.yaml")


@pytest.mark.parametrize(
    ("allow", "asked", "chosen"),
    [
        (TEMPLATES_OF_THE_REFERENCE, "pkg:summarizer", "pkg:summarizer"),
        (TEMPLATES_OF_THE_REFERENCE, "pkg:summarizer.yaml", "pkg:summarizer"),
        # ** is no folder, one or many
        (TEMPLATES_OF_THE_REFERENCE, "templates/one.yaml", "templates/one.yaml"),
        (TEMPLATES_OF_THE_REFERENCE, "templates/a/one.yaml", "templates/a/one.yaml"),
        (TEMPLATES_OF_THE_REFERENCE, "templates/a/b/c/one.yaml", "templates/a/b/c/one.yaml"),
        # one file, several spellings
        (TEMPLATES_OF_THE_REFERENCE, "./templates/one.yaml", "templates/one.yaml"),
        (TEMPLATES_OF_THE_REFERENCE, "templates//./one.yaml", "templates/one.yaml"),
        (("**",), "a/b.yml", "a/b.yml"),
        (("**/b.yml",), "b.yml", "b.yml"),
        (("a/**/**/b.yml",), "a/x/b.yml", "a/x/b.yml"),
        (("templates/**",), "templates/a/b/one.yaml", "templates/a/b/one.yaml"),
        (("templates/**.yaml",), "templates/one.yaml", "templates/one.yaml"),
        (("templates/one.yaml",), "templates/one.yaml", "templates/one.yaml"),
        (("templates/[ab].yaml",), "templates/b.yaml", "templates/b.yaml"),
    ],
)
def test_a_template_that_a_pattern_names_is_chosen(allow: tuple[str, ...], asked: str, chosen: str) -> None:
    assert choose_template(TemplateRules(allow=allow), asked, caller="worker 'main'") == chosen


@pytest.mark.parametrize(
    ("allow", "asked"),
    [
        # nobody
        ((), "templates/one.yaml"),
        ((), "pkg:summarizer"),
        # * stays in its folder
        (("templates/*.yaml",), "templates/a/one.yaml"),
        (("*",), "templates/one.yaml"),
        (("templates/**/x/*.yaml",), "templates/one.yaml"),
        # ** within a name is *
        (("templates/**.yaml",), "templates/a/one.yaml"),
        (("templates/a**/one.yaml",), "templates/a/b/one.yaml"),
        # files and what ships with the package are never mixed up
        (("**/*.yaml",), "pkg:summarizer"),
        (("pkg:*",), "summarizer.yaml"),
        (("pkg:sum*",), "pkg:pitchdeck-single"),
        # capitals count: on some disks they name the same file
        (TEMPLATES_OF_THE_REFERENCE, "Templates/one.yaml"),
        (TEMPLATES_OF_THE_REFERENCE, "templates/one.YAML"),
        # a longer path than the pattern, and a shorter one
        (("templates/one.yaml",), "templates/one.yaml/two.yaml"),
        (("templates/a/one.yaml",), "templates/one.yaml"),
        # a pattern that leads out matches nothing, even where nobody checked it
        (("../**",), "templates/one.yaml"),
    ],
)
def test_a_template_that_no_pattern_names_is_refused(allow: tuple[str, ...], asked: str) -> None:
    with pytest.raises(DelegationRefusal, match=r"may not call template|is not a template"):
        choose_template(TemplateRules(allow=allow), asked, caller="worker 'main'")


@pytest.mark.parametrize(
    "asked",
    [
        "",
        ".",
        "/etc/one.yaml",
        "../one.yaml",
        "./templates/../one.yaml",
        "templates/../../one.yaml",
        "templates\\one.yaml",
        "templates/one.yaml\0",
        "templates/one",
        "templates/one.worker",
        "templates",
        "pkg:",
        "pkg:../evil",
        "pkg:a/b",
        "pkg:Summarizer",
        "pkg:read_file",
    ],
)
def test_names_that_no_template_can_have_are_refused_whatever_is_allowed(asked: str) -> None:
    with pytest.raises(DelegationRefusal):
        choose_template(TemplateRules(allow=("**", "pkg:*")), asked, caller="worker 'main'")


@pytest.mark.parametrize("asked", ["pkg:summarizer", "../../etc/passwd", "", "templates/other.yaml"])
def test_a_locked_template_is_used_whatever_name_is_given(asked: str) -> None:
    rules = TemplateRules(allow=(), lock="./templates/one.yaml")
    assert choose_template(rules, asked, caller="worker 'main'") == "templates/one.yaml"


def test_a_refusal_says_what_is_allowed() -> None:
    with pytest.raises(DelegationRefusal) as caught:
        choose_template(TemplateRules(allow=("pkg:*",)), "templates/one.yaml", caller="worker 'main'")
    assert str(caught.value) == "worker 'main' may not call template 'templates/one.yaml'; allowed: 'pkg:*'"


@pytest.mark.parametrize(
    ("rules", "keys"),
    [
        (TemplateRules(allow=TEMPLATES_OF_THE_REFERENCE, lock="templates/one.yaml"), []),
        (TemplateRules(allow=("/etc/*", "pkg:*", "../x")), [("allow", 0), ("allow", 2)]),
        (TemplateRules(lock="../one.yaml"), [("lock",)]),
        (TemplateRules(lock="one.txt"), [("lock",)]),
    ],
)
def test_mistakes_of_the_author_are_found_under_their_keys(
    rules: TemplateRules, keys: list[tuple[str | int, ...]]
) -> None:
    assert [path for path, _ in template_problems(rules)] == keys


def test_many_stars_take_no_longer_than_few() -> None:
    # A matcher that tried every way to share the folders among the stars would never end.
    pattern, asked = "/".join(["**", "a"] * 30) + "/b.yaml", "/".join(["a"] * 200) + "/c.yaml"
    with pytest.raises(DelegationRefusal):
        choose_template(TemplateRules(allow=(pattern,)), asked, caller="worker 'main'")


def test_limits_for_files_are_a_policy_like_any_other() -> None:
    policy = TemplateRules(max_attachments=1, max_bytes=5, allowed_suffixes=(".PDF",)).attachments
    assert (policy.max_attachments, policy.max_total_bytes, policy.allowed_suffixes) == (1, 5, (".pdf",))


def test_a_name_has_one_spelling() -> None:
    assert normalise_template("././a//b.yml") == "a/b.yml"


def test_a_name_of_any_length_is_refused() -> None:
    with pytest.raises(DelegationRefusal, match="at most"):
        normalise_template("t" * 100_000 + ".yaml")


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("templates/one.yaml", "one"),
        ("templates/a/one.yaml", "a--one"),
        ("templates/a_b/one-2.yaml", "a_b--one-2"),
        ("pkg:one", "pkg--one"),
    ],
)
def test_a_name_that_leads_back_to_its_template_is_plain(template: str, name: str) -> None:
    assert worker_name(template) == name


def test_no_two_templates_share_a_name() -> None:
    alike = [
        "templates/one.yaml",
        "templates/one.yml",
        "templates/One.yaml",
        "one.yaml",
        "a/one.yaml",
        "templates/a/one.yaml",
        "templates/a--one.yaml",
        "templates/a-/one.yaml",
        "templates/a/-one.yaml",
        "pkg:one",
        "templates/pkg/one.yaml",
        "pkg/one.yaml",
        "templates/shell.yaml",
        "templates/template_shell.yaml",
        "templates/7.yaml",
        "templates/template_7.yaml",
        "templates/\u00e4.yaml",
        f"templates/{'x' * 200}.yaml",
        f"templates/{'x' * 201}.yaml",
    ]
    names = [worker_name(template) for template in alike]
    assert len(set(names)) == len(alike)
    for name in names:
        check_name(name)


def test_a_template_is_told_from_a_worker_by_its_name() -> None:
    names = ("templates/one.yaml", "a.yml", "pkg:one", "one", "pkg-one", "yaml", "decks--one")
    assert [name for name in names if is_template(name)] == ["templates/one.yaml", "a.yml", "pkg:one"]
