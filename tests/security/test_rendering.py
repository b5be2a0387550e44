"""Instructions: included text stays text, nothing but what authors own is read, and rendering always ends."""

from __future__ import annotations

import multiprocessing
import os
import resource
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from llm_do_temporal.definitions.workers.instructions import InstructionText, included_files, render_instructions
from llm_do_temporal.errors import DefinitionError
from tests.support.patience import PATIENCE_SECONDS
from tests.support.workshops.folders import SECRET, Folder, make_folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return make_folder(tmp_path / "workshop")


def rendered(folder: Folder, body: str) -> str:
    folder.write("workers/greeter.worker", f"description: d\n---\n{body}")
    return folder.load("greeter").instructions


IN_INCLUDED_FILES = (
    *("{{ file('.env') }}", "{% include '.env' %}", "{{ file('.llm-do/host.json') }}", "{{ 7 * 7 }}", "{{ nobody }}"),
    *("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "{{ 'a' * 2000000000 }}"),
    *("{% include 'files/note.md' %}", "{% extends '.env' %}", "{% import '.env' as x %}{{ x }}", "{% raw %}x"),
    *("{{ ''.__class__.__mro__ }}", "{% if %}", "{#", "{% endraw %}{{ file('.env') }}", "{{ self }}", "{{ loop }}"),
)


@pytest.mark.parametrize("how", ["{% include 'files/note.md' %}", "{{ file('files/note.md') }}"], ids=["tag", "call"])
@pytest.mark.parametrize("text", IN_INCLUDED_FILES)
def test_text_that_a_worker_wrote_is_never_a_template(folder: Folder, text: str, how: str) -> None:
    folder.write("files/note.md", f"before {text} after")
    assert rendered(folder, f"[{how}]") == f"[before {text} after]"


HIDDEN = (
    *(".env", "./.env", ".//.env", ".llm-do/host.json", ".git/config", "workers/.secret.md", ".secret.md", "envlink"),
    *("out.md", "folder/host.json", "workers/../.env", "../outside.md", "/etc/passwd", "//etc/passwd", "..", "."),
    *("hop.md", "deep/config", "loop.md", "workers/generated/made.worker", "made.md", "pipe", "files", "", ".env\0.md"),
)


@pytest.mark.parametrize("tag", [False, True], ids=["call", "tag"])
@pytest.mark.parametrize("name", HIDDEN, ids=ascii)
def test_what_no_author_gave_is_never_included(folder: Folder, name: str, tag: bool) -> None:
    folder.link("envlink", ".env")
    folder.link("out.md", "../outside.md")
    folder.link("folder", ".llm-do")
    folder.link("hop.md", "envlink")
    folder.link("deep", "files/../.git")
    folder.link("loop.md", "loop.md")
    folder.write("workers/generated/made.worker", f"---\n---\n{SECRET}")
    folder.link("made.md", "workers/generated/made.worker")
    os.mkfifo(folder.root / "pipe")
    quoted = repr(name).replace("\\x00", "\0")
    with pytest.raises(DefinitionError) as caught:
        rendered(folder, f"{{% include {quoted} %}}" if tag else f"{{{{ file({quoted}) }}}}")
    assert SECRET not in str(caught.value)
    assert str(folder.root) not in str(caught.value)


COMPUTED = (
    *(
        "{{ file('.e' ~ 'nv') }}",
        "{{ file('.e' + 'nv') }}",
        "{% set n = '.env' %}{{ file(n) }}",
        "{{ file(*['.env']) }}",
    ),
    *("{% set n = '.env' %}{% include n %}", "{% include '.e' ~ 'nv' %}", "{% include ['note.md', '.e' + 'nv'] %}"),
    *("{% for n in ['.env'] %}{{ file(n) }}{% endfor %}", "{% for n in ['.env'] %}{% include n %}{% endfor %}"),
    *("{{ file(name='.env') }}", "{{ file(**{'name': '.env'}) }}", "{{ file(['.env'][0]) }}", "{{ file() }}"),
    *("{% set file = '.env' %}", "{% set f = file %}{{ f('.env') }}", "{{ [file][0]('.env') }}", "{{ ('.env')|file }}"),
    *(
        "{{ file('.env' if true else 'x') }}",
        "{{ file(file('files/note.md')) }}",
        "{% include file('files/note.md') %}",
    ),
    *(
        "{{ ['.env']|map('file') }}",
        "{% include ('.env' if true) %}",
        "{% include [] %}",
        "{{ file('files/note.md', '.env') }}",
    ),
    *("{% for file in [1] %}{{ file }}{% endfor %}", "{% include 7 %}", "{{ file(none) }}", "{{ file(1) }}"),
)


@pytest.mark.parametrize("body", COMPUTED)
def test_a_name_that_is_computed_is_refused_before_anything_is_read(folder: Folder, body: str) -> None:
    folder.write("files/note.md", ".env")
    with pytest.raises(DefinitionError) as caught:
        rendered(folder, body)
    assert SECRET not in str(caught.value)
    assert caught.value.line == 3


ESCAPES = (
    *("{{ ''.__class__ }}", "{{ ''['__class__'] }}", "{{ ''|attr('__class__') }}", "{{ file.__globals__ }}"),
    *(
        "{{ file['__globals__'] }}",
        "{{ range.__self__ }}",
        "{{ loop.__init__ }}",
        "{{ self.__init__ }}",
        "{{ self._TemplateReference__context }}",
    ),
    *("{{ cycler.__init__.__globals__ }}", "{{ joiner }}", "{{ namespace(a=1) }}", "{{ lipsum() }}", "{{ dict(a=1) }}"),
    *("{{ '{0.__class__}'.format(1) }}", "{{ '%s'|format(1) }}", "{{ 'x'.join(['a']) }}", "{{ [].append(1) }}"),
    *("{{ ['a']|map(attribute='__class__')|list }}", "{{ ['a']|map('upper') }}", "{{ [1]|sort }}", "{{ 1|pprint }}"),
    *(
        "{{ {}.items() }}",
        "{{ caller() }}",
        "{{ varargs }}",
        "{{ config }}",
        "{{ request }}",
        "{{ ().__class__.__bases__[0].__subclasses__() }}",
    ),
    *("{% import 'files/note.md' as x %}", "{% from 'files/note.md' import x %}", "{% extends 'files/note.md' %}"),
    *(
        "{% block a %}{% endblock %}",
        "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{% call file('x') %}{% endcall %}",
    ),
    *("{% filter upper %}x{% endfilter %}", "{% set x %}y{% endset %}", "{% with a=1 %}{% endwith %}", "{% do 1 %}"),
    *(
        "{% autoescape true %}{% endautoescape %}",
        "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% debug %}",
    ),
    *(
        "{{ 'abc'[0:2] }}",
        "{% set a.b = 1 %}",
        "{% set a, b = 1, 2 %}",
        "{% for a.b in [1] %}{% endfor %}",
        "{{ 1 is sameas 1 }}",
    ),
    *("{% set loop = 1 %}", "{% set range = 1 %}", "{{ range }}", "{{ file }}", "{{ [file] }}", "{{ 'x' is filter }}"),
)


@pytest.mark.parametrize("body", ESCAPES)
def test_nothing_of_python_and_nothing_unbounded_of_jinja_is_reached(folder: Folder, body: str) -> None:
    with pytest.raises(DefinitionError):
        rendered(folder, body)


def times(text: str, count: int, end: str = "") -> str:
    return text * count + end


ENDLESS = {
    "text": "{{ 'a' * 2000000000 }}",
    "text, the other way round": "{{ 2000000000 * 'a' }}",
    "list": "{{ [1] * 2000000000 }}",
    "power": "{{ 9 ** 9 ** 9 }}",
    "squares": "{% set x = 7 %}" + times("{% set x = x * x %}", 60),
    "doubled by ~": "{% set x = 'a' %}" + times("{% set x = x ~ x %}", 60),
    "doubled by +": "{% set x = 'a' %}" + times("{% set x = x + x %}", 60),
    "doubled by join": "{% set x = 'a' %}" + times("{% set x = [x, x] | join %}", 60),
    "doubled by replace": "{% set x = 'aa' %}" + times("{% set x = x | replace('a', 'aa') %}", 60),
    "replace of nothing": "{{ ('a' * 4000) | replace('', 'b' * 4000) | replace('', 'c' * 4000) }}",
    "lists in lists": "{% set x = [1] %}" + times("{% set x = [x, x] %}", 60, "{{ x }}"),
    "lists compared": "{% set x = [1] %}{% set y = [1] %}"
    + times("{% set x = [x, x] %}{% set y = [y, y] %}", 60, "{{ x == y }}"),
    "mappings in mappings": "{% set x = {} %}" + times("{% set x = {1: x, 2: x} %}", 60, "{{ x }}"),
    "loop in loop": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "loops over text": "{% set x = 'a' * 99999 %}{% for a in x %}{% for b in x %}{% endfor %}{% endfor %}",
    "filtered loops": "{% for a in range(99999) %}{% for b in range(99999) if b < 0 %}{% endfor %}{% endfor %}",
    "files in a loop": "{% for a in range(99999) %}{% if 'x' in file('big.md') %}{% endif %}{% endfor %}",
    "files compared": "{% for a in range(99999) %}{% if file('big.md') == file('big.md') %}{% endif %}{% endfor %}",
    "files written": "{% for a in range(99999) %}{% include 'big.md' %}{% endfor %}",
    "many files": times("{% include 'big.md' %}", 3000),
    "joined by a file": "{{ range(99999) | join(file('big.md')) }}",
    "indented": "{{ 'a' | indent(2000000000) }}",
    "indented below zero": "{{ 'a' | indent(-5) }}",
    "centred": "{{ 'a' | center(2000000000) }}",
    "wrapped": "{{ 'a' | wordwrap(1) }}",
    "formatted": "{{ '%2000000000d' % 1 }}",
    "formatted by a filter": "{{ '%2000000000d' | format(1) }}",
    "formatted by a method": "{{ '{:2000000000}'.format(1) }}",
    "padded by a method": "{{ 'a'.ljust(2000000000) }}",
    "large range": "{{ range(2000000000) | join }}",
    "larger range": "{{ range(0, 99999999999999999999, 1) | length }}",
    "range of ranges": "{% for a in range(99999) %}{{ range(99999) | join }}{% endfor %}",
    "range without steps": "{{ range(0, 9, 0) }}",
    "lorem ipsum": "{{ lipsum(100000) }}",
    "batch": "{{ range(9) | batch(2000000000, 'x') | list }}",
    "slice": "{{ range(9) | slice(2000000000) | list }}",
    "tojson": "{{ range(9) | tojson(indent=2000000000) }}",
    "digits": "{{ " + "9" * 100_000 + " }}",
    "sum": "{{ 999999999999999 + 1 + 1 - 1 * 99999999999999999999 }}",
    "parentheses": "{{ " + "(" * 20_000 + "1" + ")" * 20_000 + " }}",
    "minus": "{{ " + "-" * 20_000 + "1 }}",
    "not": "{{ " + "not " * 20_000 + "1 }}",
    "long sum": "{{ 1" + "+1" * 20_000 + " }}",
    "long attribute": "{{ a" + ".a" * 20_000 + " }}",
    "filters": "{{ 'x'" + "|upper" * 20_000 + " }}",
    "conditions": times("{% if 1 %}", 20_000) + times("{% endif %}", 20_000),
    "loops": times("{% for a in [1, 2] %}", 40, "x") + times("{% endfor %}", 40),
    "loops over nothing": times("{% for a in [] %}", 30, "x") + times("{% endfor %}", 30),
    "formatted by a test": "{{ '%2000000000d' is even }}",
    "lists as a key": "{% set x = [1] %}" + times("{% set x = [x, x] %}", 60, "{{ {}[x] }}"),
    "many names in branches": "".join(f"{{% if 1 %}}{{% set a{n} = 1 %}}{{% endif %}}" for n in range(2800))
    + "{{ z }}",
    "many expressions": times("{{ 1 }}", 100_000),
    "long list": "{{ [" + "1," * 300_000 + "] }}",
    "comments": times("{# ", 300_000),
    "blocks": times("{% ", 300_000),
    "unended raw": "{% raw %}" + times("{% ", 300_000),
    "spaces": "{%" + " " * 900_000,
    "quotes": "{{ '" + "\\'" * 400_000,
    "empty list": "{{ [] | first }}",
    "divided by zero": "{{ 1 // 0 }}",
    "wrong arguments": "{{ 'a' | replace(1) }}",
    "unknown arguments": "{{ 'a' | indent(colour=1) }}",
    "list as key": "{{ {[1]: 2} }}",
    "text less text": "{{ 'a' - 'b' }}",
    "compared with text": "{{ 1 < 'a' }}",
    "loop over a number": "{% for a in 7 %}{% endfor %}",
    "too many names": "{% for a, b in [[1, 2, 3]] %}{% endfor %}",
}


def refused_within_bounds(source: InstructionText, told: Connection) -> None:
    """Render in this process, which is not let have a gigabyte or twenty seconds for it."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, used + 2**30))
    spent = int(sum(os.times()[:2]))
    resource.setrlimit(resource.RLIMIT_CPU, (spent + 20, spent + 20))
    included_files(source)
    try:
        render_instructions(source)
    except DefinitionError as error:
        told.send(str(error))


@pytest.mark.sampled(4)
@pytest.mark.timeout(PATIENCE_SECONDS)
@pytest.mark.parametrize("body", ENDLESS.values(), ids=ENDLESS.keys())
def test_rendering_ends_within_bounds(folder: Folder, body: str) -> None:
    """In a process of its own: what is not bounded would take this one with it."""
    folder.write("big.md", "yz" * 400_000)
    forking = multiprocessing.get_context("fork")
    asked, told = forking.Pipe(duplex=False)
    source = InstructionText(body, "w.worker", 1, folder.root, folder.root)
    child = forking.Process(target=refused_within_bounds, args=(source, told))
    child.start()
    told.close()
    child.join()
    assert asked.poll(0), f"it was not refused but ended with {child.exitcode}"
    assert len(asked.recv()) < 1000


LOOKED_FOR = {
    "{{ file('a.md') }}": {"workers/a.md", "a.md"},
    "{% include 'x/a.md' %}": {"workers/x/a.md", "x/a.md"},
    "{% if false %}{{ file('a.md') }}{% endif %}": {"workers/a.md", "a.md"},
    "{% include ['a.md', 'b.md'] ignore missing %}": {"workers/a.md", "a.md", "workers/b.md", "b.md"},
    "{{ file('./x//link.md') }}": {"workers/x/link.md", "x/link.md"},
    "{{ (file('a.md') | indent(2)) ~ 'x' }}": {"workers/a.md", "a.md"},
    "{% for x in [1] %}{% for y in [file('a.md')] %}{% endfor %}{% endfor %}": {"workers/a.md", "a.md"},
    "{% set x = {'k': [file('a.md')]}['k'][0] %}": {"workers/a.md", "a.md"},
    "{{ [1] | join(file('a.md')) }}": {"workers/a.md", "a.md"},
    "{{ 1 if file('a.md') in ['x'] else 2 }}": {"workers/a.md", "a.md"},
    "{% for x in [1] if file('a.md') %}{% else %}{{ file('b.md') }}{% endfor %}": {
        *("workers/a.md", "a.md", "workers/b.md", "b.md"),
    },
    "{% raw %}{{ file('a.md') }}{% endraw %}{# {{ file('a.md') }} #}": set[str](),
}


@pytest.mark.parametrize(("body", "paths"), LOOKED_FOR.items())
def test_every_file_that_may_be_included_is_known_without_rendering(folder: Folder, body: str, paths: set[str]) -> None:
    """What is known is protected: a place that were forgotten could be written by a worker."""
    folder.write("files/real.md", "x")
    folder.link("x/link.md", "../files/real.md")
    source = InstructionText(body, "workers/w.worker", 3, folder.root / "workers", folder.root)
    assert included_files(source) == paths


@pytest.mark.control
def test_what_authors_write_is_rendered(folder: Folder) -> None:
    folder.write("tone.md", "Be kind.\n")
    body = "{% if file('tone.md') %}{% include 'tone.md' %}{% endif %}{% for n in ['a'] %} {{ n | upper }}{% endfor %}"
    assert rendered(folder, body) == "Be kind. A"
