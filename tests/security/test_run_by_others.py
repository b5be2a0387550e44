"""A rule that blocks a program blocks it wherever another program runs it; and no command takes long to be judged."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from llm_do_temporal.errors import LlmDoError, ShellRefusal
from llm_do_temporal.policy.files.sandbox import Mount, Tree
from llm_do_temporal.policy.programs import restrains
from llm_do_temporal.policy.shell import ShellDefault, ShellPolicy, ShellRule, judge_command

TREE = Tree(mounts=(Mount(at="/", root="."),))
RUNNERS = """
abduco -n x|asdf exec|aws-vault exec p --|bunx|busybox.static|capsh --|catchsegv|choom -n 5|choom -n 5 --|coproc
direnv exec .|distrobox enter a --|docker compose exec a|docker compose run a|docker exec a|docker run --rm -v /:/x a
docker run a|dotenv -f x run|dotenv run|dotenvx run --|eatmydata|envdir x|env nice nohup|find . -exec env
find . -exec nice -n 1|find . -execdir|find . -ok|flatpak run --command=sh a|flatpak-spawn --host|fnm exec --|gdb --args
git bisect run|git submodule foreach|guix shell --|kubectl exec a --|kubectl run x --image=a --|lxc exec a --
ld-musl-x86_64.so.1|/lib/ld-musl-x86_64.so.1|mamba run -n a|micromamba run -n a|mise exec --|nerdctl run a
nix develop -c|nix run a --|nix shell a -c|npm exec --|npm exec|npx|oc exec a --|op run --|perf record -o x|perf stat
pnpm dlx|pnpm exec|podman exec a|podman run a|proxychains|proxychains4 -q|pyenv exec|rbenv exec|rustup run stable
rye run
s6-setuidgid root|ssh -o A=b h|ssh -p 22 host|ssh host|sudo env|sudo nice -n 1|toolbox run|torify|uv run --no-project
uvx|volta run|watchexec|watchexec --|wsl -e|x86_64|xargs env|yarn exec|timeout -k 1 5|stdbuf -o L|setarch x86_64
adb shell|alacritty -e|autossh h|buildah unshare|crictl exec p|docker create i|doppler run --|heroku run|incus exec c
kitty|konsole -e|logsave f|machinectl shell c|mosh h|mpirun -n 2|oc rsh p|pdsh -w h|python3 -m|run0|ssh-agent
runc exec p|sshpass -p x ssh h|systemd-cat|systemd-inhibit|uclampset -m 1|env -|tar --to-com|install --strip-program
taskset -c 0|systemd-run -p A=b|strace -f -e trace=file|flock -n x|chroot --userspec=a /|nsenter -t 1|unshare -r
""".replace("\n", "|")
SPELLED = ("rm v", "/bin/rm v", "rm -rf v")
TEXTS = (
    """
