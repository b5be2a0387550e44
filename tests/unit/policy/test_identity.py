"""Identical calls have one identity; whatever makes them differ makes it another."""

from __future__ import annotations

from typing import Any

import pytest

from llm_do_temporal.policy.files.attachments import Attachment
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.groups import CELL_CHARS, CELLS_CHARS, CallGroup, command_shape, group_of
from llm_do_temporal.policy.identity import (
    IDENTITY_VERSION,
    SeenFile,
    call_key,
    changes_nothing,
    delegation_key,
    ending_key,
    identity_of,
    read_key,
    said_key,
    subject_of,
    turn_key,
)
from llm_do_temporal.policy.values import LIMIT, REPEAT, CapabilityUse

TREE = Tree(mounts=(Mount(at="/", root="files"),))
OTHER = Tree(mounts=(Mount(at="/", root="other"),))
SEEN = SeenFile(path="/a", place="files/a", sha256="1", mode=0o644, after="2")
HANDED = Attachment(path="/a.pdf", bytes=1, media_type="application/pdf", sha256="1" * 64)


def identity(**more: Any) -> str:
    keys: dict[str, Any] = {
        "tool": "write_file",
        "args": {"path": "/a"},
        "uses": [CapabilityUse(name="sandbox.write", payload={"path": "/a"})],
        "version": IDENTITY_VERSION,
        "tree": TREE,
        "files": [SEEN],
        "attachments": [HANDED],
        "circumstances": "",
        "whom": [],
    }
    return identity_of(**{**keys, **more})


@pytest.mark.parametrize(
    "other",
    [
        {"tool": "edit_file"},
        {"args": {"path": "/b"}},
        {"tree": OTHER},
        {"files": [SEEN.model_copy(update={"sha256": "3"})]},
        {"attachments": []},
        {"circumstances": "bare"},
        {"whom": ["ada"]},
        {"done": True},
        {"version": IDENTITY_VERSION + 1},
    ],
)
def test_what_differs_has_another_identity(other: dict[str, Any]) -> None:
    assert identity(**other) != identity()


def test_a_subject_is_where_the_file_really_is() -> None:
    assert subject_of(CapabilityUse(name="sandbox.read", payload={"path": "/a"}), TREE) == ["sandbox.read", "files/a"]
    assert subject_of(CapabilityUse(name="sandbox.read", payload={"path": "/../a"}), TREE) == ["sandbox.read", None]
    assert subject_of(CapabilityUse(name="python.call", payload={"sha256": "1"}), TREE) == ["python.call", None, "1"]


def test_a_file_is_like_it_was_with_the_same_bytes_and_mode_in_the_same_place() -> None:
    assert SEEN.is_like(SEEN)
    assert SEEN.model_copy(update={"place": None}).is_like(SEEN)
    for change in ({"place": "files/b"}, {"sha256": "2"}, {"mode": 0o600}):
        assert not SEEN.is_like(SEEN.model_copy(update=change))


def test_a_call_that_leaves_all_as_it_is_changes_nothing() -> None:
    assert changes_nothing([SEEN.model_copy(update={"after": "1"})])
    assert not changes_nothing([SEEN])
    assert not changes_nothing([])


def use(name: str = "tool.call", **payload: Any) -> CapabilityUse:
    return CapabilityUse(name=name, payload=payload)


def written(path: str, *, tree: Tree = TREE, **more: Any) -> CallGroup:
    args = {"path": path, "content": "x"} | more
    return group_of("write_file", args, [use("sandbox.write", path=path, bytes=1)], tree)


def command(line: str) -> CallGroup:
    argv = line.split()
    return group_of("shell", {"command": line}, [use("proc.exec", argv=argv, cwd="/")], TREE)


def called(callee: str, **args: Any) -> CallGroup:
    return group_of("worker_call", args, [use("worker.call", worker=callee, input="", attachments=[])], TREE)


