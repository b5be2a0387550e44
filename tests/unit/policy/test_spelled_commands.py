"""Commands that rules block or ask about, in other spellings than the rules'."""

from __future__ import annotations

import shlex

import pytest

from llm_do_temporal.errors import ApprovalRefusal
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.programs import restrains
from llm_do_temporal.policy.shell import ShellDefault, ShellPolicy, ShellRule, is_spelled_otherwise, judge_command

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
    assert not is_spelled_otherwise(policy(*rules), command)


def test_a_rule_that_allows_fits_what_it_spells_alone() -> None:
    allowing = ShellPolicy(rules=(ShellRule(pattern="cat", approval_required=False),))
    assert judge_command(allowing, WHOLE, "cat x").use.asks is False
    assert judge_command(allowing, WHOLE, "/tmp/cat x").use.name == "proc.exec.unlisted"
    assert judge_command(allowing, WHOLE, "env cat x").use.name == "proc.exec.unlisted"


def test_an_earlier_rule_decides_before_a_later_one_in_any_spelling() -> None:
    rules = policy(ShellRule(pattern="env rm", approval_required=False), ShellRule(pattern="rm", blocked=True))
    assert judge_command(rules, WHOLE, "env rm v").use.asks is False


def test_a_run_that_began_before_judges_as_it_did() -> None:
    assert is_spelled_otherwise(NO_RM, "/bin/rm v")
    assert not is_spelled_otherwise(NO_RM, "rm v")
    assert judge_command(NO_RM, WHOLE, "/bin/rm v", any_spelling=False).use.asks is False


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


@pytest.mark.parametrize("command", ["rm v && ls", "rm 'v", ""])
def test_what_is_no_plain_command_has_no_other_spelling(command: str) -> None:
    assert not is_spelled_otherwise(NO_RM, command)


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
    ],
)
def test_more_than_is_looked_at_fits(argv: tuple[str, ...]) -> None:
    assert restrains(["git", "push"], argv)
