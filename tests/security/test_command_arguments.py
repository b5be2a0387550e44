"""Arguments and patterns that would lead a command out of the paths that its rule allows.

Every one is tried isolated, where only these paths are mounted, and without isolation, where a command whose rule
bounds it to some of the files is refused: nothing could hold it to them.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from llm_do_temporal.errors import ApprovalRefusal
from llm_do_temporal.messages.activities import ShellInput
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.shell import ShellPolicy, ShellRule, judge_command
from llm_do_temporal.sandbox.bubblewrap import working_bwrap
from tests.support.workshops.hostile_commands import FILES, SECRET, WHOLE, Ground

WAYS = [working_bwrap(), None]


@pytest.fixture(params=WAYS, ids=lambda way: "isolated" if way else "bare")
def ground(tmp_path: Path, request: pytest.FixtureRequest) -> Ground:
    return Ground(tmp_path / "workshop", request.param)


def rule(pattern: str, *paths: str) -> ShellRule:
    return ShellRule(pattern=pattern, approval_required=False, sandbox_paths=paths or ("/src",))


def with_lists(ground: Ground) -> None:
    """Files in the paths of the rule that name others outside."""
    source = ground.folder / "src"
    with tarfile.open(source / "e.tar", "w") as archive:
        for name in ("stolen.worker", "workers/evil.worker"):
            archive.addfile(tarfile.TarInfo(name))
    (source / "list").write_bytes(b".env\0lead.worker\0.llm-do/host.json\0")
    (source / "lines").write_text(".env\n.llm-do/host.json\n")
    (source / "p.patch").write_text("--- /dev/null\n+++ evil.worker\n@@ -0,0 +1 @@\n+evil\n")
    (source / "m.mk").write_text("all:\n\ttouch evil.worker\n")
    ground.before = dict(ground.contents())


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
    # what is named by files, or by what is not said
    ("grep", "grep -r -v src/zzz"),
    ("grep", "grep -r -h -v -e src/zzz"),
    ("sort", "sort --files0-from=src/list"),
    ("wc", "wc --files0-from=src/list"),
    ("tar", "tar -c -T src/lines -f src/o.tar"),
    ("tar", "tar -x -f src/e.tar"),
    ("patch", "patch -i src/p.patch"),
    ("git apply", "git apply src/p.patch"),
    ("split", "split src/evil.txt"),
    ("ln", "ln src/evil.txt"),
    ("make", "make -f src/m.mk"),
]


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("pattern", "command"), ESCAPES, ids=[command for _, command in ESCAPES])
async def test_no_argument_leads_out_of_the_paths_of_a_rule(ground: Ground, pattern: str, command: str) -> None:
    with_lists(ground)
    result = await ground.tried(command, rule(pattern))
    assert {name for name in ground.changed() if not name.startswith("src/")} == set()
    assert not any(SECRET.encode() in path.read_bytes() for path in (ground.folder / "src").glob("*.tar"))
    if result is not None:
        assert SECRET not in result.stdout.text + result.stderr.text
        assert "lead.worker" not in result.stdout.text
        assert ground.bwrap is not None, "nothing bounds it"


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
    # what the wildcard itself stands for
    ("dd if=*", "dd if=/etc/shadow"),
    ("dd if=*", "dd if=../x"),
    ("dd if=*", "dd if=src/../../x"),
    ("dd if=*", "dd if=-x"),
    ("dd *", "dd if=/etc/shadow"),
    ("dd *", "dd of=../x"),
    ("dd ??=*", "dd if=/etc/shadow"),
    ("dd [io]f=*", "dd of=/etc/x"),
    ("tool --file=*", "tool --file=/etc/passwd"),
    ("tool --file=*", "tool --file=.."),
    ("tool --file=*", "tool --file=@x"),
    ("tool --file=*.txt", "tool --file=../y.txt"),
    ("tool --file*", "tool --file=/etc/passwd"),
    ("tool --*", "tool --file=../x"),
    ("tool -*", "tool --eval=x"),
    ("tool -I*", "tool -I/etc"),
    ("tool -I*", "tool -I../x"),
    ("tool -I.*", "tool -I../x"),
    ("tool -*", "tool -C.."),
    ("tool -*", "tool -xC../.."),
    ("tool -*", "tool -xf/etc/x"),
    ("tar -x*", "tar -xf/etc/x"),
    ("curl *", "curl file:///etc/passwd"),
    ("curl *", "curl -K/etc/x"),
    ("scp *", "scp host:/etc/x"),
    ("scp *", "scp host:../x"),
    ("tool x@*", "tool x@/etc/x"),
    ("javac @*", "javac @/etc/x"),
    ("tool *", "tool a,/etc/x"),
    ("tool a,*", "tool a,../x"),
    ("cat ./*", "cat .//../x"),
    ("cat ../*", "cat ../../../etc/passwd"),
    ("cat */../x", "cat ../../../x"),
    ("cat .*", "cat .."),
    ("cat .*/x", "cat ../x"),
    ("cat *./x", "cat ../x"),
    ("cat .?/x", "cat ../x"),
    ("cat .[.]/x", "cat ../x"),
    ("cat .*.", "cat .."),
    ("cat */passwd", "cat /etc/passwd"),
    ("cat /usr/*", "cat /usr/../etc/passwd"),
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
        ("ls --*", "ls --color=auto"),
        ("date +*", "date +%Y-%m-%d"),
        ("dd if=*", "dd if=src/a.txt"),
        ("cat ../*", "cat ../notes.md"),
        ("cat /usr/*", "cat /usr/share/x"),
        ("curl https://*", "curl https://example.com/a"),
        ("python test*.py", "python test-one.py"),
        ("cc -Isrc/*", "cc -Isrc/include"),
        ("cat .*", "cat ..."),
    ],
)
def test_a_wildcard_fits_names(pattern: str, command: str) -> None:
    policy = ShellPolicy(rules=(ShellRule(pattern=pattern, approval_required=False),))
    assert judge_command(policy, WHOLE, command).use.asks is False


@pytest.mark.sampled(5)
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
    (ground.folder / "workshop.yaml").write_text("sandbox: {root: src}\n")
    result = await ground.tried(command, rule(command.split()[0]))
    if ground.bwrap is None:
        assert result is None
    else:
        assert result is not None
        assert result.exit_code == 0, result.stderr


@pytest.mark.sampled(5)
@pytest.mark.control
@pytest.mark.parametrize("paths", [("/",), ("/src", "/"), ("/files",)])
@pytest.mark.parametrize("command", ["cat data.txt", "cp data.txt new.txt", "sort -r data.txt -o sorted"])
async def test_a_rule_that_allows_all_files_bounds_nothing(
    ground: Ground, paths: tuple[str, ...], command: str
) -> None:
    at = "/files" if paths == ("/files",) else "/"
    ground.tree = Tree(mounts=(Mount(at=at, root="files", base="files"),))
    result = await ground.tried(command, rule(command.split()[0], *paths))
    assert result is not None
    assert result.exit_code == 0, result.stderr


@pytest.mark.parametrize(
    "command", ["cat /etc/passwd", "cat ../.env", "mkdir -p up/new", "cp data.txt up/new", "cat up/.env"]
)
async def test_no_word_names_what_is_outside_although_all_files_are_allowed(ground: Ground, command: str) -> None:
    ground.tree = FILES
    (ground.folder / "files/up").symlink_to("..")
    ground.before = dict(ground.contents())
    result = await ground.tried(command, rule(command.split()[0], "/"))
    assert ground.changed() == set()
    assert not (ground.folder / "new").exists()
    assert result is None or result.exit_code != 0


@pytest.mark.parametrize("paths", [(), ("/none",), ("/src", "/docs"), ("/src/a.txt",), ("/srcs",)])
async def test_a_rule_that_bounds_is_refused_where_nothing_does(tmp_path: Path, paths: tuple[str, ...]) -> None:
    ground = Ground(tmp_path / "workshop", None)
    asked = ShellInput(argv=("true",), tree=WHOLE, cwd="/", timeout_seconds=5, sandbox_paths=paths)
    with pytest.raises(ApplicationError, match="only isolation keeps it to the paths that its rule allows"):
        ActivityEnvironment().run(ground.activities.preview_command, asked)
    with pytest.raises(ApplicationError, match="only isolation keeps it to the paths that its rule allows"):
        await ActivityEnvironment().run(ground.activities.run_command, asked)
