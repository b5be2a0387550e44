"""Which commands are of a kind, and which kinds of commands nobody may write down."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.kinds.kind import AskedCall, CallKind
from llm_do_temporal.policy.shell import WITHOUT_ISOLATION
from llm_do_temporal.policy.values import CapabilityUse

TREE = Tree(mounts=(Mount(at="/", root="files", base="files"),))
TWO = Tree(mounts=(Mount(at="/input", root="a"), Mount(at="/output", root="b")))


def run(*argv: str, cwd: Any = "/", name: str = "proc.exec", **more: Any) -> AskedCall:
    """Return the call of a command with these words."""
    use = CapabilityUse(name=name, payload={"argv": list(argv), "cwd": cwd})
    given: dict[str, Any] = {"tool": "shell", "args": {"command": " ".join(argv)}, "uses": (use,), "tree": TREE}
    return AskedCall.model_validate(given | more)


LOG = CallKind(command="git log {path}")


@pytest.mark.parametrize(
    "word", ["a.md", "src/a.md", "src", "src/", "./a.md", "x_1/y-2.tar.gz", "ä.md", "c++/a..b", "0"]
)
def test_a_free_path_is_a_name_or_a_relative_path(word: str) -> None:
    assert LOG.covers(run("git", "log", word))


@pytest.mark.parametrize(
    "word",
    [
        *("", " ", "-o", "-", "--", "+1", "@", "@{u}", "..", ".", "*", "~/x"),
        "--output=x",
        "--x=/etc",
        "/etc/passwd",
        "//etc",
        "../x",
        "a/../b",
        "a/..",
        "./../x",
        "././a",
        ".git/config",
        "a/.env",
        ".env",
        "a=b",
        "x=/etc",
        "host:/x",
        "http://x/y",
        "a:b",
        "a,b",
        "a@b",
        "a//b",
        "a b",
        "a\tb",
        "a\nb",
        "a/-o",
        "a/@x",
        "a?",
        "[a]",
        "{path}",
        "$HOME",
        "`id`",
        "a;b",
        "a|b",
        "a\\b",
        "'a'",
        "\u2024\u2024/x",  # dots of another kind
        "\uff0e\uff0e/x",
        "\u2212o",  # a minus that is no hyphen
        "\uff0do",
        "a\u200bb",  # nothing to see
        "\u202egnp",  # turns the text around
        "\ufb01le",  # a ligature that normalises to other letters
        "a" * 501,
        "a\0",
    ],
)
def test_a_free_path_is_nothing_else(word: str) -> None:
    assert not LOG.covers(run("git", "log", word))


@pytest.mark.parametrize(
    "argv",
    [
        ("git",),
        ("git", "log"),
        ("git", "log", "a.md", "b.md"),
        ("git", "log", "a.md", ""),
        ("git", "log", "", "a.md"),
        ("git", "-c", "log", "a.md"),
        ("git", "log", "a.md", "--output=x"),
        ("GIT", "log", "a.md"),
        ("/usr/bin/git", "log", "a.md"),
        ("git", "log ", "a.md"),
        ("git", "log", *["a.md"] * 5000),
        ("git log", "a.md"),
    ],
)
def test_the_other_words_are_as_written_and_no_more(argv: tuple[str, ...]) -> None:
    assert not LOG.covers(run(*argv))


@pytest.mark.parametrize(
    ("pattern", "fits", "others"),
    [
        ("head -n {number} a.md", ["5", "007", "999999999"], ["-5", "+5", "5k", "1e9", "٣", "5.0", "", "1234567890"]),
        ("make {name}", ["test", "build-2", "a.b_c", "x"], ["a/b", "-B", "X=1", ".x", "a b", "ä", "x" * 101, ""]),
        ("git log -- {path}", ["a.md"], ["--output=x"]),
        ("git log --oneline {path}", ["a.md"], ["-p"]),
        ("ls -la {path}", ["src"], ["-R"]),
        ("python tools/report.py {path}", ["a.md"], ["-c"]),
        ("sed s/a/b/ {path}", ["a.md"], ["-i"]),
        ("sed -n -e p {path}", ["a.md"], ["-i"]),
        ("awk -F , 1 {path}", ["a.csv"], ["-f"]),
        ("awk -F: -v x=1 1 {path}", ["a.csv"], ["-f"]),
        ("jq -r . {path}", ["a.json"], ["-f"]),
        ("tar xf a.tar {path}", ["a.md"], ["-I"]),
        ("tar -x -f a.tar {path}", ["a.md"], ["-I"]),
        ("chmod 644 {path}", ["a.md"], ["-R"]),
        ("git --no-pager show {name}", ["main"], ["main:x"]),
    ],
)
def test_each_type_of_free_word_fits_its_words(pattern: str, fits: list[str], others: list[str]) -> None:
    kind = CallKind(command=pattern)
    words = pattern.split()

    def command(word: str) -> AskedCall:
        return run(*(word if one.startswith("{") else one for one in words))

    assert [word for word in fits if not kind.covers(command(word))] == []
    assert [word for word in others if kind.covers(command(word))] == []


def test_a_command_may_be_spelled_out_whole() -> None:
    kind = CallKind(command="git commit -m 'two words'")

    assert kind.covers(run("git", "commit", "-m", "two words"))
    assert not kind.covers(run("git", "commit", "-m", "two", "words"))
    assert kind.sentence == "the command `git commit -m 'two words'`"


def test_no_link_leads_from_a_free_word_elsewhere() -> None:
    def log(place: str) -> AskedCall:
        return run("git", "log", "a.md", files=(SeenFile(path="/a.md", place=place),))

    assert LOG.covers(log("files/a.md"))
    assert not LOG.covers(log("files/secret.md"))


def test_no_link_leads_from_another_word_elsewhere_but_from_the_program() -> None:
    linked = (SeenFile(path="/a.md", place="files/secret.md", sha256="1" * 64),)
    folder = (SeenFile(path="/logs", place="../0123456789abcdef"),)
    program = (SeenFile(path="/venv/bin/count", place="files/tools/count", sha256="1" * 64),)

    assert not CallKind(command="wc -l a.md").covers(run("wc", "-l", "a.md", files=linked))
    assert not CallKind(command="cmp a.md {path}").covers(run("cmp", "a.md", "b.md", files=linked))
    assert not CallKind(command="du {path}").covers(run("du", "logs", files=folder))
    assert CallKind(command="venv/bin/count").covers(run("venv/bin/count", files=program))
    assert not CallKind(command="venv/bin/count").covers(run("venv/bin/count", files=(*program, *linked)))


def test_a_free_word_is_a_path_below_the_working_directory() -> None:
    assert LOG.covers(run("git", "log", "a.md", cwd="/src"))
    assert not LOG.covers(run("git", "log", "a.md", cwd="/../.."))
    assert not LOG.covers(run("git", "log", "workshop.yaml"))
    # above two folders a path names one of them, and a name may be no file
    assert LOG.covers(run("git", "log", "input/a.md", tree=TWO))
    assert not LOG.covers(run("git", "log", "other/a.md", tree=TWO))
    assert CallKind(command="make {name}").covers(run("make", "test", tree=TWO))


def test_a_command_without_isolation_is_never_covered() -> None:
    assert not LOG.covers(run("git", "log", "a.md", circumstances=f"abc {WITHOUT_ISOLATION}"))


def test_only_what_is_run_counts_and_only_of_the_shell() -> None:
    more = CapabilityUse(name="deploy.web", payload={"argv": ["git", "log", "a.md"], "cwd": "/"})
    other = CapabilityUse(name="deploy.web", payload={"argv": ["git", "push"], "cwd": "/"})
    call = run("git", "log", "a.md")

    assert LOG.covers(run("git", "log", "a.md", uses=(*call.uses, more)))
    assert not LOG.covers(run("git", "log", "a.md", uses=(*call.uses, other)))
    assert not LOG.covers(run("git", "log", "a.md", tool="their_shell"))
    assert not LOG.covers(run("git", "log", "a.md", name="effect.repeat"))
    assert not LOG.covers(run("git", "log", "a.md", uses=(CapabilityUse(name="tool.call", payload={}),)))


REFUSED = [
    ("{name} a.md", "the program itself"),
    ("{path}", "the program itself"),
    ("git log {path} {path}", "at most one"),
    ("git log --output={path}", "alone"),
    ("git log {file}", "no free word"),
    ("cat {path} > x", "redirection"),
    ("cat {path} | sh", "pipe"),
    ("cat {path}; rm x", "second command"),
    ("cat 'x", "cannot be split"),
    ("", "empty"),
    ("git log ''", "empty word"),
    ("sudo ls", "runs whatever program"),
    ("/usr/bin/sudo ls", "runs whatever program"),
    ("env X=1 ls", "runs whatever program"),
    ("xargs rm", "runs whatever program"),
    ("timeout 5 ls {path}", "runs whatever program"),
    ("python -c 'print(1)'", "option of the interpreter"),
    ("python3.11 -Ic x", "option of the interpreter"),
    ("bash -c ls", "option of the interpreter"),
    ("perl -e 1", "option of the interpreter"),
    ("node --eval 1", "option of the interpreter"),
    ("python {path}", "the code that it runs"),
    ("python -m {name}", "the code that it runs"),
    ("python -m pytest {path}", "the code that it runs"),
    ("sh {path}", "the code that it runs"),
    ("pytest {path}", "runs what its words name"),
    ("awk {path}", "may be the script"),
    ("sed -f {path} a.md", "may be the script"),
    ("sed s/a/b/ -f {path}", "may be the script"),
    # the value of an option before it is no script, so the free word is: `sed -l 5 enotes/x.sh` runs notes/x.sh
    ("sed -l 5 {path} a.md", "may be the script"),
    ("sed -n -l 5 {name} a.md", "may be the script"),
    ("sed -e {path}", "may be the script"),
    ("awk -F , {path} a.csv", "may be the script"),
    ("awk -v x=1 {name} a.csv", "may be the script"),
    ("gawk -l readfile {name}", "may be the script"),
    ("jq --arg a b {name}", "may be the script"),
    ("luajit {path}", "the code that it runs"),
    ("tclsh8.6 {path}", "the code that it runs"),
    ("m4 {path}", "runs what its words name"),
    ("run-parts {path}", "runs what its words name"),
    ("crontab {path}", "runs what its words name"),
    ("valgrind {path}", "runs whatever program"),
    ("pkexec {name}", "runs whatever program"),
    ("busybox-static {name}", "runs whatever program"),
    ("ld-linux-x86-64.so.2 {path}", "runs whatever program"),
    ("ansible-playbook {path}", "a host"),
    ("docker-compose {name}", "a host"),
    ("ssh-copy-id {name}", "a host"),
    ("nmap {name}", "a host"),
    ("getent hosts {name}", "a host"),
    ("tar {name} a.tar", "is its options"),
    ("tar {path}", "is its options"),
    ("tar xf {path}", "value of an option in 'xf'"),
    ("tar xfI a.tar {path}", "value of an option in 'xfI'"),
    ("kill {number}", "a process"),
    ("kill -9 {number}", "a process"),
    ("chmod {number} a.sh", "who may do what"),
    ("chmod -R {path} a.sh", "who may do what"),
    ("find . -name x -exec rm", "find -exec"),
    ("find {path} -delete", "find -delete"),
    ("git -c core.pager=x log", "git -c"),
    ("git --exec-path=x log", "other programs"),
    ("git --version", "git --version"),
    ("git clone {name}", "git clone"),
    ("git push {name}", "git push"),
    ("git {name} a.md", "git {name}"),
    ("curl {name}", "a host"),
    *((f"deno {word} {{path}}", "runs what its words name") for word in ("run", "test", "bench", "serve", "compile")),
    *((f"deno {word} {{name}}", "runs what its words name") for word in ("eval", "task", "install")),
    *((f"{word} {{path}}", "the code that it runs") for word in ("ocaml", "swipl", "octave-cli", "clj", "gst")),
    *((f"python3{end} {{path}}", "the code that it runs") for end in ("-dbg", ".13t", "d", ".13-nogil")),
    ("php8.2-cgi {path}", "the code that it runs"),
    *((f"{word} install {{name}}", "a package") for word in ("mamba", "cpan", "luarocks", "opam", "cabal")),
    ("cpanm {name}", "a package"),
    *((f"{word} {{path}}", "runs what its words name") for word in ("bc", "gs", "prove", "logrotate", "sphinx-build")),
    *((f"{word} run {{path}}", "runs what its words name") for word in ("crystal", "k6", "nextflow", "wasmtime")),
    *((f"stack {word} {{path}}", "runs what its words name") for word in ("script", "runghc")),
    *(("packer build {path}", "runs what its words name"), ("puppet apply {path}", "runs what its words name")),
    ("mysqladmin kill {number}", "a host"),
    *((f"{word} {{number}}", "a process") for word in ("reptyr", "py-spy dump --pid", "xkill -id", "gcore")),
    ("ssh-agent ls", "runs whatever program"),
    ("ssh {name}", "a host"),
    ("pip install {name}", "a package"),
    ("npm run {name}", "a package"),
    ("tar -f {path}", "the value of that option"),
    ("sort -o {path}", "the value of that option"),
    ("git log --output {path}", "the value of that option"),
    ("git log -n {name}", "the value of that option"),
    ("head -n {path}", "the value of that option"),
    # files with the names of others, or with settings
    *((f"{words} {{path}}", "the value of that option") for words in ("md5sum -c", "grep -f", "file -m", "du -X")),
    ("wc --files0-from {path}", "the value of that option"),
]


@pytest.mark.parametrize(("pattern", "says"), REFUSED)
def test_a_pattern_that_could_run_anything_is_refused_when_it_is_written(pattern: str, says: str) -> None:
    with pytest.raises(ValidationError) as refused:
        CallKind(command=pattern)

    assert says in str(refused.value)
