"""Commands that rules block or ask about, in other spellings than the rules'."""

from __future__ import annotations

import shlex

import pytest

from llm_do_temporal.errors import ApprovalRefusal
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.programs import restrains
from llm_do_temporal.policy.shell import ShellDefault, ShellPolicy, ShellRule, judge_command

WHOLE = Tree(mounts=(Mount(at="/", root="."),))
FREE = ShellDefault(approval_required=False)


def policy(*rules: ShellRule) -> ShellPolicy:
    return ShellPolicy(rules=rules, default=FREE)


NO_RM = policy(ShellRule(pattern="rm", blocked=True))
PUSH_ASKS = policy(ShellRule(pattern="git push"))
NO_FORCE = policy(ShellRule(pattern="git push --force", blocked=True), ShellRule(pattern="rm -rf", blocked=True))


@pytest.mark.parametrize(
    "command",
    [
        *("rm v", "/bin/rm v", "../../usr/bin/rm v", "env rm v", "env -i A=b rm v", "/usr/bin/env rm v"),
        *("env -u HOME rm v", "nice -n 5 rm v", "timeout 5 rm v", "timeout -k 1 5 /bin/rm v", "busybox rm v"),
        *("nohup env nice rm v", "xargs -a list rm", "flock lock rm v", "sh -c 'rm v'", "bash -ec '/bin/rm v'"),
        *(
            "env sh -c 'exec rm v'",
            "sh -c \"sh -c 'rm v'\"",
            "env -S 'rm v'",
            "env -Srm v",
            "env --split-string='rm v'",
        ),
        *(
            "find . -name x -exec rm {} +",
            "find . -ok /bin/rm {} +",
            "uv run rm v",
            "npm exec -- rm v",
            "stdbuf -oL rm v",
        ),
        *("strace -o out rm v", "setsid -w rm v", "chroot / rm v", "env env env env rm v", "ld.so /bin/rm v"),
    ],
)
def test_what_is_blocked_is_blocked_in_any_spelling(command: str) -> None:
    with pytest.raises(ApprovalRefusal, match="'rm'"):
        judge_command(NO_RM, WHOLE, command)


@pytest.mark.parametrize(
    "command",
    [
        *("git push", "git -C . push", "/usr/bin/git --no-pager -C . push origin", "git --git-dir=x push"),
        *("git -c a.b=c push", "git -c alias.p=push p", "env git push", "git --git-dir x --work-tree y push"),
        *("timeout 60 git -C . push", "git -P push", "sh -c 'git -C . push'"),
    ],
)
def test_what_is_asked_about_is_asked_about_in_any_spelling(command: str) -> None:
    assert judge_command(PUSH_ASKS, WHOLE, command).use.asks is True


@pytest.mark.parametrize(
    "command",
    [
        *("git -c alias.x='!rm v' x", "git -c core.sshCommand='rm v' fetch", "git -c core.pager=rm log"),
        *("git --config core.pager='rm v' clone x", "git clone -c core.pager=rm x", "git grep -Orm x"),
        *("git grep --open-files-in-pager='rm v' x", "git fetch --upload-pack='rm v' .", "git clone -u 'rm v' . x"),
        *("git push --receive-pack rm .", "git rebase --exec='rm v' a", "git clone 'ext::rm v' x"),
        *("env GIT_SSH_COMMAND='rm v' git fetch", "env PAGER=rm man ls", "man -P 'rm v' ls", "man --pager=rm ls"),
        *("socat - EXEC:rm", "socat - exec:'rm v'", "socat - SYSTEM:'rm v'", "ssh -o ProxyCommand='rm v' h"),
        *("faketime '2020-01-01' rm v", "faketimeMT x rm v", "libfaketime x rm v", "xterm -e rm v"),
        *("wsl rm v", "wsl.exe -d Ubuntu rm v", "wsl -d Ubuntu -- rm v", "cmd.exe /c rm v", "powershell.exe rm v"),
        *("tar --to-command='rm v' -xf a", "tar --to-command rm -xf a", "tar -cf a --checkpoint-action=exec='rm v' x"),
        *("tar -I 'rm v' -cf a x", "tar -Irm -cf a x", "bsdtar --use-compress-program rm -cf a", "rsync -e 'rm v' a b"),
        *(
            "rsync --rsync-path='rm v' a b",
            "find . -execdir rm {} +",
            "fd . -x rm",
            "fdfind --exec=rm",
            "scp -S rm a b:",
        ),
        *("sort --compress-program=rm x", "split --filter='rm v' x", "zip a x -T -TT 'rm v'", "rg --pre rm x"),
        *("vim -c '!rm v'", "vim '+!rm v' x", "ex -c 'silent !rm v'", "vim -c 'call system(\"rm v\")'", "ed '!rm'"),
        *("awk 'BEGIN{system(\"rm\")}'", "gawk 'BEGIN{system(\"rm v\")}'", "sed -n '1e rm v' x", "make SHELL=rm"),
        *("gdb -ex '!rm v'", "perl -e 'system(\"rm v\")'", "tcpdump -z rm", "ncat --exec 'rm v' h 1"),
    ],
)
def test_what_settings_options_and_scripts_run_is_blocked(command: str) -> None:
    with pytest.raises(ApprovalRefusal, match="'rm'"):
        judge_command(NO_RM, WHOLE, command)


