"""Arguments and patterns that would lead a command out of the paths that its rule allows.

Every one is tried isolated, where only these paths are mounted, and without isolation, where the arguments are all
that there is to judge.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_do_temporal.activities.isolation import working_bwrap
from llm_do_temporal.errors import ApprovalRefusal, Refusal, SandboxRefusal
from llm_do_temporal.policy.command_arguments import check_arguments
from llm_do_temporal.policy.shell import ShellPolicy, ShellRule, judge_command
from tests.support.hostile_commands import SECRET, WHOLE, Ground

WAYS = [working_bwrap(), None]


@pytest.fixture(params=WAYS, ids=lambda way: "isolated" if way else "bare")
def ground(tmp_path: Path, request: pytest.FixtureRequest) -> Ground:
    return Ground(tmp_path / "workshop", request.param)


def rule(pattern: str, *paths: str) -> ShellRule:
    return ShellRule(pattern=pattern, approval_required=False, sandbox_paths=paths or ("/src",))


ESCAPES = [
    # a name that does not exist yet is a path all the same
    ("cp", "cp src/evil.txt evil.worker"),
    ("cp", "cp src/evil.txt workshop.yaml"),
    ("cp", "cp src/evil.txt workers"),
    ("cp", "cp src/evil.txt templates"),
    ("cp", "cp src/evil.txt new-name"),
    ("cp", "cp src/evil.txt 'two words.worker'"),
    ("cp", "cp -- src/evil.txt -x.worker"),
    ("cp", "cp -- src/evil.txt --evil.worker"),
    ("mv", "mv src/evil.txt evil.worker"),
    ("ln", "ln -s ../.env src/leak.worker stolen.worker"),
    ("ln", "ln tools.py src/link.py"),
    ("touch", "touch evil.worker"),
    ("touch", "touch {evil,worse}.worker"),
    ("mkdir", "mkdir evil"),
    ("rm", "rm tools.py"),
    ("rm", "rm -r workers"),
    ("rm", "rm -rf .git"),
    ("tee", "tee evil.worker"),
    ("truncate", "truncate -s 0 tools.py"),
    ("truncate", "truncate --size=0 tools.py"),
    ("truncate", "truncate --reference=src/a.txt tools.py"),
    # glued to short options, in clusters too
    ("cp", "cp -ft. src/a.txt"),
    ("cp", "cp -ft. src/evil.txt"),
    ("cp", "cp -fvt. src/evil.txt"),
    ("cp", "cp -tworkers src/evil.txt"),
    ("cp", "cp -rtworkers src/evil.txt"),
    ("mv", "mv -tworkers src/evil.txt"),
    ("mv", "mv -ft. src/evil.txt"),
    ("ln", "ln -st. src/evil.txt"),
    ("install", "install -Dtworkers src/evil.txt"),
    ("install", "install -m600 -t. src/evil.txt"),
    ("sort", "sort -uo.env src/a.txt"),
    ("sort", "sort -o.env src/a.txt"),
    ("sort", "sort -uotools.py src/a.txt"),
    ("sort", "sort -uo./tools.py src/a.txt"),
    ("sort", "sort -T. -onew src/a.txt"),
    ("split", "split -l1 src/a.txt"),
    ("split", "split --lines=1 src/a.txt new-"),
    ("csplit", "csplit -fnew src/a.txt 1"),
    ("grep", "grep -f.env src/a.txt"),
    ("grep", "grep -hf.env src/a.txt"),
    ("grep", "grep -r KEY"),
    ("grep", "grep -rh KEY ."),
    ("sed", "sed -n p .env"),
    ("sed", "sed -nf.env src/a.txt"),
    # glued to long options, and next to other marks
    ("cp", "cp --target-directory=. src/evil.txt"),
    ("cp", "cp --target-directory=workers src/evil.txt"),
    ("cp", "cp --target-dir=workers src/evil.txt"),
    ("cp", "cp --t=workers src/evil.txt"),
    ("sort", "sort --output=tools.py src/a.txt"),
    ("sort", "sort --out=.env src/a.txt"),
    ("sort", "sort --files0-from=.env"),
    ("tar", "tar -cf evil.worker src"),
    ("tar", "tar -cfevil.worker src"),
    ("tar", "tar cfevil.worker src"),
    ("tar", "tar --create --file=evil.worker src"),
    ("tar", "tar -cf src/all.tar .env"),
    ("dd", "dd if=src/evil.txt of=evil.worker"),
    ("dd", "dd if=.env of=src/copy"),
    ("dd", "dd if=.env"),
    ("dd", "dd if=src/evil.txt of=tools.py"),
    ("cat", "cat .env"),
    ("cat", "cat ./.env"),
    ("cat", "cat src/../.env"),
    ("cat", "cat src//../.env"),
    ("cat", "cat //src/../.env"),
    ("cat", "cat .llm-do/host.json"),
    ("cat", "cat /proc/self/cwd/.env"),
    ("cat", "cat /proc/self/root/etc/hostname"),
    ("cat", "cat ~/x src/a.txt"),
    ("diff", "diff src/a.txt .env"),
    ("diff", "diff -a --from-file=.env src/a.txt"),
    ("cmp", "cmp -b src/a.txt .env"),
    ("wc", "wc --files0-from=.env"),
    ("head", "head -n5 .env"),
    ("tail", "tail --lines=5 .env"),
    ("find", "find -name .env -exec cat {} +"),
    ("find", "find . -name .env"),
    ("find", "find src -fprint evil.worker"),
    ("find", "find src -fprintf evil.worker x"),
    ("find", "find src -fls evil.worker"),
    ("find", "find src -newer .env"),
    ("env", "env -C. touch evil.worker"),
    ("env", "env --chdir=. touch evil.worker"),
    ("xargs", "xargs -a.env echo"),
    ("xargs", "xargs --arg-file=.env echo"),
    ("sh", "sh -c 'cat .env'"),
    ("sh", "sh -c 'touch evil.worker'"),
    ("awk", "awk '{print}' .env"),
    ("awk", "awk -f.env"),
    ("python3", "python3 -cprint(open('.env').read())"),
    ("python3", 'python3 -c \'open("evil.worker","w")\''),
    ("git", "git -C. init"),
    ("git", "git init"),
]


@pytest.mark.parametrize(("pattern", "command"), ESCAPES, ids=[command for _, command in ESCAPES])
async def test_no_argument_leads_out_of_the_paths_of_a_rule(ground: Ground, pattern: str, command: str) -> None:
    result = await ground.tried(command, rule(pattern))
    assert {name for name in ground.changed() if not name.startswith("src/")} == set()
    if result is not None:
        assert SECRET not in result.stdout.text + result.stderr.text


@pytest.mark.parametrize(
    "command", ["cat src/leak", "cat src/up/.env", "cp src/evil.txt src/up/evil.worker", "tee src/leak"]
)
async def test_no_link_in_the_paths_leads_out_of_them(ground: Ground, command: str) -> None:
    (ground.folder / "src/leak").symlink_to("../.env")
    (ground.folder / "src/up").symlink_to("..")
    before = (ground.folder / ".env").read_bytes()
    result = await ground.tried(command, rule(command.split()[0]))
    assert (ground.folder / ".env").read_bytes() == before
    assert not (ground.folder / "evil.worker").exists()
    assert result is None or SECRET not in result.stdout.text


STRAYS = [
    ("python *.py", "python '-c#.py'"),
    ("python3 *.py", "python3 '-cimport os#.py'"),
    ("python3 *.py", "python3 '-c…#.py'"),
    ("python3 *.py", "python3 -mhttp.server.py"),
    ("python3 *.py", "python3 -Wx.py"),
    ("python3 ?*.py", "python3 -cx.py"),
    ("python3 [!a]*.py", "python3 -c#.py"),
    ("python3 [!/]*", "python3 -c1"),
    ("python3 [-a]*", "python3 -c1"),
    ("python3 [--z]*.py", "python3 -c#.py"),
    ("python3 *.py", "python3 ../evil.py"),
    ("python3 *.py", "python3 src/../../evil.py"),
    ("python3 src/*.py", "python3 src/../evil.py"),
    ("python3 src/*", "python3 src/../.env"),
    ("python3 *.py", "python3 /tmp/evil.py"),
    ("python3 *.py", "python3 //tmp/evil.py"),
    ("git *", "git -ccore.pager=touch"),
    ("git *", "git --exec-path=src"),
    ("git ????", "git -C.."),
    ("make *", "make --eval=x:"),
    ("make *", "make -fevil.mk"),
    ("tar * src", "tar --to-command=sh src"),
    ("javac *", "javac @src/arguments"),
    ("vim *", "vim +qall"),
    ("* status", "../git status"),
    ("* status", "/tmp/git status"),
    ("*", "./../git"),
]


@pytest.mark.parametrize(("pattern", "command"), STRAYS)
def test_no_wildcard_fits_an_option_or_what_leaves_the_files(pattern: str, command: str) -> None:
    policy = ShellPolicy(rules=(ShellRule(pattern=pattern, approval_required=False),))
    assert judge_command(policy, WHOLE, command).use.name == "proc.exec.unlisted"


@pytest.mark.parametrize(
    ("first", "command"),
    [
        (ShellRule(pattern="git *", approval_required=True), "git -C. push"),
        (ShellRule(pattern="* status", approval_required=True), "/usr/bin/git status"),
        (ShellRule(pattern="git [!a]*", approval_required=True), "git --exec-path"),
    ],
)
def test_what_a_rule_asks_about_is_not_free_by_a_wider_one(first: ShellRule, command: str) -> None:
    program = command.split()[0]
    policy = ShellPolicy(rules=(first, ShellRule(pattern=program, approval_required=False)))
    assert judge_command(policy, WHOLE, command).use.asks is True


@pytest.mark.parametrize("command", ["git -C. push", "git --no-pager push", "git +x", "git /push", "git ../push"])
def test_what_a_wildcard_blocks_is_blocked_with_options_too(command: str) -> None:
    rules = (ShellRule(pattern="git *", blocked=True), ShellRule(pattern="git", approval_required=False))
    with pytest.raises(ApprovalRefusal, match="'git \\*'"):
        judge_command(ShellPolicy(rules=rules), WHOLE, command)


@pytest.mark.control
@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("python *.py", "python tool.py --fast"),
        ("python *.py", "python src/tool.py"),
        ("ls -*", "ls -la"),
        ("date +*", "date +%F"),
        ("git [dl]*", "git diff"),
        ("git *", "git log -n 3"),
    ],
)
def test_a_wildcard_fits_names(pattern: str, command: str) -> None:
    policy = ShellPolicy(rules=(ShellRule(pattern=pattern, approval_required=False),))
    assert judge_command(policy, WHOLE, command).use.asks is False


@pytest.mark.control
@pytest.mark.parametrize(
    "command",
    [
        "cat src/a.txt",
        "cat -n src/a.txt",
        "cat --number ./src/a.txt",
        "cp src/a.txt src/new.txt",
        "cp --target-directory=src/sub src/a.txt",
        "sort -r -u src/a.txt -o src/sorted",
        "head -5 src/a.txt",
        "cat /src/a.txt",
    ],
)
async def test_what_lies_in_the_paths_is_used(ground: Ground, command: str) -> None:
    (ground.folder / "src/sub").mkdir()
    result = await ground.tried(command, rule(command.split()[0]))
    assert result is not None
    assert result.exit_code == 0, result.stderr


@pytest.mark.control
def test_where_all_files_are_allowed_words_are_words() -> None:
    check_arguments(("grep", "-rn", "-e", "TODO", "-A3", "notes.md", "x=1,2"), "/", ("/",))


@pytest.mark.parametrize(
    "word",
    ["/etc/passwd", "-f/etc/passwd", "--file=/etc/passwd", "x=/etc/passwd", "a,/etc/passwd", "@/etc/passwd",
     "file:///etc/passwd", "../x", "-C..", "-xC../..", "--dir=..", "a:../x", "~root/x", "-f~root/x", "--x=~/y",
     "s'/etc/passwd'", "{a,/etc/passwd}", "w /etc/passwd", "-" + "x" * 600],
)  # fmt: skip
def test_no_word_names_what_is_outside_although_all_files_are_allowed(word: str) -> None:
    with pytest.raises(SandboxRefusal):
        check_arguments(("tool", word), "/", ("/",))


@pytest.mark.parametrize("paths", [(), ("/src/none",)])
@pytest.mark.parametrize("word", ["a", "src/a.txt", "-oa", "--o=a", "x=a", "10", "."])
def test_what_could_be_a_path_is_none_where_there_are_none(word: str, paths: tuple[str, ...]) -> None:
    with pytest.raises(SandboxRefusal):
        check_arguments(("tool", word), "/", paths)


def test_a_refusal_names_what_to_do() -> None:
    with pytest.raises(Refusal) as refused:
        check_arguments(("cp", "-ft.", "src/a.txt"), "/", ("/src",))
    assert "no plain option" in str(refused.value.next_step)