def test_the_keys_of_this_version_stay_as_they_are() -> None:
    assert written("/notes/a.md").key == "fdd76ef2b86dfee072769170b8a2cf6f"
    assert command("git push origin main").key == "2162c2d133be33fea6a347f2052b107a"
    assert called("deck_reader", input="a").key == "3c3847675d5f448a631e65e344358f20"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (written("/notes/a.md"), written("/notes/b.md", content="much more\n" * 50)),
        (written("/notes/a.md"), written("/notes/./c.md")),
        (command("git push origin main"), command("git push fork topic")),
        (command("git push --force origin"), command("git push fork --force")),
        (command("npm run build a.js"), command("npm run build b.js")),
        (command("chmod 644 a"), command("chmod 644 b")),
        (command("docker compose up a"), command("docker compose up b")),
        (command("git stash push a.md"), command("git stash push b.md")),
        (command("git commit -m a"), command("git commit -m b")),
        (command("pytest tests/a.py"), command("pytest tests/b.py")),
        (command("ls -l /a"), command("ls -l /b")),
        (command("python build.py a"), command("python build.py b")),
        (called("deck_reader", input="a"), called("deck_reader", input="b")),
        (called("deck_reader", input=[1, 2]), called("deck_reader", input=[3])),
        # another order of the arguments
        (
            group_of("move", {"from": "a", "to": "b"}, [use()], TREE),
            group_of("move", {"to": "c", "from": "d"}, [use()], TREE),
        ),
    ],
)
def test_equal_calls_are_of_one_group(one: CallGroup, other: CallGroup) -> None:
    assert one.key == other.key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        # files: folder, suffix, and the folder that is really meant
        (written("/notes/a.md"), written("/done/a.md")),
        (written("/notes/a.md"), written("/notes/a.sh")),
        (written("/notes/a.md"), written("/notes/a")),
        (written("/a.md"), written("/a.md", tree=Tree(mounts=(Mount(at="/", root="other"),)))),
        (written("/a.md"), written("/../a.md")),
        # arguments: names and types
        (written("/a.md"), written("/a.md", mode="x")),
        (called("deck_reader", input="1"), called("deck_reader", input=1)),
        (called("deck_reader", input={"a": 1}), called("deck_reader", input={"b": 1})),
        (called("deck_reader", input=[1]), called("deck_reader", input=["1"])),
        (called("deck_reader", input=True), called("deck_reader", input=1)),
        # the callee, the code and the capability
        (called("deck_reader"), called("deck_writer")),
        (group_of("sum", {}, [use(sha256="1")], TREE), group_of("sum", {}, [use(sha256="2")], TREE)),
        (group_of("sum", {}, [use()], TREE), group_of("sum", {}, [use("python.call")], TREE)),
        (group_of("sum", {}, [use()], TREE), group_of("sub", {}, [use()], TREE)),
        # commands: program, subcommand, options, what is run by another program
        (command("git push origin"), command("git status origin")),
        (command("git push origin"), command("git push --force origin")),
        (command("rm a.txt"), command("rm -r a.txt")),
        (command("npm run build"), command("npm run clean")),
        (command("docker compose up"), command("docker compose down")),
        (command("git -C repo push"), command("git -C repo status")),
        (command("python a.py"), command("python b.py")),
        (command("python -c 1"), command("python -c 2")),
        (command("sudo git status"), command("sudo git push")),
        (command("env A=1 true"), command("env A=2 true")),
        (command("/tmp/git push"), command("git push")),
        (command("find . -exec true"), command("find / -exec true")),
        (command("strace ls a"), command("strace rm a")),
        (command("flock a.lock git status"), command("flock a.lock git push")),
        (command("busybox-static rm a"), command("busybox-static ls a")),
        (command("ld-linux-x86-64.so.2 ./a"), command("ld-linux-x86-64.so.2 ./b")),
        (command("bun a.js"), command("bun b.js")),
        (command("luajit a.lua"), command("luajit b.lua")),
        (command("Rscript a.r"), command("Rscript b.r")),
        (command("awk 1 a.md"), command("awk 2 a.md")),
    ],
)
def test_calls_that_are_not_alike_are_of_two_groups(one: CallGroup, other: CallGroup) -> None:
    assert one.key != other.key