@pytest.mark.parametrize(
    "command",
    [
        *(
            r"env -S 'rm\_v'",
            r"env -S 'rm\tv'",
            r"env -S'rm\_v'",
            r"env -S 'A=b\_rm\_v'",
            r"env -S 'rm\cfoo'",
            "env -vSrm",
        ),
        *("env -iS'rm v'", "env --split-s 'rm v'", "env - rm v", "sh -c '(rm v)'", "sh -c 'trap rm EXIT'"),
        *("sh -c \"trap 'rm v' EXIT\"", "sh -c 'if (true) then (rm v) fi'", "sh -c \"eval 'rm v'\"", r"sh -c 'r\m'"),
        *("sh -c \"r''m\"", r"sh -c 'r\m v'", 'sh -c "eval \\"r\'\'m v\\""', "bash -c '{rm,v}'", "bash -c 'rm{,} v'"),
        *("busybox sh -c 'r\\m v'", "python3-dbg -m rm", "python3 -um rm", "python3.13t -mrm v"),
    ],
)
def test_a_text_is_read_as_its_reader_reads_it(command: str) -> None:
    with pytest.raises(ApprovalRefusal, match="'rm'"):
        judge_command(NO_RM, WHOLE, command)


@pytest.mark.parametrize(
    "command",
    [
        *(
            "sh -c '/bin/r? v'",
            "sh -c '/bin/[r]m v'",
            "sh -c '/bin/r*'",
            "sh -c '* v'",
            "bash -c '{r,}m v'",
            "bash -c r{m,}",
        ),
        *(
            "bash -c 'r{m,} v'",
            "bash -c '/bin{/rm,} v'",
            "bash -c '{r{m,n},x} v'",
            "tcsh -c 'r{m} v'",
            "zsh -c '/bin/(r)m v'",
        ),
        *("bash -O extglob -c '/bin/+(r)m v'", "sh -c 'env /bin/r? v'", "sh -c 'A=b /bin/r? v'", "sh -c '! /bin/r? v'"),
        *(
            "sh -c 'exec -a x /bin/r? v'",
            "sh -c 'trap \"/bin/r? v\" EXIT'",
            "ssh h /bin/r? v",
            "ssh h '/bin/r? v'",
            "su -c /bin/r?",
        ),
        *(
            "git rebase -x '/bin/r? v' a",
            "make X='/bin/r? v'",
            "find /bin -name rm -exec {} v +",
            "rsync -e '/bin/r? v' a b",
        ),
        "bash -c 'p* v'",
    ],
)
def test_what_only_a_shell_knows_may_be_what_is_blocked(command: str) -> None:
    rules = policy(*NO_RM.rules, ShellRule(pattern="py*", blocked=True))
    with pytest.raises(ApprovalRefusal):
        judge_command(rules, WHOLE, command)


