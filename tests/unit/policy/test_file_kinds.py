"""Which calls of file tools are of a kind, whatever spelling, link or file name somebody tries."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.identity import SeenFile
from llm_do_temporal.policy.kinds.kind import AllowEntry, AskedCall, CallKind, KindGrant, covering, kinds_of, may_cover
from llm_do_temporal.policy.shell import WITHOUT_ISOLATION
from llm_do_temporal.policy.values import CapabilityUse

TREE = Tree(mounts=(Mount(at="/", root="files", base="files"),))
NOTES = CallKind(tool="write_file", below="/notes", suffix=".md")
AS_NAMED = object()


def write(path: Any, *, place: Any = AS_NAMED, seen: str | None = None, **more: Any) -> AskedCall:
    """Return the call of write_file on a path that was found at its own place, or at another."""
    normal = seen or "/" + "/".join(part for part in str(path).split("/") if part not in ("", "."))
    found = SeenFile(path=normal, place=f"files{normal}" if place is AS_NAMED else place)
    use = CapabilityUse(name="sandbox.write", payload={"path": normal, "bytes": 3})
    given: dict[str, Any] = {"tool": "write_file", "args": {"path": path, "content": "abc"}, "uses": (use,)}
    return AskedCall.model_validate(given | {"tree": TREE, "files": (found,)} | more)


@pytest.mark.parametrize(
    "path", ["/notes/a.md", "notes/a.md", "/notes//a.md", "./notes/./a.md", "/notes/deep/er/a.md", "/notes/ä b.md"]
)
def test_a_kind_covers_a_file_below_its_folder_however_the_path_is_spelled(path: str) -> None:
    assert NOTES.covers(write(path))


@pytest.mark.parametrize(
    "path",
    [
        "/notes.md",  # beside the folder
        "/notes-2/a.md",  # a folder that only begins so
        "/Notes/a.md",  # other letters
        "/NOTES/A.MD",
        "/notes/a.txt",  # another suffix
        "/notes/a.MD",
        "/notes/a.md.sh",
        "/notes/.md",  # a suffix and no name
        "/notes/.hidden/a.md",
        "/notes/.a.md",
        "/notes",  # the folder itself
        "/notes/../a.md",  # refused by its text
        "/notes/..",
        "/notes/\u2024\u2024/../a.md",
        "/n\u043etes/a.md",  # a Cyrillic letter
        "/notes\\a.md",
        "/notes/a.md\0",
        "/notes/\ud800.md",
        "",
        7,
        None,
    ],
)
def test_a_kind_covers_no_path_that_only_looks_like_its_own(path: Any) -> None:
    assert not NOTES.covers(write(path))


@pytest.mark.parametrize("place", ["files/secret/a.md", "files/notes/b.md", "notes/a.md", None])
def test_a_kind_covers_no_file_that_a_link_leads_to(place: str | None) -> None:
    assert not NOTES.covers(write("/notes/a.md", place=place))


def test_a_kind_covers_no_file_that_nobody_looked_at() -> None:
    call = write("/notes/a.md", files=())

    assert NOTES.fits(call)
    assert not NOTES.covers(call)
    assert not NOTES.covers(write("/notes/a.md", seen="/notes/b.md"))
    other = SeenFile(path="/other.md", place="files/other.md")
    assert not NOTES.covers(write("/notes/a.md", files=(*write("/notes/a.md").files, other)))


def test_a_kind_covers_its_own_tool_alone() -> None:
    read = CapabilityUse(name="sandbox.read", payload={"path": "/notes/a.md"})

    assert not NOTES.covers(write("/notes/a.md", tool="edit_file"))
    assert not NOTES.covers(write("/notes/a.md", tool="read_file", uses=(read,)))
    assert CallKind(tool="read_file", below="/notes").covers(write("/notes/a.md", tool="read_file", uses=(read,)))
    # a tool from elsewhere that is called write_file, and hands files over
    attached = Attachment(path="/notes/a.md", sha256="0" * 64, bytes=1, media_type="text/plain")
    assert not NOTES.covers(write("/notes/a.md", attachments=(attached,)))


@pytest.mark.parametrize(
    "name", ["effect.repeat", "limit.exceed", "sandbox.write.definitions", "worker.create", "tool.call"]
)
def test_a_kind_covers_no_question_that_is_always_asked_and_no_foreign_capability(name: str) -> None:
    use = CapabilityUse(name=name, payload={"path": "/notes/a.md"})

    assert not NOTES.covers(write("/notes/a.md", uses=(use,)))
    assert not NOTES.covers(write("/notes/a.md", uses=(*write("/notes/a.md").uses, use)))
    assert not NOTES.covers(write("/notes/a.md", uses=()))


@pytest.mark.parametrize("path", ["/notes/x.worker", "/notes/workshop.yaml", "/notes/.git/hooks/pre-commit"])
def test_a_kind_covers_no_file_that_defines(path: str) -> None:
    assert not CallKind(tool="write_file", below="/notes").covers(write(path))


def test_a_kind_may_mean_one_file() -> None:
    kind = CallKind(tool="write_file", path="//notes/./a.md")

    assert kind.path == "/notes/a.md"
    assert kind.covers(write("notes/a.md"))
    assert not kind.covers(write("/notes/b.md"))
    assert not kind.covers(write("/notes/a.md", place="files/b.md"))


def test_the_top_of_the_tree_is_a_folder_too() -> None:
    assert CallKind(tool="write_file", below="/").covers(write("/a.md"))


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ({"tool": "write_file", "below": "/notes", "suffix": ".md"}, "write_file of .md files below /notes"),
        ({"tool": "edit_file", "below": "/notes"}, "edit_file of files below /notes"),
        ({"tool": "read_file", "path": "/a.md"}, "read_file of /a.md"),
    ],
)
def test_a_kind_is_a_sentence_and_yaml(kind: dict[str, Any], sentence: str) -> None:
    assert CallKind(**kind).sentence == sentence
    assert CallKind(**kind).as_mapping() == kind


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ({"tool": "write_file", "below": "notes"}, "starts with '/'"),
        ({"tool": "write_file", "below": "/notes/../.."}, "contains '..'"),
        ({"tool": "write_file", "below": "/notes/*"}, "no pattern"),
        ({"tool": "write_file", "below": "/notes", "suffix": "md"}, "starts with a dot"),
        ({"tool": "write_file", "below": "/notes", "suffix": "."}, "starts with a dot"),
        ({"tool": "write_file", "path": "/a.md", "suffix": ".md"}, "`path` is one file already"),
        ({"tool": "write_file", "path": "/a.md", "below": "/"}, "a kind of calls is"),
        ({"tool": "write_file"}, "a kind of calls is"),
        ({"tool": "write_file", "below": "/", "command": "ls"}, "`below` does not go with `command`"),
        ({"below": "/notes"}, "`tool` is missing"),
        ({"tool": "list_files", "below": "/notes"}, "is no file tool"),
        ({"tool": "write_file", "below": "/", "upto": 3}, "Extra inputs"),
        ({}, "a kind of calls is"),
    ],
)
def test_a_kind_that_means_nothing_is_refused(kind: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        CallKind(**kind)


DIGEST, OTHER = "a" * 64, "b" * 64


def attached(path: str, place: str | None = "") -> Attachment:
    """Return a file that is handed over, found at its own place, or at another."""
    real = f"files{path}" if place == "" else place
    return Attachment(path=path, sha256=DIGEST, bytes=1, media_type="text/plain", place=real)


def call_of(worker: str, *files: Attachment, **more: Any) -> AskedCall:
    """Return the call of a worker with these files."""
    use = CapabilityUse(name="worker.call", payload={"worker": worker, "input": "go"})
    given: dict[str, Any] = {"tool": "worker_call", "args": {"worker_name": worker}, "uses": (use,), "tree": TREE}
    return AskedCall.model_validate(given | {"attachments": files} | more)


def share(path: str, worker: str) -> AskedCall:
    """Return the question whether a file may go to a worker."""
    use = CapabilityUse(name="sandbox.read", payload={"path": path, "bytes": 1, "target_worker": worker})
    return call_of(worker, attached(path), tool=worker, uses=(use,))


def search(args: dict[str, Any], sha256: str | None = DIGEST, **more: Any) -> AskedCall:
    """Return the call of a Python tool."""
    payload = {"tool": "search"} | ({} if sha256 is None else {"sha256": sha256})
    use = CapabilityUse(name="python.call", payload=payload)
    return AskedCall.model_validate({"tool": "search", "args": args, "uses": (use,)} | more)


READER = CallKind(worker="deck_reader")
DECKS = CallKind(worker="deck_reader", attachments="/pipeline")


def test_a_kind_covers_calls_of_its_worker() -> None:
    assert READER.covers(call_of("deck_reader"))
    assert READER.covers(call_of("deck_reader", tool="deck_reader"))
    assert not READER.covers(call_of("deck_writer"))
    assert not READER.covers(call_of("Deck_reader"))
    assert READER.sentence == "calls of deck_reader, with no files"


def test_files_go_along_from_below_the_folder_only() -> None:
    assert DECKS.sentence == "calls of deck_reader, with files below /pipeline"
    assert DECKS.covers(call_of("deck_reader"))
    assert DECKS.covers(call_of("deck_reader", attached("/pipeline/a.pdf"), attached("/pipeline/b/c.pdf")))
    assert DECKS.covers(share("/pipeline/a.pdf", "deck_reader"))
    assert not READER.covers(call_of("deck_reader", attached("/pipeline/a.pdf")))
    assert not DECKS.covers(call_of("deck_reader", attached("/pipeline/a.pdf"), attached("/secret/b.pdf")))
    assert not DECKS.covers(call_of("deck_reader", attached("/pipeline/../secret/b.pdf")))
    assert not DECKS.covers(share("/pipeline/a.pdf", "somebody_else"))
    assert not DECKS.covers(share("/secret/a.pdf", "deck_reader"))


@pytest.mark.parametrize("place", ["files/secret/a.pdf", None])
def test_no_link_leads_elsewhere_from_a_file_that_is_handed_over(place: str | None) -> None:
    call = call_of("deck_reader", attached("/pipeline/a.pdf", place))

    assert DECKS.fits(call)
    assert not DECKS.covers(call)


def test_templates_and_further_uses_are_no_calls_of_a_worker() -> None:
    template = CapabilityUse(name="worker.call", payload={"worker": "deck_reader", "template": "t.yaml"})
    nameless = CapabilityUse(name="worker.call", payload={"worker": 3})
    plain = call_of("deck_reader").uses[0]
    seen = SeenFile(path="/pipeline/x", place="files/pipeline/x")

    assert not READER.covers(call_of("deck_reader", uses=(template,)))
    assert not READER.covers(call_of("deck_reader", uses=(nameless,)))
    assert not READER.covers(call_of("deck_reader", uses=(plain, plain)))
    assert not READER.covers(call_of("deck_reader", uses=(CapabilityUse(name="worker.create", payload={}),)))
    assert not READER.covers(call_of("deck_reader", uses=(CapabilityUse(name="sandbox.read", payload={}),)))
    assert not READER.covers(call_of("deck_reader", files=(seen,)))


def test_one_call_may_be_meant_exactly() -> None:
    kind = CallKind(tool="search", args={"q": "x", "n": 1}, sha256=DIGEST)

    assert kind.covers(search({"n": 1, "q": "x"}))
    assert not kind.covers(search({"n": True, "q": "x"}))
    assert not kind.covers(search({"n": 1.0, "q": "x"}))
    assert not kind.covers(search({"n": 1, "q": "x", "more": None}))
    assert not kind.covers(search({"n": 1, "q": "x"}, OTHER))
    assert not kind.covers(search({"n": 1, "q": "x"}, None))
    assert not kind.covers(search({"n": 1, "q": "x"}, tool="search2"))
    assert not kind.covers(search({"n": 1, "q": "x"}, files=(SeenFile(path="/a"),)))
    assert not kind.covers(call_of("search", tool="search", args={"n": 1, "q": "x"}))
    assert kind.sentence == 'search with exactly {"n":1,"q":"x"}'
    assert CallKind(tool="search", args={"q": "x" * 200}).sentence.endswith("xxx…")


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ({"tool": "shell", "args": {"command": "ls"}}, "for 'shell' write `command`"),
        ({"tool": "write_file", "args": {}}, "for 'write_file' write `path`, `below` or `folder`"),
        ({"args": {}}, "`tool` is missing"),
        ({"tool": "search", "args": {}, "below": "/x"}, "`below` does not go with `args`"),
        ({"worker": "x", "args": {}}, "`args` does not go with `worker`"),
        ({"tool": "search", "args": {}, "sha256": "abc"}, "should match pattern"),
        ({"attachments": "/x"}, "a kind of calls is"),
    ],
)
def test_a_kind_of_two_shapes_is_refused(kind: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        CallKind(**kind)


def sentences(call: AskedCall) -> list[str]:
    """Return the kinds that a person is offered for the call."""
    return [kind.sentence for kind in kinds_of(call)]


def file_call(path: str, place: str | None = "") -> AskedCall:
    """Return a write that was looked at."""
    use = CapabilityUse(name="sandbox.write", payload={"path": path})
    seen = SeenFile(path=path, place=f"files{path}" if place == "" else place)
    return AskedCall(tool="write_file", args={"path": path}, uses=(use,), tree=TREE, files=(seen,))


def command(*argv: str, **more: Any) -> AskedCall:
    """Return a command."""
    use = CapabilityUse(name="proc.exec", payload={"argv": list(argv), "cwd": "/"})
    return AskedCall.model_validate({"tool": "shell", "args": {}, "uses": (use,), "tree": TREE} | more)


def test_the_most_specific_kind_is_offered_first() -> None:
    assert sentences(file_call("/notes/2024/a.md")) == [
        "write_file of /notes/2024/a.md",
        "write_file of .md files below /notes/2024",
        "write_file of files below /notes/2024",
        "write_file of .md files below /notes",
        "write_file of files below /notes",
    ]
    assert sentences(file_call("/notes/README")) == ["write_file of /notes/README", "write_file of files below /notes"]
    assert sentences(file_call("/a.md")) == ["write_file of /a.md"]
    assert sentences(command("git", "log", "-n", "5", "src/a.md")) == [
        "the command `git log -n 5 src/a.md`",
        "the command `git log -n 5 {path}`",
        "the command `git log -n {number} src/a.md`",
    ]
    seen = (SeenFile(path="/a.md", place="files/a.md"),)
    assert sentences(command("cat", "a.md", files=seen)) == ["the command `cat a.md`", "the command `cat {path}`"]
    assert sentences(command("git", "show", "it's")) == ["the command `git show 'it'\"'\"'s'`"]
    assert sentences(command("git", "show", "main"))[1:] == ["the command `git show {name}`"]
    assert sentences(call_of("deck_reader")) == ["calls of deck_reader, with no files"]
    assert sentences(call_of("deck_reader", attached("/in/a/x.pdf"), attached("/in/b/y.pdf"))) == [
        "calls of deck_reader, with files below /in"
    ]
    assert sentences(search({"q": 1})) == ['search with exactly {"q":1}']


def test_nothing_is_offered_that_would_not_cover_the_call_itself() -> None:
    repeat = CapabilityUse(name="effect.repeat", payload={"argv": ["git", "push"], "cwd": "/"})

    assert sentences(file_call("/notes/a.md", "files/secret")) == []
    assert sentences(command("git", "push", uses=(repeat,))) == []
    assert sentences(command("sudo", "ls")) == []
    assert sentences(command("python", "x.py")) == ["the command `python x.py`"]
    assert sentences(command("git", "log", "a.md", circumstances=f"abc {WITHOUT_ISOLATION}")) == []
    assert sentences(call_of("deck_reader", attached("/x.pdf"))) == []
    assert sentences(call_of("deck_reader", attached("/../x.pdf"))) == []
    mixed = (*search({}).uses, CapabilityUse(name="deploy", payload={"tool": "search"}))
    assert sentences(search({}, uses=mixed)) == []


def test_no_more_than_eight_kinds_are_offered() -> None:
    assert len(sentences(file_call("/a/b/c/d/e/f/g/h.md"))) == 8


def test_a_grant_says_what_it_agrees_to() -> None:
    kind = CallKind(worker="deck_reader")

    assert KindGrant(kind=kind).words == "calls of deck_reader, with no files, 20 times more, for 1 hour"
    assert KindGrant(kind=kind, times=1, seconds=90).words.endswith(", once more, for 90 seconds")


def test_the_first_entry_that_covers_a_call_lets_it_through() -> None:
    entries = (AllowEntry(tool="write_file", below="/other"), AllowEntry(tool="write_file", below="/notes", why="mine"))
    found = covering(entries, file_call("/notes/a.md"))

    assert found is not None
    assert (found[0], found[1].why) == (2, "mine")
    assert covering(entries, file_call("/notes/a.md", None)) is None
    assert may_cover(entries, file_call("/notes/a.md", None))
    assert not may_cover(entries, file_call("/a.md"))


@pytest.mark.parametrize(
    ("entry", "match", "not_match"),
    [
        (
            {"tool": "write_file", "below": "/notes", "suffix": ".md"},
            ["/notes/a.md", "notes/b.md"],
            ["/notes/a.sh", "/../x.md", "/a.md"],
        ),
        ({"tool": "read_file", "path": "/a.md"}, ["/a.md"], ["/b.md"]),
        ({"command": "git log {path}"}, ["git log src/a.md"], ["git push", "git log -p", "git log $(id)"]),
        (
            {"worker": "reader", "attachments": "/in"},
            ["reader", "reader /in/a.pdf /in/b.pdf"],
            ["writer", "reader /out/a.pdf", "reader /../x", ""],
        ),
        ({"tool": "search", "args": {"q": 1}}, ['{"q": 1}'], ['{"q": 2}', "[1]", "no JSON"]),
        ({"tool": "search", "args": {}, "sha256": DIGEST}, ["{}"], []),
    ],
)
def test_examples_are_held_against_their_entry(entry: dict[str, Any], match: list[str], not_match: list[str]) -> None:
    good = AllowEntry.model_validate(entry | {"match": match, "not_match": not_match})
    bad = AllowEntry.model_validate(entry | {"match": not_match, "not_match": match})

    assert list(good.failed_examples()) == []
    assert list(good.failed_examples(Tree())) == []
    failed = [("match", number, text) for number, text in enumerate(not_match)]
    assert list(bad.failed_examples()) == [*failed, *(("not_match", n, text) for n, text in enumerate(match))]


def test_examples_are_judged_in_the_files_of_the_workshop() -> None:
    entry = AllowEntry(tool="write_file", below="/src", match=("/src/a.py",))

    assert list(entry.failed_examples(TREE)) == []
    assert list(entry.failed_examples(Tree(mounts=(Mount(at="/", root="."),)))) == [("match", 0, "/src/a.py")]


def test_runs_take_entries_along_without_examples() -> None:
    entry = AllowEntry(tool="read_file", path="/a.md", why="public", match=("/a.md",))

    assert entry.pinned() == AllowEntry(tool="read_file", path="/a.md", why="public")
    assert entry.kind == CallKind(tool="read_file", path="/a.md")
