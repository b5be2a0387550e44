"""Which commands are commands at all, which rule fits one, and which paths it may name."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from llm_do_temporal.errors import ApprovalRefusal, Refusal, SandboxRefusal, ShellRefusal
from llm_do_temporal.policy.approvals import ApprovalRules, Mode, Ruling, decide
from llm_do_temporal.policy.files.sandbox import NO_FILES, Mount, Tree
from llm_do_temporal.policy.shell import (
    ShellDefault,
    ShellPolicy,
    ShellRule,
    ShellSettings,
    describe_policy,
    judge_command,
    matches,
    split_command,
    working_directory,
)

WHOLE = Tree(mounts=(Mount(at="/", root="."),))
ONLY_SRC = Tree(mounts=(Mount(at="/src", root="src"),))
TWO = Tree(mounts=(Mount(at="/input", root="a"), Mount(at="/output", root="b")))


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        ("git status", ("git", "status")),
        ("  git   status  ", ("git", "status")),
        # quotes and escapes as in a POSIX shell
        ("grep 'two words' a.txt", ("grep", "two words", "a.txt")),
        ('grep "it\'s" a.txt', ("grep", "it's", "a.txt")),
        ("cat two\\ words.txt", ("cat", "two words.txt")),
        ("printf ''", ("printf", "")),
        # nothing expands these, so they are ordinary characters
        ("ls *.py ~ {a,b} !x #y", ("ls", "*.py", "~", "{a,b}", "!x", "#y")),
        ("echo käse", ("echo", "käse")),
    ],
)
def test_a_command_is_split_into_a_program_and_its_arguments(command: str, argv: tuple[str, ...]) -> None:
    assert split_command(command) == argv


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("ls; rm x", "';' (a second command)"),
        ("ls | wc", "'|' (a pipe)"),
        ("ls || rm", "'|'"),
        ("ls & rm", "'&' (a background"),
        ("ls && rm", "'&'"),
        ("cat < x", "'<' (a redirection)"),
        ("echo x > y", "'>' (a redirection)"),
        ("echo `id`", "'`' (command substitution)"),
        ("echo $(id)", "'$(' (command substitution)"),
        ("echo $HOME", "'$' (a variable)"),
        ("echo ${HOME}", "'$' (a variable)"),
        ("ls\nrm x", "a line break"),
        ("ls\rrm x", "a carriage return"),
        ("ls \0", "a NUL character"),
        # quoted too: programs hand arguments to shells of their own
        ("make 'X=$(id)'", "even in quotes"),
        ('npm run test -- "a;b"', "';'"),
        # what cannot be split
        ("echo 'open", "no closing quotation"),
        ('echo "open', "no closing quotation"),
        ("echo \\", "no escaped character"),
        ("", "empty"),
        ("   ", "empty"),
        ("'' x", "empty"),
        ("echo \ud800", "half a character"),
    ],
)
def test_what_only_a_shell_could_do_is_refused_and_named(command: str, says: str) -> None:
    with pytest.raises(ShellRefusal) as refused:
        split_command(command)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("pattern", "command", "fits"),
    [
        ("ls", "ls", True),
        ("ls", "ls -l /src", True),
        ("ls", "lsof", False),
        ("ls", "/bin/ls", False),
        ("git status", "git status --short", True),
        ("git status", "git", False),
        ("git status", "git -C x status", False),
        ("git status", "git stash", False),
        # globs, word by word
        ("python *.py", "python tool.py --fast", True),
        ("python *.py", "python -c x.txt", False),
        ("git [dl]*", "git diff", True),
        ("git [dl]*", "git push", False),
        ("*", "anything at all", True),
        # capitals count, and quotes in a pattern hold a word together
        ("ls", "LS", False),
        ("echo 'two words'", "echo 'two words'", True),
        ("echo 'two words'", "echo two words", False),
    ],
)
def test_a_pattern_is_the_first_words_of_a_command(pattern: str, command: str, fits: bool) -> None:
    assert matches(pattern, split_command(command)) is fits


FREE = ShellRule(pattern="git status", approval_required=False)
ASKED = ShellRule(pattern="git", approval_required=True)
NEVER = ShellRule(pattern="git push", blocked=True)


@pytest.mark.parametrize(
    ("policy", "command", "capability", "asks"),
    [
        (ShellPolicy(rules=(FREE, ASKED)), "git status -s", "proc.exec", False),
        (ShellPolicy(rules=(FREE, ASKED)), "git log", "proc.exec", True),
        # the first rule that fits wins
        (ShellPolicy(rules=(ASKED, FREE)), "git status", "proc.exec", True),
        # no rule fits: the default, or unlisted
        (ShellPolicy(rules=(FREE,), default=ShellDefault()), "ls", "proc.exec", True),
        (ShellPolicy(rules=(FREE,), default=ShellDefault(approval_required=False)), "ls", "proc.exec", False),
        (ShellPolicy(rules=(FREE,)), "ls", "proc.exec.unlisted", None),
        (ShellPolicy(), "ls", "proc.exec.unlisted", None),
    ],
)
def test_the_first_rule_says_what_a_command_is(
    policy: ShellPolicy, command: str, capability: str, asks: bool | None
) -> None:
    judged = judge_command(policy, WHOLE, command)
    assert (judged.use.name, judged.use.asks) == (capability, asks)
    assert judged.use.payload == {"argv": list(split_command(command)), "cwd": "/"}
    assert judged.line == command


@pytest.mark.parametrize(
    ("policy", "command", "says"),
    [
        (ShellPolicy(rules=(NEVER, ASKED)), "git push --force", "rule 'git push'"),
        (ShellPolicy(default=ShellDefault(blocked=True)), "ls", "no rule of the worker"),
    ],
)
def test_a_blocked_command_is_blocked(policy: ShellPolicy, command: str, says: str) -> None:
    with pytest.raises(ApprovalRefusal, match=says):
        judge_command(policy, WHOLE, command)


@pytest.mark.parametrize(
    ("own", "kind"),
    [
        ({}, "block"),
        ({"proc.exec": Ruling.PRE_APPROVED}, "block"),
        ({"proc.exec.unlisted": Ruling.NEEDS_APPROVAL}, "ask"),
    ],
)
def test_an_unlisted_command_is_blocked_until_a_rule_names_it(own: dict[str, Ruling], kind: str) -> None:
    use = judge_command(ShellPolicy(), WHOLE, "ls").use
    assert decide(ApprovalRules.model_validate({"rules": own}), Mode.INTERACTIVE, "shell", [use]).kind == kind


@pytest.mark.parametrize(
    ("tree", "cwd"),
    [(WHOLE, "/"), (ONLY_SRC, "/src"), (TWO, "/")],
)
def test_commands_run_at_the_top_of_the_files(tree: Tree, cwd: str) -> None:
    assert working_directory(tree) == cwd


def test_without_files_no_command_runs() -> None:
    with pytest.raises(SandboxRefusal, match="no file access"):
        judge_command(ShellPolicy(default=ShellDefault()), NO_FILES, "ls")


def bounded(pattern: str = "cat", *paths: str) -> ShellPolicy:
    return ShellPolicy(rules=(ShellRule(pattern=pattern, sandbox_paths=paths or ("/src",)),))


@pytest.mark.parametrize(
    ("tree", "command", "argv"),
    [
        # words that are no paths
        (WHOLE, "cat -n word", ("cat", "-n", "word")),
        # relative to the working directory, in every place of an argument
        (WHOLE, "cat src/a.txt ./src/b", ("cat", "src/a.txt", "./src/b")),
        (WHOLE, "cat --file=src/a.txt if=src/b host:src/c", ("cat", "--file=src/a.txt", "if=src/b", "host:src/c")),
        # absolute ones are virtual: what was judged is what is used
        (WHOLE, "cat /src/a.txt --x=/src", ("cat", "./src/a.txt", "--x=./src")),
        (ONLY_SRC, "cat a/b.txt /src/c.txt", ("cat", "a/b.txt", "./c.txt")),
        (ONLY_SRC, "cat .", ("cat", ".")),
    ],
)
def test_paths_inside_are_used_as_they_were_judged(tree: Tree, command: str, argv: tuple[str, ...]) -> None:
    judged = judge_command(bounded(), tree, command)
    assert judged.argv == argv
    assert judged.use.payload["argv"] == list(argv)
    assert judged.sandbox_paths == ("/src",)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("cat /etc/passwd", "'/etc/passwd' is outside the paths that the rule 'cat' allows: /src"),
        ("cat docs/a.txt", "'docs/a.txt' is outside"),
        ("cat /srcs/a.txt", "'/srcs/a.txt' is outside"),
        ("cat .", "'.' is outside"),
        ("cat /", "'/' is outside"),
        ("cat ..", "'..' contains '..'"),
        ("cat src/../secret", "'src/../secret' contains '..'"),
        ("cat --file=/etc/passwd", "'/etc/passwd' is outside"),
        ("cat if=../x", "contains '..'"),
        ("cat @/etc/passwd", "'/etc/passwd' is outside"),
        ("cat https://example.com/x", "is outside"),
        ("cat src/a,/etc/passwd", "'/etc/passwd' is outside"),
        ("cat -f/src/a.txt", "hides a path in an option"),
        ("cat --bcf/etc/passwd", "hides a path in an option"),
    ],
)
def test_paths_outside_are_refused(command: str, says: str) -> None:
    with pytest.raises(SandboxRefusal) as refused:
        judge_command(bounded(), WHOLE, command)
    assert says in str(refused.value)


def test_a_program_that_a_glob_let_in_is_a_path_like_any_other() -> None:
    with pytest.raises(SandboxRefusal, match="/usr/bin/env"):
        judge_command(bounded("*"), WHOLE, "/usr/bin/env x")
    assert judge_command(bounded("*"), WHOLE, "env x").argv == ("env", "x")
    assert judge_command(bounded("/usr/bin/env"), WHOLE, "/usr/bin/env x").argv == ("/usr/bin/env", "x")


def test_no_paths_at_all_may_be_allowed() -> None:
    policy = ShellPolicy(rules=(ShellRule(pattern="git", sandbox_paths=()),))
    assert judge_command(policy, WHOLE, "git status").sandbox_paths == ()
    with pytest.raises(SandboxRefusal, match="allows: none"):
        judge_command(policy, WHOLE, "git diff src/a")


def test_an_absolute_path_must_be_reachable_from_the_working_directory() -> None:
    with pytest.raises(SandboxRefusal, match="outside the working directory '/src'"):
        judge_command(bounded("cat", "/"), ONLY_SRC, "cat /docs/a.txt")


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"pattern": ""}, "first words"),
        ({"pattern": "   "}, "first words"),
        ({"pattern": "echo 'open"}, "cannot be split into words"),
        ({"pattern": "ls", "sandbox_paths": ("src",)}, "starts with '/'"),
        ({"pattern": "ls", "sandbox_paths": ("/src/../x",)}, "has no '..'"),
    ],
)
def test_a_rule_that_could_never_fit_is_a_mistake(keys: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        ShellRule.model_validate(keys)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("OPENAI_API_KEY", "never given keys"),
        ("github_token", "never given keys"),
        ("DB_PASSWORD", "never given keys"),
        ("AWS_CREDENTIALS", "never given keys"),
        ("MY_SECRET", "never given keys"),
        ("A=B", "not the name of a variable"),
        ("", "not the name of a variable"),
    ],
)
def test_keys_are_never_passed_through(name: str, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        ShellSettings(env=(name,))
    assert ShellSettings(env=("CI", "HTTP_PROXY")).env == ("CI", "HTTP_PROXY")


@pytest.mark.parametrize(
    ("policy", "tree", "says"),
    [
        (
            ShellPolicy(rules=(FREE, NEVER)),
            WHOLE,
            "begin like one of these are known: 'git status'. Others are normally",
        ),
        (ShellPolicy(), NO_FILES, "Others are normally refused. You have no files"),
        (ShellPolicy(default=ShellDefault()), WHOLE, "Your files: / (read-write)."),
        (ShellPolicy(default=ShellDefault(blocked=True)), WHOLE, "Others are normally refused. Your files"),
    ],
)
def test_a_model_is_told_what_it_may_run(policy: ShellPolicy, tree: Tree, says: str) -> None:
    assert says in describe_policy(policy, tree)
    assert "git push" not in describe_policy(policy, tree)


def test_every_refusal_is_one_that_the_model_is_told() -> None:
    assert issubclass(ShellRefusal, Refusal)


def test_a_rule_whose_wildcard_would_take_an_option_is_passed_over() -> None:
    policy = ShellPolicy(
        rules=(ShellRule(pattern="ls *"), ShellRule(pattern="ls", approval_required=False)), default=ShellDefault()
    )
    tree = Tree(mounts=(Mount(at="/", root="."),))
    assert judge_command(policy, tree, "ls -la").use.asks is True, "what was to be asked about is not free"
    both = (ShellRule(pattern="ls *"), ShellRule(pattern="* *", approval_required=False))
    passed_over = ShellPolicy(rules=both, default=ShellDefault(approval_required=False))
    assert judge_command(passed_over, tree, "ls -la").use.asks is True, "nor where a wider rule is passed over, too"
    glued = ShellPolicy(rules=(ShellRule(pattern="cc -I*", approval_required=False),))
    assert judge_command(glued, tree, "cc -I/etc").use.name == "proc.exec.unlisted"


def test_capabilities_of_the_toolset_are_used_besides_those_of_the_command() -> None:
    policy = ShellPolicy(rules=(FREE,), capabilities=("proc.exec", "repo.read", "repo.read"))
    listed = judge_command(policy, WHOLE, "git status")
    assert [(use.name, use.asks) for use in (listed.use, *listed.more)] == [("proc.exec", False), ("repo.read", None)]
    assert listed.more[0].payload == listed.use.payload
    unlisted = judge_command(policy, WHOLE, "make")
    assert [use.name for use in (unlisted.use, *unlisted.more)] == ["proc.exec.unlisted", "proc.exec", "repo.read"]
    rules = ApprovalRules.model_validate({"rules": {"proc.exec": "pre_approved"}})
    verdict = decide(rules, Mode.INTERACTIVE, "shell", (unlisted.use, *unlisted.more))
    assert verdict.reason == "'shell' is blocked: the workshop does not allow proc.exec.unlisted"


def test_a_capability_is_a_name_like_any_other() -> None:
    with pytest.raises(ValidationError):
        ShellPolicy(capabilities=("Proc Exec",))
    assert "capabilities" not in ShellPolicy().model_dump(), "what was pinned before there were any is what it was"