@pytest.mark.parametrize(
    "command",
    [
        *(
            "sh -c 'ls *'",
            "sh -c 'ls *.py'",
            "bash build.sh *.c",
            "ssh h ls *.txt",
            "docker run img ls *",
            "pytest tests/*",
        ),
        *(
            "uv run pytest tests/*",
            "make test ARGS=tests/*",
            "rsync --exclude=* a b",
            "awk '{n++} END{print n}' v",
            "awk 1 *",
        ),
        *(
            "awk '{ x = x * y } END{ print x }' v",
            "python -c 'print(2 * 3)'",
            "python -c 'f(*args)'",
            "sed 's/ */ /' v",
        ),
        *(
            "node -e 'console.log({a:1, b:2})'",
            "git add *",
            "find . -name 'r*' -exec grep x {} +",
            "pip install x[dev]",
        ),
        *(
            "ruff format --check rm",
            "tar -xzf a.tar --strip 1",
            "tar czf rm.tar rm",
            "less notes.txt",
            "date +%F",
            "gcc -o rm rm.c",
        ),
        *("make -j 4 all", "timeout 5 pytest -k 'a or b'", "kubectl create -f x", "python -m build"),
    ],
)
def test_a_glob_that_names_no_program_is_left_alone(command: str) -> None:
    assert judge_command(NO_RM, WHOLE, command).use.asks is False


RUNNERS = [
    *(
        "aa-exec -p x",
        "alacritty -e",
        "apptainer exec img",
        "autossh h",
        "bear --",
        "buildah unshare",
        "caffeinate",
    ),
    *(
        "catatonit",
        "ccache",
        "chamber exec s --",
        "cpulimit -l 5 --",
        "crictl exec p",
        "ctr task exec p",
        "datefudge 2020",
    ),
    *(
        "dbus-launch",
        "docker create img",
        "doppler run --",
        "envuidgid u",
        "gnome-terminal --",
        "gpg-agent --daemon",
    ),
    *(
        "adb shell",
        "heroku run",
        "incus exec c",
        "infisical run --",
        "kitty",
        "konsole -e",
        "logsave f",
        "machinectl shell c",
    ),
    *(
        "mosh h",
        "mpiexec",
        "mpirun -n 2",
        "oc rsh p",
        "pdsh -w h",
        "podman unshare",
        "run0",
        "runc exec p",
        "sem",
        "srun -n 1",
    ),
    *(
        "ssh-agent",
        "sshpass -p x ssh h",
        "systemd-cat",
        "systemd-inhibit",
        "systemd-nspawn",
        "teller run",
        "uclampset -m 1",
    ),
    *("sort --compress-prog", "install -s --strip-program", "tar --to-com", "nano --speller", "sbatch --wrap"),
]


@pytest.mark.parametrize("runner", RUNNERS)
def test_what_another_program_runs_is_blocked(runner: str) -> None:
    with pytest.raises(ApprovalRefusal, match="'rm'"):
        judge_command(NO_RM, WHOLE, f"{runner} rm v")


@pytest.mark.parametrize(
    "command",
    [
        *(
            "tar -cI'rm v' -f a b",
            "tar -cI 'rm v' -f a b",
            "tar cIf 'rm v' a b",
            "tar cfI a 'rm v' b",
            "git grep -nO'rm v'",
        ),
        *("man -aPrm ls", "gcc-12 -wrapper rm,v a.c", "less '+!rm v' f", "tar --info='rm v' -cf a b"),
    ],
)
def test_what_letters_with_others_run_is_blocked(command: str) -> None:
    with pytest.raises(ApprovalRefusal, match="'rm'"):
        judge_command(NO_RM, WHOLE, command)