bash -c "FOO=1 rm v"|bash -c "! rm v"|bash -c "( rm v )"|bash -c "if true\nthen rm v\nfi"|bash -c "exec rm v"
bash -lc "command rm v"|capsh -- -c "rm v"|expect -c "spawn rm v"|flock x -c "rm v"|ncat --exec "rm v" h|nc -e "rm v" h
nix-shell --run "rm v"|npm exec -c "rm v"|script -qc "rm v" x|ssh host "rm v"|ssh host "cd x\nrm v"|su -c "A=b rm v"
env -S "A=b rm v"|python -c "run rm v"|watch "true rm v"|git submodule foreach "rm v"|git rebase -x "rm v" a
git rebase --exec "rm v" a|git filter-branch --tree-filter "rm v"|docker run a sh -c "rm v"|docker exec a "rm v"
kubectl exec a -- sh -c "rm v"|sh -c "sh -c 'A=b rm v'"|uv run sh -c "rm v"|rm.exe v|RM.EXE v|env rm.exe v
""".strip()
    .replace('"\n', '"|')
    .replace("v\n", "v|")
)
GIT = """
git-push|/usr/lib/git-core/git-push|git-push origin|env git-push|git.exe push|git submodule foreach git push
git submodule foreach "git push"|git rebase --exec "git push" a|git rebase -x "git push" a|git bisect run git push
git filter-branch --tree-filter "git push"|ssh host git push|docker run a git push
npx git push|sh -c "A=b git -C . push"
kubectl exec a -- git -C x push|nix develop -c git push|git rebase -x "env git-push" a
""".replace("\n", "|")


def split(table: str) -> list[str]:
    return [one.strip() for one in table.split("|") if one.strip()]


def is_free(pattern: str, command: str) -> bool:
    policy = ShellPolicy(
        rules=(ShellRule(pattern=pattern, blocked=True),), default=ShellDefault(approval_required=False)
    )
    try:
        judge_command(policy, TREE, command)
    except LlmDoError:
        return False
    return True


@pytest.mark.sampled(118)
@pytest.mark.parametrize("spelled", SPELLED)
@pytest.mark.parametrize("runner", split(RUNNERS))
def test_what_a_rule_blocks_is_blocked_where_another_program_runs_it(runner: str, spelled: str) -> None:
    assert not is_free("rm", f"{runner} {spelled}")


@pytest.mark.parametrize("command", split(TEXTS))
def test_what_a_rule_blocks_is_blocked_in_the_text_of_commands(command: str) -> None:
    assert not is_free("rm", command)


@pytest.mark.parametrize("command", split(GIT))
def test_a_subcommand_that_a_rule_blocks_is_blocked_behind_others(command: str) -> None:
    assert not is_free("git push", command)


RUNS = r"""
env -S 'touch\_v'|env -S 'A=b\_touch\_v'|env -vS'touch v'|env - touch v|sh -c '(touch v)'|sh -c 't\ouch v'
bash -c '{touch,v}'|sh -c "trap 'touch v' EXIT"|sh -c 'if (true) then (touch v) fi'|bash -c 'touch{,} v'
bash -c 't{ouch,} v'|sh -c '/bin/t?uch v'|sh -c '/bin/[t]ouch v'|sh -c 'env /bin/t?uch v'
bash -O extglob -c '/bin/+(t)ouch v'|tar -cI'touch v' -f a.tar w
tar cfI a.tar 'touch v' w|tar --use-comp='touch v' -cf a.tar w|git -c alias.x='!touch v' x
""".strip().replace("\n", "|")
"""Commands that make the file `v` and change nothing but their folder, whatever a shell makes of them."""


@pytest.mark.parametrize("command", split(RUNS))
def test_what_really_runs_a_blocked_program_is_blocked(command: str, tmp_path: Path) -> None:
    (tmp_path / "w").touch()
    subprocess.run(shlex.split(command), cwd=tmp_path, capture_output=True, check=False)  # some fail behind `touch`
    assert (tmp_path / "v").exists()
    assert not is_free("touch", command)


@pytest.mark.parametrize("path", ["./d/v", "e/../d/v", "d//v", "d/./v", "{top}/d/v", "../{name}/d/v"])
def test_another_name_of_a_file_that_a_rule_blocks_is_blocked(path: str, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "e").mkdir()
    (tmp_path / "d/v").write_text("secret")
    command = f"cat {path.format(top=tmp_path, name=tmp_path.name)}"
    assert subprocess.run(shlex.split(command), cwd=tmp_path, capture_output=True, check=True).stdout == b"secret"
    assert not is_free("cat d/*", command)


@pytest.mark.parametrize("option", ["--recursive", "--recurs", "--rec", "-vr"])
def test_an_option_that_a_rule_blocks_is_blocked_where_it_is_abbreviated(option: str, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    subprocess.run(["cp", option, "d", "e"], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "e").is_dir()
    assert not is_free("cp -r" if option == "-vr" else "cp --recursive", f"cp {option} d e")


@pytest.mark.control
@pytest.mark.parametrize(
    "command",
    [
        "cat rm",
        "git rm v",
        "git -C . rm v",
        "grep rm v",
        "docker rm v",
        "docker ps",
        "npm rm v",
        "touch rm.txt",
        "echo rm",
        "bash -c 'ls v'",
        "ssh host ls",
        "kubectl exec a -- ls",
        "find . -name rm",
        "rmdir v",
        "git bisect run pytest",
        "touch " + "v " * 1_000,
    ],
)
def test_what_only_has_the_word_is_left_alone(command: str) -> None:
    assert is_free("rm", command)


MANY: dict[str, tuple[str, ...]] = {
    "words": ("env", *("x",) * 100_000),
    "variables": ("env", *("A=1",) * 100_000),
    "options": ("ssh", *("-o",) * 100_000),
    "operands": ("docker", "run", *("w",) * 100_000),
    "texts": ("bash", "-c", *("a b",) * 50_000),
    "one long text": ("bash", "-c", "x y " * 60_000),
    "texts in texts": ("bash", "-c", "bash -c 'bash -c \"bash -c x\"' " * 5_000),
    "quotes": ("bash", "-c", '\'"a b" "c d"\' ' * 20_000),
    "acts": ("find", ".", *("-exec", "x") * 50_000),
    "a chain": (*("nice", "env") * 50_000, "x"),
}


@pytest.mark.parametrize("many", MANY)
def test_a_command_with_more_than_is_looked_at_is_restrained(many: str) -> None:
    assert restrains(["git", "push"], MANY[many])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("many", MANY)
def test_of_such_a_command_a_person_is_asked_where_a_rule_asks(many: str) -> None:
    policy = ShellPolicy(
        rules=tuple(ShellRule(pattern=f"prog{number} push") for number in range(30)),
        default=ShellDefault(approval_required=False),
    )
    try:
        assert judge_command(policy, TREE, shlex.join(MANY[many][:20_000])).use.asks
    except ShellRefusal:
        assert many == "texts in texts"  # it has a sign that only a shell could use
