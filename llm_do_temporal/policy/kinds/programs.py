"""Programs that take no free word: a word of a model's would be a program, a host or a script to them.

Owns what is known of programs by name. It is asked when a kind is written, so that nobody has to find out later.
"""

from __future__ import annotations

import re
from collections.abc import Sequence


def _named(text: str) -> frozenset[str]:
    return frozenset(text.split())


_RUN_OTHERS = _named(
    """
    builtin bwrap busybox chroot chrt command doas entr env eval exec expect flock gdb ionice ltrace nice nohup
    nsenter parallel runuser script setpriv setsid source start-stop-daemon stdbuf strace su sudo systemd-run
    taskset time timeout toybox unshare watch xargs
    """
)
"""Programs that run the program that their words name."""
_REACH_OUT = _named(
    """
    ansible apt apt-get aws az brew bun bunx cargo conda curl dig docker dpkg ftp gcloud gem gh git-remote glab go
    helm host http https httpie kubectl mail mosh nc ncat netcat npm npx nslookup openssl ping pip pipx pnpm podman
    poetry rclone rsync scp sendmail sftp socat ssh telnet terraform traceroute uv uvx wget whois yarn
    """
)
"""Programs whose words name hosts, addresses or packages."""
_RUN_FILES = _named(
    """
    ant bats bazel cmake gradle jest just mocha mvn nox phpunit playwright py.test pytest rake rspec tox vitest
    """
)
"""Programs that run the code in the files that their words name."""
_INTERPRETERS = _named(
    """
    ash bash csh dash deno fish java julia ksh lua node nodejs perl php powershell pwsh pypy python r rscript ruby
    sh tcsh zsh
    """
)
_SCRIPTED = _named(
    """
    awk gawk jq mawk nawk sed
    """
)
"""Programs whose first word that is no option is a script."""
_READERS = _named(
    """
    cat cmp cut diff du file grep head hexdump ls md5sum nl od sha1sum sha256sum sha512sum stat tail tr wc xxd
    """
)
"""Programs to which a word after an option is a file to be read, or a value that does no harm."""
_GIT_FLAGS = _named(
    """
    --all --cached --graph --name-only --name-status --oneline --patch --staged --stat -p
    """
)
_GIT_GLOBAL = frozenset(("--no-pager", "--no-optional-locks", "-P"))
_GIT_SUBCOMMANDS = _named(
    """
    add blame branch checkout describe diff grep log ls-files ls-tree restore rev-parse rm shortlog show status
    switch tag
    """
)
_FIND_ACTS = _named(
    """
    -delete -exec -execdir -fls -fprint -fprint0 -fprintf -ok -okdir
    """
)
_VERSION = re.compile(r"[-.\d]+$")


def refused_command(words: Sequence[str]) -> str | None:
    """Return the reason why no kind may name this command, whichever words are free; None: it may."""
    program = _program(words[0])
    if program in _RUN_OTHERS:
        return f"'{program}' runs whatever program it is given"
    if program in _INTERPRETERS and words[1:2] and words[1].startswith("-") and words[1] != "-m":
        return f"'{words[1]}' is an option of the interpreter '{program}', which may be given code by it"
    if program == "find" and (acts := _FIND_ACTS.intersection(words)):
        return f"'find {min(acts)}' runs a program, or changes files"
    if program == "git":
        option = next((word for word in _before_subcommand(words) if word not in _GIT_GLOBAL), None)
        return None if option is None else f"'git {option}' can make git run other programs"
    return None


def refused_freedom(words: Sequence[str], free: int, *, is_number: bool) -> str | None:
    """Return the reason why the word at the position `free` may not be a model's own; None: it may.

    `is_number` says that the free word is one of digits alone.
    """
    program, before = _program(words[0]), words[1:free]
    if free == 0:
        return "the program itself cannot be free"
    if program in _REACH_OUT:
        return f"a word of '{program}' may name a host, an address or a package"
    if program in _RUN_FILES:
        return f"'{program}' runs what its words name"
    if program in _INTERPRETERS and (not before or before[0].startswith("-")):
        return f"the first word of the interpreter '{program}' is the code that it runs"
    if program in _SCRIPTED and (not before or before[-1].startswith("-") or all(w.startswith("-") for w in before)):
        return f"a word of '{program}' may be the script that it runs"
    if program == "git":
        subcommand = words[1 + len(_before_subcommand(words))]
        if subcommand not in _GIT_SUBCOMMANDS:
            return f"a free word of 'git {subcommand}' may name a host or a program"
    return None if is_number else _after_option(program, before)


def _after_option(program: str, before: Sequence[str]) -> str | None:
    last = before[-1] if before else ""
    if not last.startswith("-") or last == "--" or program in _READERS or (program == "git" and last in _GIT_FLAGS):
        return None
    return f"after '{last}' the free word may be the value of that option; write '--' between them, or a word"


def _before_subcommand(words: Sequence[str]) -> list[str]:
    options: list[str] = []
    for word in words[1:]:
        if not word.startswith("-"):
            break
        options.append(word)
    return options


def _program(word: str) -> str:
    name = word.rpartition("/")[2].casefold()
    return _VERSION.sub("", name) or name