SAME = [
    # words between a program and its subcommand
    *(("make deploy", f"make {between}deploy") for between in ("A=b ", "-C . A=b ", "A=b C=d ")),
    *(("cargo publish", "cargo +nightly publish"), ("npm run deploy", "npm run -w x deploy")),
    *(
        ("aws s3 cp", "aws s3 --region r cp"),
        ("gh pr merge", "gh pr -R o/r merge"),
        ("git stash drop", "git stash -q drop"),
    ),
    *(("docker compose up", "docker compose -f f up"), ("docker compose up", "docker-compose up")),
    *(
        ("cat x", "cat - x"),
        ("pip install", "python3 -m pip install x"),
        ("pip install", "python3 -um pip install x"),
    ),
    # options glued to their values, abbreviated, with another number of hyphens
    *(("python -m http.server", f"python {option}http.server") for option in ("-m", "-um ", "-um", "-I -m")),
    *(
        ("git commit --amend", "git commit --amen"),
        ("git commit --amend", "git commit --a"),
        ("cp --recursive", "cp --rec x y"),
    ),
    *(
        ("sort --output", "sort --outp=f x"),
        ("sort --output=f", "sort --output f x"),
        ("sort --output=f", "sort --out=f x"),
    ),
    *(("sort --output f", "sort --output=f x"), ("sort --out*", "sort --o f")),
    *(
        ("terraform apply -auto-approve", f"terraform apply {option}")
        for option in ("--auto-approve", "-auto-approve=true")
    ),
    # paths
    *(
        ("head secrets/*", f"head {path}")
        for path in (
            "./secrets/a",
            "d/../secrets/a",
            "/secrets/a",
            "../files/secrets/a",
            "secrets//a",
            "-n 1 ./secrets/a",
        )
    ),
    *(("head /secrets/*", "head secrets/a"), ("head ./secrets/*", "head secrets/a"), ("cat .env", "cat ./.env")),
    *(("cat .env", "cat d/../.env"), ("rm secrets", "rm ./secrets/"), ("dd if=secrets/*", "dd if=./secrets/a")),
    # what only a shell knows
    *(("git push --force", "sh -c 'git push --f{orce,}'"), ("git push --force", "bash -c 'git push {--force,}'")),
    *(
        ("git push", "bash -c 'git pu?h'"),
        ("git push", "bash -c 'g{it,} push'"),
        ("git push -f", "sh -c 'git push *'"),
    ),
    ("git push", r"env -S 'git\_push'"),
]


@pytest.mark.parametrize(("pattern", "command"), SAME)
def test_other_words_options_and_paths_are_the_same_command(pattern: str, command: str) -> None:
    with pytest.raises(ApprovalRefusal):
        judge_command(policy(ShellRule(pattern=pattern, blocked=True)), WHOLE, command)


@pytest.mark.parametrize(
    "command",
    [
        *("hub push", "hub -C . push", "git send-pack origin", "git-send-pack origin", "git --exec-path=. x"),
        *("git --exec-path . x", "git.exe push", "git -c alias.x='!git push' x", "git config alias.x push"),
    ],
)
def test_what_does_the_same_as_a_subcommand_of_git_is_asked_about(command: str) -> None:
    assert judge_command(PUSH_ASKS, WHOLE, command).use.asks is True


@pytest.mark.parametrize(
    "command",
    [
        *("git commit -m 'rm old files'", "git -c user.name=ada commit -m 'rm old files'", "git push -u origin rm"),
        *("tar -cf rm.tar rm", "rg -e 'rm v' src", "curl https://example.com/rm", "jq '.rm' x", "hub log"),
        *("git send-email x", "man rm", "sort rm", "wslpath rm", "find . -name 'rm v'"),
    ],
)
def test_a_text_that_nothing_runs_is_a_text(command: str) -> None:
    assert judge_command(NO_RM, WHOLE, command).use.asks is False


@pytest.mark.parametrize(
    "command", ["perl clean.pl", "make -f -", "git --exec-path=. x", "sed -f script x", "npm run x"]
)
def test_what_a_file_has_is_not_seen(command: str) -> None:
    assert judge_command(NO_RM, WHOLE, command).use.asks is False


@pytest.mark.parametrize(
    "command", ["git push origin main --force", "git -C . push --force", "rm -fr x", "rm x -r -f", "rm -vrf x"]
)
def test_options_of_a_rule_may_stand_anywhere(command: str) -> None:
    with pytest.raises(ApprovalRefusal):
        judge_command(NO_FORCE, WHOLE, command)


@pytest.mark.parametrize("pattern", ["python", "/usr/bin/python3", "python*"])
def test_a_version_or_a_folder_makes_no_other_program(pattern: str) -> None:
    with pytest.raises(ApprovalRefusal):
        judge_command(policy(ShellRule(pattern=pattern, blocked=True)), WHOLE, "/usr/local/bin/python3 x.py")


