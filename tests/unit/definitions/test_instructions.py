"""Instructions are rendered once, inside the workshop, and every mistake has its line."""

from __future__ import annotations

import pytest

from llm_do_temporal.errors import DefinitionError
from tests.support.workshops.workshop_folder import WorkshopFolder


def render(workshop: WorkshopFolder, body: str) -> str:
    workshop.write("workers/greeter.worker", f"description: d\nlocked: true\n---\n{body}")
    return workshop.load("greeter").instructions


def test_files_of_the_workshop_are_included(workshop: WorkshopFolder) -> None:
    workshop.write("PROCEDURE.md", "First do this.\n")
    workshop.write("workers/tone.md", "Be kind.\n")
    assert render(workshop, "{{ file('PROCEDURE.md') }}{% include 'tone.md' %}") == "First do this.\nBe kind."


def test_the_workers_own_folder_comes_before_the_workshops(workshop: WorkshopFolder) -> None:
    workshop.write("note.md", "far")
    workshop.write("workers/greeter/note.md", "near")
    workshop.write("workers/greeter/worker.worker", "description: d\n---\n{{ file('note.md') }}")
    assert workshop.load("greeter").instructions == "near"
    assert render(workshop, "{{ file('greeter/note.md') }} {{ file('note.md') }}") == "near far"


def test_text_from_file_is_inserted_as_it_is(workshop: WorkshopFolder) -> None:
    workshop.write("raw.md", "<b> {{ not a template }} {% nor this %} &amp;")
    assert render(workshop, "{{ file('raw.md') }}") == "<b> {{ not a template }} {% nor this %} &amp;"


def test_included_text_is_text(workshop: WorkshopFolder) -> None:
    workshop.write("outer.md", "[{{ file('inner.md') }}]{% include 'outer.md' %}\n")
    workshop.write("inner.md", "x")
    assert render(workshop, "{% include 'outer.md' %}") == "[{{ file('inner.md') }}]{% include 'outer.md' %}"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "{% for x in ['be', 'kind'] %}{{ loop.index }}/{{ loop.length }} {{ x | upper }};{% endfor %}",
            "1/2 BE;2/2 KIND;",
        ),
        ("{% for x in [] %}x{% else %}none{% endfor %}", "none"),
        ("{% for a, b in [[1, 2], [3, 4]] if b > 2 %}{{ a + b }}{% endfor %}", "7"),
        ("{% for i in range(3) %}{% if not loop.last %}{{ i }}, {% else %}{{ i }}{% endif %}{% endfor %}", "0, 1, 2"),
        ("{% set t = 'kind' %}{% if t == 'kind' and 2 * 3 > 5 %}yes{% elif t %}so{% else %}no{% endif %}", "yes"),
        ("{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}", "21"),
        ("{{ {'a': [1, 2]}['a'][1] }}{{ 'x' ~ (1 + 1) }}{{ -3 // 2 }}{{ 7 % 4 }}", "2x2-23"),
        ("{{ file('a.md') | indent(2) | trim }}", "one\n  two"),
        ("{{ nobody | default('-') }}{{ nobody is defined }}{{ 'a' in ['a'] }}{{ '' | d('e', true) }}", "-FalseTruee"),
        (
            "{{ ['a', 'b'] | join('+') }}{{ [1, 2] | length }}{{ 'abc' | replace('b', '-') }}{{ 'ab' | first }}",
            "a+b2a-ca",
        ),
        ("{% include ['gone.md', 'a.md'] %}{# not said #}{% raw %}{{ raw }}{% endraw %}", "one\ntwo{{ raw }}"),
        ("a {%- if true -%} b {%- endif -%} c{{ 'yes' if false }}{{ none }}", "abcNone"),
    ],
)
def test_ordinary_templates_are_rendered(workshop: WorkshopFolder, body: str, expected: str) -> None:
    workshop.write("a.md", "one\ntwo\n")
    assert render(workshop, body) == expected


def test_the_first_file_of_a_list_that_exists_is_included_or_is_the_mistake(workshop: WorkshopFolder) -> None:
    workshop.write("a.md", "one\n")
    workshop.write("b.md", "").write_bytes(b"\xff")
    assert render(workshop, "{% include ['gone.md', 'a.md', 'b.md'] %}") == "one"
    with pytest.raises(DefinitionError, match=r"'b\.md' is not UTF-8 text"):
        render(workshop, "{% include ['gone.md', 'b.md', 'a.md'] ignore missing %}")


def test_a_loop_takes_a_step_for_each_part_of_its_body(workshop: WorkshopFolder) -> None:
    loop = "{{% for i in range({}) %}}x{{{{ i }}}}{{% endfor %}}"
    assert len(render(workshop, loop.format(40_000))) == 228_890
    with pytest.raises(DefinitionError, match="the template does too much"):
        render(workshop, loop.format(50_000))