APART = [
    # what another program runs, wherever it stands
    ("docker run i a", "docker run i b"),
    ("docker compose run s a", "docker compose run s b"),
    ("kubectl exec p -- a", "kubectl exec p -- b"),
    ("git submodule foreach a", "git submodule foreach b"),
    ("git bisect run a", "git bisect run b"),
    ("git rebase --exec a", "git rebase --exec b"),
    ("tar --to-command=a -x", "tar --to-command=b -x"),
    ("python a.py -m x", "python a.py -m y"),
    # code in words
    ("sqlite3 d a", "sqlite3 d b"),
    ("psql -c a d", "psql -c b d"),
    # a subcommand below another one, or behind an option
    ("git stash drop", "git stash pop"),
    ("git remote add x", "git remote remove x"),
    ("git worktree add x", "git worktree remove x"),
    ("git subtree push", "git subtree pull"),
    ("git lfs push", "git lfs pull"),
    ("terraform state rm a", "terraform state show a"),
    ("terraform workspace delete a", "terraform workspace show a"),
    ("ip addr del", "ip addr show"),
    ("docker compose -f f up", "docker compose -f f down"),
    ("docker buildx imagetools create x", "docker buildx imagetools inspect x"),
    ("service a stop", "service a status"),
    # signs that say what is done
    ("git push a b", "git push a :b"),
    ("git push a b", "git push a +b"),
    ("chmod 644 a", "chmod 777 a"),
    ("chmod -R 644 a", "chmod -R 777 a"),
    ("sed p a.md", "sed d a.md"),
]


@pytest.mark.parametrize(("one", "other"), APART)
def test_commands_that_do_two_things_are_of_two_groups(one: str, other: str) -> None:
    assert command(one).key != command(other).key


def test_a_repetition_is_not_equal_to_the_first_time() -> None:
    again = group_of("shell", {"command": "make"}, [use(REPEAT, argv=["make"], cwd="/")], TREE)
    assert again.key != command("make").key
    assert again.title == "may have happened: shell make"


@pytest.mark.parametrize(
    ("group", "title"),
    [
        (written("/notes/a.md"), "write_file *.md in /notes"),
        (command("git push --force origin main"), "shell git push --force"),
        (called("deck_reader"), "call deck_reader"),
        (
            group_of("worker_call", {}, [use("sandbox.read", path="/in/a.pdf", target_worker="reader")], TREE),
            "share *.pdf in /in with reader",
        ),
        (group_of("sum", {}, [use("python.call", tool="sum", sha256="1")], TREE), "sum"),
        (group_of("limit", {}, [use(LIMIT, of="main")], TREE), "go over a limit"),
    ],
)
def test_a_group_is_called_by_what_its_calls_share(group: CallGroup, title: str) -> None:
    assert group.title == title


def test_short_arguments_are_shown_whole_and_long_ones_never_look_the_same() -> None:
    one, other = (written("/a.md", content="long " * 100 + end) for end in ("a", "b"))
    assert written("/a.md").cells == {"path": "/a.md", "content": "x"}
    assert written("/a.md").is_whole
    assert one.cells["path"] == "/a.md"
    assert one.cells["content"].startswith("long long")
    assert "501 characters" in one.cells["content"]
    assert one.cells["content"] != other.cells["content"]
    assert len(one.cells["content"]) <= CELL_CHARS
    assert not one.is_whole


@pytest.mark.parametrize("long", ["buy bread " * 30, "x" * (CELL_CHARS + 1), "\u202e" * 200, "… (1 characters" * 9])
def test_a_short_text_cannot_pass_for_a_longer_one(long: str) -> None:
    shown = written("/a.md", content=long).cells["content"]
    forged = written("/a.md", content=shown)
    assert forged.cells["content"] not in (shown, long)
    assert not forged.is_whole
    again = written("/a.md", content=forged.cells["content"])
    assert again.cells["content"] not in (shown, forged.cells["content"])


def test_many_arguments_take_no_more_room_than_there_is() -> None:
    args = {f"argument_{number}": "x" * 50 for number in range(100)} | {"n" * 100: 1, "short": 1}
    group = group_of("tool", args, [use()], TREE)
    assert sum(len(name) + len(text) for name, text in group.cells.items()) <= CELLS_CHARS
    assert group.cells["short"] == "1"
    assert group.left_out == len(args) - len(group.cells) > 90
    assert "left_out" not in written("/a.md").model_dump()
    assert not group.is_whole