@pytest.mark.parametrize(
    "command",
    [
        *(
            "ls rm",
            "grep rm notes.txt",
            "timeout 5 grep -r rm .",
            "env grep rm x",
            "find . -name rm",
            "cat rm/x",
            "rmdir x",
        ),
        *(
            "git log",
            "git -C . log push",
            "git stash push",
            "git log --grep push",
            "npm install rm",
            "echo 'rm x'",
            "git",
        ),
        *("rm.py", "sh rm.sh", "rm2html x", "git --no-pager diff -- push"),
    ],
)
def test_a_word_that_is_no_program_is_a_word(command: str) -> None:
    rules = (*NO_RM.rules, *PUSH_ASKS.rules)
    assert judge_command(policy(*rules), WHOLE, command).use.asks is False


def test_a_rule_that_allows_fits_what_it_spells_alone() -> None:
    allowing = ShellPolicy(rules=(ShellRule(pattern="cat", approval_required=False),))
    assert judge_command(allowing, WHOLE, "cat x").use.asks is False
    assert judge_command(allowing, WHOLE, "/tmp/cat x").use.name == "proc.exec.unlisted"
    assert judge_command(allowing, WHOLE, "env cat x").use.name == "proc.exec.unlisted"


def test_an_earlier_rule_decides_before_a_later_one_in_any_spelling() -> None:
    rules = policy(ShellRule(pattern="env rm", approval_required=False), ShellRule(pattern="rm", blocked=True))
    assert judge_command(rules, WHOLE, "env rm v").use.asks is False


@pytest.mark.parametrize("word", ["env ", "-x ", "a ", "env -x ", "A=b ", "env 'a b' "])
def test_a_long_command_is_judged(word: str) -> None:
    command = "env git " + word * (30_000 // len(word))
    assert judge_command(PUSH_ASKS, WHOLE, command).argv[0] == "env"


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("git push --force", "git push --forced"),
        ("git push --force", "git push -f"),
        ("java -version", "java -verison -n -o"),
        ("rm -rf", "rm -r v"),
        ("rm -rf", "rm --r v"),
        ("git push --force", "git push -- --"),
        ("git add -f", "git add *"),
        ("sort --output=f", "sort --output=g"),
        ("sort --output=f", "sort --outp g"),
        ("head secrets/*", "head a/secrets/b"),
        ("head secrets/*", "head notes/a"),
        ("cat passwd", "cat etc/passwd"),
        ("make deploy", "make A=deploy build"),
        ("python -m http.server", "python -m http"),
        ("python -m http.server", "python --m=x http.server2"),
        ("git push", "cargo-push"),
    ],
)
def test_another_option_than_the_rules_does_not_fit(pattern: str, command: str) -> None:
    rules = policy(ShellRule(pattern=pattern, blocked=True))
    assert judge_command(rules, WHOLE, command).use.asks is False


@pytest.mark.parametrize("command", ['env -S "rm \'v"', 'sh -c "rm v \'x"'])
def test_a_text_with_an_open_quotation_is_read_by_its_words(command: str) -> None:
    with pytest.raises(ApprovalRefusal, match="'rm'"):
        judge_command(NO_RM, WHOLE, command)
    assert not restrains(["cp"], shlex.split(command))


@pytest.mark.parametrize("program", ["cat", "git", "echo"])
def test_a_long_word_that_nothing_runs_is_a_word(program: str) -> None:
    assert not restrains(["rm"], [program, "x" * 30_000])


@pytest.mark.parametrize("command", ["ssh host rm v", "npx rm v", "docker run a rm v", "git rebase -x 'A=b rm v' a"])
def test_a_program_is_found_behind_one_that_runs_it_elsewhere(command: str) -> None:
    assert restrains(["rm"], shlex.split(command))
    assert not restrains(["cp"], shlex.split(command))


def test_a_subcommand_with_a_program_of_its_own_is_that_subcommand() -> None:
    assert restrains(["git", "rm"], ["/usr/lib/git-core/git-rm", "v"])
    assert not restrains(["git", "push"], ["git-rm", "v"])


@pytest.mark.parametrize(
    "argv",
    [
        ("env", *("x",) * 500),
        ("find", *("-exec",) * 500),
        ("bash", "-c", "x y " * 300),
        ("bash", "-c", "x" * 30_000),
        ("docker", "run", *("a b",) * 300),
        ("tar", f"-I{'x' * 30_000}"),
        ("tar", *("-Ix",) * 500),
        ("git", *("-x", "y") * 100),
    ],
)
def test_more_than_is_looked_at_fits(argv: tuple[str, ...]) -> None:
    assert restrains(["git", "push"], argv)