def test_a_file_that_may_be_missing_can_be_left_out(workshop: WorkshopFolder) -> None:
    assert render(workshop, "Hi{% include 'nowhere.md' ignore missing %}") == "Hi"


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        ("Hello\n{{ name }}", 5, "'name' is undefined"),  # nobody gives values to a worker's text
        ("Hello\n\n{{ name", 6, "unexpected end of template"),  # syntax
        ("{% if x %}", 4, "Unexpected end of template"),
        ("a\n{{ file('nowhere.md') }}", 5, "there is no file 'nowhere.md' in 'workers/' or the workshop's folder"),
        ("a\n{% include 'nowhere.md' %}", 5, "there is no file 'nowhere.md'"),
        ("{{ file('../secret.md') }}", 4, "'../secret.md' is not a path inside the workshop"),  # above the workshop
        ("{% include '../secret.md' %}", 4, "'../secret.md' is not a path inside the workshop"),
        ("{{ file('/etc/hostname') }}", 4, "'/etc/hostname' is not a path inside the workshop"),
        ("{{ file('out/secret.md') }}", 4, "'out/secret.md' is a link that leads out of the workshop"),
        ("{% include 'out/secret.md' %}", 4, "'out/secret.md' is a link that leads out of the workshop"),
        ("{{ file('workers') }}", 4, "'workers' is not a file"),  # a folder
        ("{{ file('binary.pdf') }}", 4, "'binary.pdf' is not UTF-8 text"),
        ("{{ file('huge.md') }}", 4, "'huge.md' is larger than"),
        ("{{ file.__globals__ }}", 4, "unsafe"),  # the sandbox
        ("{{ ''.__class__ }}", 4, "unsafe"),
        ("{% for i in range(1000000000000) %}x{% endfor %}", 4, "Range too big"),  # would never end
        ("{% for i in range(99999) %}{{ 'x' * 100 }}{% endfor %}", 4, "longer than 1048576 characters"),
        ("{% set x = [] %}{{ x.append(1) }}", 4, "unsafe"),  # nothing can be changed
        ("{{ 1 / 0 }}", 4, "division by zero"),
        ("a\n{{ '\\ud800' }}", 5, "half a character"),  # no request can hold it
        ("a\n{{ {'\\ud800': 1} }}", 5, "half a character"),
        ("a\n{{ '\\ud83d' ~ '\\ude00' }}", 5, "half a character"),
        ("a\n{% include 'caf\\ud800' ignore missing %}", 5, "half a character"),
        ("a\n{{ 1e999 }}", 5, "a number is too large"),
        ("a\n{{ -1e999 }}", 5, "a number is too large"),
        ("a\n{{ 1 if 2 < 1e999 }}", 5, "a number is too large"),
        ("a\n{{ 1e308 * 10 }}", 5, "a number is too large"),
        (f"a\n{{{{ file('{'x' * 5000}') }}}}", 5, "cannot be opened: File name too long"),
        (f"a\n{{{{ file('{'x' * 300}/b') }}}}", 5, "cannot be opened: File name too long"),
        (f"a\n{{% include ['{'x' * 5000}', 'a.md'] ignore missing %}}", 5, "cannot be opened: File name too long"),
        ("a\nHello {#", 5, "missing end of comment"),  # Jinja2 passes over it
        ("a\n{#-", 5, "missing end of comment"),
        ("a\n{# one #}\n{#", 6, "missing end of comment"),
        ("a\n{% raw %}", 5, "missing end of {% raw %}"),
        ("a\n{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}", 5, "nested too deeply"),
        ("a\n" + "{% for i in [1] %}\n" * 21 + "{% endfor %}" * 21, 25, "nested too deeply"),
        ("a\n" + "{{ 1 }}" * 20_000, 5, "more than 50000 words"),
        ("a\n{{ " + "9" * 5000 + " }}", 5, "it cannot be read"),
        ("a\n{{ 'x' | shout }}", 5, "no filter 'shout'"),
        ("a\n{{ 'x' is loud }}", 5, "no test 'loud'"),
        ("{% include 'workers/generated/made.worker' %}", 4, "was written by a model and cannot be included"),
    ],
)
def test_a_mistake_is_named_with_the_line_of_the_worker_file(
    workshop: WorkshopFolder, body: str, line: int, words: str
) -> None:
    workshop.write("../secret.md", "secret")
    (workshop.root / "out").symlink_to(workshop.root.parent)
    workshop.write("binary.pdf", "").write_bytes(b"%PDF\xff\xfe")
    workshop.write("huge.md", "x" * (1024 * 1024 + 1))
    workshop.write("workers/generated/made.worker", "---\n---\n{{ x }}")
    with pytest.raises(DefinitionError) as caught:
        render(workshop, body)
    assert words.lower() in caught.value.problem.lower()
    assert caught.value.file == "workers/greeter.worker"
    assert caught.value.line == line or words == "longer than 1048576 characters"
    assert str(workshop.root) not in str(caught.value)


@pytest.mark.parametrize(
    ("front", "line"),
    [
        ("instructions: |\n  Hello\n  {{ name }}", 4),  # a block begins below its key
        ("instructions: Hello {{ name }}", 2),  # plain text on the key's line
        ('instructions: "Hello {{ name }}"', 2),  # quoted text
    ],
)
def test_lines_are_right_where_the_instructions_are_a_key(workshop: WorkshopFolder, front: str, line: int) -> None:
    workshop.write("workers/greeter.yaml", f"description: d\n{front}\n")
    with pytest.raises(DefinitionError) as caught:
        workshop.load("greeter")
    assert caught.value.line == line


def test_instructions_that_come_out_empty_are_refused(workshop: WorkshopFolder) -> None:
    with pytest.raises(DefinitionError, match="empty once rendered"):
        render(workshop, "{# nothing but a comment #}")


def test_text_that_a_model_wrote_is_never_rendered(workshop: WorkshopFolder) -> None:
    workshop.write("workers/generated/made.worker", "description: d\n---\n{{ file('PROCEDURE.md') }} {% if %}")
    assert workshop.load("made").instructions == "{{ file('PROCEDURE.md') }} {% if %}"


def test_a_link_to_generated_text_does_not_make_it_a_template(workshop: WorkshopFolder) -> None:
    workshop.write("workers/generated/made.worker", "description: d\n---\n{{ 1 + 1 }}")
    (workshop.root / "workers" / "alias.worker").symlink_to("generated/made.worker")
    assert workshop.load("alias").instructions == "{{ 1 + 1 }}"