@pytest.mark.parametrize("payload", [{"path": 1}, {"argv": "git"}, {"argv": []}, {"worker": None}, {"argv": [1, None]}])
def test_a_strange_use_is_no_error(payload: dict[str, Any]) -> None:
    assert group_of("tool", {}, [use(**payload)], TREE).title.startswith("tool")


def test_arguments_however_deep_are_no_error() -> None:
    value: Any = 1
    for _ in range(150):
        value = [{"in": value}]
    assert group_of("tool", {"value": value}, [use()], TREE).key


def test_a_command_shape_is_program_subcommand_and_options() -> None:
    assert command_shape(["git", "push", "-f", "origin", "--to=x"]) == ["git", "push", "--to", "-f"]
    assert command_shape(["cp", "a.txt", "b.txt"]) == ["cp"]
    assert command_shape(["bash", "-c", "true"]) == ["bash", "-c", "true"]


def test_a_value_that_ends_like_a_cut_one_is_cut_too() -> None:
    long = written("/a.md", content="x" * 200).cells["content"]
    assert written("/a.md", content=long).cells["content"] != long


GOLDEN = [
    "c229837ff1538086a23db8a8806df17918b362298b754c62d324b0cfac250fa6",
    "0b1808fbffd29c9afbc653e2bd45e5fa8949d1c71a9e957b112e6fe5fe5be786",
    "d0d276916be4d99e8f0511398fb2843c3886ed2f7f00ecb26cac26e171e4e924",
    "d5a4237c9b5037b1fd4e0ebd11e98dd33bc49b44397c53f83cfa05150a2d34aa",
    "0cbe9c93718db87c5b3d54bd50adf46de75d272d5195c0e68d4e1504734d8c74",
]
"""Keys of version 1; another one is another version."""
GOLDEN_READ = "282136c8142ee2c616390a233409b471ef5afac3dd6d5b3b7393c90cf5663fe2"
FILE = Attachment(path="/a.txt", sha256="a" * 64, bytes=1, media_type="text/plain")


def test_golden_keys() -> None:
    said = said_key("", [{"kind": "request", "parts": []}])
    turn = turn_key("offline:echo", {"temperature": 0}, {"instructions": "Do it."}, said)
    call = call_key(turn, "write_file", {"path": "/a", "content": "b"}, 1)
    assert [said, turn, call, ending_key(turn), delegation_key("reader", "d" * 64, "m", "go", None, (FILE,))] == GOLDEN
    assert read_key("read_file", {"path": "/a", "layer": None}) == GOLDEN_READ


def test_a_call_of_a_turn_without_key_has_none() -> None:
    assert call_key("", "write_file", {}, 1) == ""
    assert ending_key("") == ""


def test_each_part_of_a_delegation_counts() -> None:
    keys = {
        delegation_key("reader", "d", "m", "go", None, ()),
        delegation_key("other", "d", "m", "go", None, ()),
        delegation_key("reader", "e", "m", "go", None, ()),
        delegation_key("reader", "d", "n", "go", None, ()),
        delegation_key("reader", "d", "m", "stop", None, ()),
        delegation_key("reader", "d", "m", "go", {}, ()),
        delegation_key("reader", "d", "m", "go", None, (FILE,)),
        delegation_key("reader", "d", "m", "go", None, (FILE.model_copy(update={"sha256": "b" * 64}),)),
        delegation_key("reader", "d", "m", "go", None, (FILE.model_copy(update={"path": "/b.txt"}),)),
    }
    assert len(keys) == 9


def test_the_order_of_arguments_does_not_count_but_the_number_of_equal_calls_does() -> None:
    one, other = {"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}
    assert call_key("t", "tool", one, 1) == call_key("t", "tool", other, 1)
    assert call_key("t", "tool", one, 1) != call_key("t", "tool", one, 2)


def test_what_a_request_carries_for_others_does_not_count_for_what_it_reads() -> None:
    plain = {"path": "/a", "offset": 0}
    assert read_key("read_file", plain) == read_key("read_file", {**plain, "layer": {}, "content_key": "k", "fork": {}})
    assert read_key("read_file", plain) != read_key("list_files", plain)
    assert read_key("read_file", plain) != read_key("read_file", {**plain, "offset": 1})
