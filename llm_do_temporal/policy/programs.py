"""Programs by name: which of them take no free word, and which run the program that their words name.

Asked when a kind of calls is written, as a free word of a model's would be a program, a host or a script to some
programs; and when a rule of `shell` restrains commands, however they are spelled.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice


def _named(text: str) -> frozenset[str]:
    return frozenset(text.split())


_RUN_OTHERS = _named(
    """
    abduco builtin busybox busybox-static busybox.static bwrap capsh catchsegv cgexec choom chpst chronic
    chroot chrt command coproc daemonize dbus-run-session doas dtach dumb-init eatmydata entr env envdir eval
    exec expect fakechroot fakeroot faketime faketimemt firejail flatpak-spawn flock gdb gosu i386 ionice
    ld-linux-aarch64.so ld-linux-x86-64.so ld-musl-aarch64.so ld-musl-x86_64.so ld.so libfaketime linux32
    linux64 ltrace memusage nice nohup nsenter numactl parallel pkexec prlimit proot proxychains qemu-aarch64
    qemu-x86_64 rlwrap rr runcon runuser s6-setuidgid screen script setarch setpriv setsid setuidgid sg
    softlimit source start-stop-daemon stdbuf strace su su-exec sudo systemd-run taskset time timeout tini tmux
    torify torsocks toybox tsocks unbuffer unshare valgrind watch watchexec wine wine64 wsl x86_64 xargs xterm
    xvfb-run
    """
)
"""Programs that run the program that their words name."""
_NO_OPERAND = _named(
    """
    builtin busybox busybox-static busybox.static catchsegv chronic command coproc daemonize doas dumb-init
    eatmydata env eval exec fakeroot ionice linux32 linux64 ltrace memusage nice nohup proot proxychains setsid
    stdbuf strace sudo time tini torify torsocks toybox tsocks unbuffer valgrind watch watchexec wsl x86_64 xargs
    xterm xvfb-run
    """
)
"""Programs that run others, and have no word but options and variables before the one that they run."""
_REACH_OUT = _named(
    """
    ansible apk apt apt-get aria2c arping aws axel az brew buildah bun bundle bunx bzr cargo composer conda
    corepack curl curlie dig dnf docker doggo dpkg drill elinks emerge finger flatpak fping ftp gcloud gem
    getent gh git-remote glab go gpg guix helm hg host http httpie https hub ip iptables kubectl ldapsearch lftp
    links lynx mail mailx mise mongo mongosh mosh mount msmtp mtr mutt mysql nc ncat nerdctl netcat nix nmap npm
    npx nslookup openssl pacman pdm ping ping6 pip pipenv pipx pixi pnpm podman poetry psql rclone redis-cli
    resolvectl rlogin rpm rsh rsync rustup scp sendmail sftp skopeo smbclient snap socat ssh svn swaks telnet
    terraform tftp tofu tracepath traceroute uv uvx vagrant w3m wget wget2 whois xh yarn youtube-dl yt-dlp yum
    zypper
    """
)
"""Programs whose words name hosts, addresses or packages."""
_RUN_FILES = _named(
    """
    ant at batch bats bazel behave celery cmake coverage crontab dart dc dotnet duckdb ed emacs ex fab flask
    foreman gmake gnuplot gradle gradlew grunt gulp gunicorn hatch honcho hypercorn hyperfine inv invoke jest
    jupyter just latex latexmk launchctl lein lualatex m4 mix mlr mocha modprobe mono mvn mvnw nim ninja nodemon
    nox nvim open papermill pdflatex perf phpunit playwright pm2 pre-commit py.test pytest rake robot rspec
    run-parts sbt scons service sqlite3 streamlit swift systemctl tex tox uvicorn vi vim vitest xdg-open xelatex
    zig
    """
)
"""Programs that run the code, the tasks or the services that their words name."""
_INTERPRETERS = _named(
    """
    ash bash boot clisp clojure csh dash deno elixir elvish erl escript fish gjs groovy guile iex ipython java
    jruby jshell julia jython kotlin ksh lua luajit micropython mksh node nodejs nu octave osascript perl php
    powershell pwsh pypy python qjs r racket raku rbash rscript ruby runghc runhaskell sbcl scala scheme sh
    tclsh tcsh ts-node tsx wish xonsh yash zsh
    """
)
_SCRIPTED = _named(
    """
    awk gawk jq mawk nawk sed yq
    """
)
"""Programs whose first word that is no option is a script."""
_PLAIN_FLAGS = {
    "sed": _named("-n -E -r -s -u -z -i --quiet --silent --posix --sandbox --debug"),
    "jq": _named("-a -c -C -e -j -M -n -r -s -S --raw-output --compact-output --slurp --sort-keys --exit-status"),
}
"""Options of scripted programs that take no value, so that the word behind them is the script."""
_SCRIPT_OPTIONS = {"sed": _named("-e -f"), "jq": _named("-f")}
"""Options of scripted programs whose value is the script; all other words are files then."""
_VALUED_OPTIONS = _named("-F -v")
"""Options of `awk` that have a value, which is no script."""
_PROCESSES = _named(
    """
    fuser kill killall pgrep pkill pwait renice skill taskkill
    """
)
"""Programs whose words name processes."""
_VALUED_LETTERS = frozenset("bCfFgIKLNTVX")
_LETTERS = _named("ar bsdtar jar ps tar")
"""Programs whose first word is options, with a hyphen or without one."""
_MODES = _named("chgrp chmod chown")
"""Programs whose first word that is no option says who may do what with the files that follow."""
_READERS = _named(
    """
    cat cmp cut diff du file grep head hexdump ls md5sum nl od sha1sum sha256sum sha512sum stat tail tr wc
    """
)
"""Programs to which a word after an option is a file to be read, or a value that does no harm."""
_CHECKERS = _named(
    """
    basedpyright clang-format gofmt pyright ruff rustfmt shellcheck yamllint
    """
)
"""Programs that read code and run none of it."""
_DATA_SUFFIXES = _named(
    """
    .avif .csv .docx .gif .htm .html .jpeg .jpg .json .jsonl .log .md .mp3 .mp4 .ods .odt .parquet .pdf .png
    .pptx .rst .svg .tsv .txt .wav .webp .xlsx .xml
    """
)
"""Ends of names of files that are data to nearly every program."""
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
_GIT_READS = _named(
    """
    blame describe diff grep log ls-files ls-tree rev-parse shortlog show status
    """
)
_FIND_ACTS = _named(
    """
    -delete -exec -execdir -fls -fprint -fprint0 -fprintf -ok -okdir
    """
)
_RUN_WORDS = _named("-- -c -e develop dlx enter exec foreach record run shell stat x")
"""Words after which tools for packages, projects and containers run a program that follows."""
_RUN_AFTER = _named(
    """
    asdf aws-vault direnv distrobox dotenv dotenvx fnm git guix lxc mamba micromamba nix-shell oc op pyenv rbenv
    rye toolbox volta
    """
)
"""Further programs that run a program behind one of these words."""
_RUN_ANY_WORD = _named("bunx cmd npx powershell pwsh ssh uvx")
"""Programs of which any word may be the program that they run, here or elsewhere."""
_GIT_RUNS = _named("--exec --index-filter --msg-filter --tree-filter -x foreach run")
"""Words of `git` after which a command follows."""
_RUN_OPTIONS = _named(
    """
    --checkpoint-action --compress-program --exec-batch --extcmd --filter --info-script --new-volume-script
    --open-files-in-pager --pager --pre --receive-pack --rsh --rsh-command --rsync-path --to-command --unzip-command
    --upload-pack --use-compress-program
    """
)
"""Options of whatever program whose value is a program, or a command, that it runs."""
_RUN_LETTERS = {
    "bsdtar": ("-I",),
    "fd": ("-x", "-X", "--exec"),
    "fdfind": ("-x", "-X", "--exec"),
    "git": ("-c", "-O", "-u", "--config", "--exec"),
    "man": ("-P",),
    "scp": ("-S",),
    "sftp": ("-S",),
    "tar": ("-I", "-F"),
    "tcpdump": ("-z",),
    "zip": ("-TT",),
}
"""Further such options of one program, the value perhaps glued to them; of `git`, also its settings, which may run
some."""
_RUN_SCRIPTS = _named("awk gawk make mawk nawk sed")
"""Further programs whose scripts, or settings, may run commands."""
_WITHIN = re.compile(r"""exec:|system:|ext::|[=!"'()\[\]{},]+""", re.IGNORECASE)
"""Signs behind which a word may have a command: `core.pager=rm`, `EXEC:rm`, `!rm`, `system("rm")`."""
_GIT_ALIKE = {"hub": "git", "send-pack": "push", "http-push": "push"}
"""Words of `git`, and a program that hands its words to it, with those that do the same."""
_VERSION = re.compile(r"[-.\d]+$")
_ASSIGNMENT = re.compile(r"\w+=")
_MAX_TEXT_DEPTH = 4
"""Most commands within the text of another one that are looked at."""
_MAX_WORDS = 400
"""Most words of a command that may run others which are looked at; one with more fits."""
_MAX_COMMANDS = 400
"""Most commands within one that are looked at; one with more fits."""
_MAX_TEXT_CHARS = 20_000
"""Longest text of commands that is looked at; a longer one fits."""
_MAX_LEADING = 64
"""Most words that are looked at for the end of the options before a subcommand; a command with more fits."""
_CLUSTER = 4
"""Fewest characters of a word with one hyphen that is one option rather than several letters."""


def refused_command(words: Sequence[str]) -> str | None:
    """Return the reason why no kind may name this command, whichever words are free; None: it may."""
    program = _program(words[0])
    if runs_others(words[0]):
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
    if _is_among(_REACH_OUT, words[0]):
        return f"a word of '{program}' may name a host, an address or a package"
    if _is_among(_RUN_FILES, words[0]):
        return f"'{program}' runs what its words name"
    if program in _INTERPRETERS and (not before or before[0].startswith("-")):
        return f"the first word of the interpreter '{program}' is the code that it runs"
    if program in _SCRIPTED and (not _has_script(program, before) or before[-1].startswith("-")):
        return f"a word of '{program}' may be the script that it runs"
    if (reason := _of_other_meaning(program, before)) is not None:
        return reason
    if program == "git":
        subcommand = words[1 + len(_before_subcommand(words))]
        if subcommand not in _GIT_SUBCOMMANDS:
            return f"a free word of 'git {subcommand}' may name a host or a program"
    return None if is_number else _after_option(program, before)


def runs_others(word: str) -> bool:
    """Return whether this is the name or path of a program that runs the program that its words name."""
    return not {_base(word), _program(word)}.isdisjoint(_RUN_OTHERS)


def runs_script(word: str) -> bool:
    """Return whether this is the name or path of a program whose first word that is no option is its script."""
    return _program(word) in _INTERPRETERS | _SCRIPTED


def may_teach_freedom(words: Sequence[str], *, suffix: str | None) -> bool:
    """Return whether approvals of such commands may free a number, or with `suffix` the name of a file that ends so.

    Of programs that are known to read only. Of others a number may be an amount, a process or permissions, and a file
    may be what is run; but a file that is data to nearly every program may be free.
    """
    program = _program(words[0])
    if program in _READERS | _CHECKERS:
        return True
    if program == "git" and len(rest := words[1 + len(_before_subcommand(words)) :]) > 0 and rest[0] in _GIT_READS:
        return True
    return suffix is not None and suffix.casefold() in _DATA_SUFFIXES and not runs_script(words[0])


def restrains(tokens: Sequence[str], argv: Sequence[str]) -> bool:
    """Return whether a command does what these first words, each perhaps a glob, forbid or ask about, in any spelling.

    A program is itself by its path and with a version in its name, also where another program runs it or a shell has it
    in its text. Options between the program and its subcommand do not count, and those among `tokens` may be anywhere.
    """
    try:
        return any(_fits_freely(tokens, command) for command in _bounded(_commands_in(tuple(argv), 0)))
    except _TooMuchError:
        return True


class _TooMuchError(Exception):
    """More words, text or commands within a command than are looked at."""


def _bounded(commands: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    for number, command in enumerate(commands):
        if number == _MAX_COMMANDS:
            raise _TooMuchError
        yield command


def _fits_freely(tokens: Sequence[str], words: Sequence[str]) -> bool:
    if (base := _base(words[0])).startswith("git-"):
        words = ("git", base.removeprefix("git-"), *words[1:])
    if _program(words[0]) in ("git", "hub"):
        alike = tuple(_GIT_ALIKE.get(_base(word), word) for word in words)
        if alike != words and _fits_freely(tokens, alike):
            return True
    names = {words[0], _base(words[0]), _program(words[0])}
    if not any(fnmatchcase(name, token) for name in names for token in {tokens[0], _base(tokens[0])}):
        return False
    if not all(_has_option(token, words) for token in tokens[1:] if token.startswith("-")):
        return False
    plain = [token for token in tokens[1:] if not token.startswith("-")]
    if not plain:
        return True
    starts = list(_after_options(words, 1))
    if len(starts) > _MAX_LEADING or (_program(words[0]) == "git" and _has_other_commands(words)):
        return True
    return any(_begins_with(plain, words[start:]) for start in starts)


def _begins_with(plain: Sequence[str], words: Sequence[str]) -> bool:
    found = list(islice((word for word in words if not word.startswith("-")), len(plain)))
    return len(found) >= len(plain) and all(map(fnmatchcase, found, plain))


def _has_option(token: str, words: Sequence[str]) -> bool:
    """Return whether an option is among the words, alone, with a value or, as letters, with other letters."""
    options = [word for word in words[1:] if word.startswith("-")]
    if any(fnmatchcase(word, token) or word.startswith(f"{token}=") for word in options):
        return True
    if token.startswith("--") or len(token) >= _CLUSTER:
        return False
    letters = {letter for word in options if not word.startswith("--") for letter in word[1:]}
    return letters.issuperset(token[1:])


def _has_other_commands(words: Sequence[str]) -> bool:
    """Return whether words of `git` say what its subcommands are, or where."""
    return any("alias." in word.casefold() or word.startswith("--exec-path") for word in words[1:])


def _after_options(words: Sequence[str], first: int) -> Iterator[int]:
    """Yield the positions from `first` on where the options may be over; each option may have a value."""
    last_option, position = False, first
    while position < len(words):
        is_option = words[position].startswith("-") and len(words[position]) > 1
        if not is_option:
            yield position
            if not last_option:
                return
        last_option, position = is_option and words[position] not in _GIT_GLOBAL - {"-P"}, position + 1


def _commands_in(argv: tuple[str, ...], depth: int) -> Iterator[tuple[str, ...]]:
    """Yield the command, and those that it may run by what its words say.

    Raises _TooMuchError where these are too many."""
    if len(argv) > _MAX_WORDS and (_may_hold_text(argv) or _program(argv[0]) == "find"):
        raise _TooMuchError
    waiting, seen = [0], {0}
    texts_from: int | None = None
    while waiting:
        at = waiting.pop()
        words = argv[at:]
        yield words
        if _may_hold_text(words):
            texts_from = at + 1 if texts_from is None else min(texts_from, at + 1)
        inner = {at + one for one in _programs_behind(words)} - seen
        seen |= inner
        waiting.extend(inner)
        for text in _run_values(words):
            yield from _commands_of(text, (), depth)
    if texts_from is None or depth >= _MAX_TEXT_DEPTH:
        return
    for number, word in enumerate(argv[texts_from:], texts_from):
        if len(word) > _MAX_TEXT_CHARS:
            raise _TooMuchError
        glued = (word[2:],) if word.startswith("-") else ()
        for text in (*glued, *_WITHIN.split(word), *((word,) if any(map(str.isspace, word)) else ())):
            if text != word or any(map(str.isspace, word)):
                yield from _commands_of(text, argv[number + 1 :], depth)


def _commands_of(text: str, after: tuple[str, ...], depth: int) -> Iterator[tuple[str, ...]]:
    """Yield the commands in a text within a command, and those in them; `after` are the words behind the text."""
    if len(text) > _MAX_TEXT_CHARS:
        raise _TooMuchError
    if depth < _MAX_TEXT_DEPTH and (inside := _split(text)):
        # `env -Srm x` goes on with the words that follow. Variables and words of a shell may stand before.
        whole = (*inside, *after)
        if len(whole) > _MAX_WORDS:
            raise _TooMuchError
        for start in range(min(len(inside), _MAX_LEADING)):
            yield from _commands_in(whole[start:], depth + 1)


def _run_values(words: Sequence[str]) -> Iterator[str]:
    """Yield what the options of a program give it to run."""
    letters = _RUN_LETTERS.get(_program(words[0]), ())
    for at, word in enumerate(words[1:], 1):
        name, _, value = word.partition("=")
        if word.startswith("ext::"):
            yield word.removeprefix("ext::")
        elif name in _RUN_OPTIONS or name in letters:
            yield from _WITHIN.split(value or " ".join(words[at + 1 : at + 2]))
        elif short := next((one for one in letters if word.startswith(one) and len(one) < _CLUSTER - 1), ""):
            yield from _WITHIN.split(word.removeprefix(short))


def _may_hold_text(words: Sequence[str]) -> bool:
    """Return whether a word of the command may be the text of other commands."""
    program = _program(words[0])
    if program == "git":
        return not _GIT_RUNS.isdisjoint(words)
    others = _INTERPRETERS | _RUN_AFTER | _RUN_SCRIPTS
    return runs_others(words[0]) or program in others or _is_among(_REACH_OUT | _RUN_FILES, words[0])


def _split(text: str) -> tuple[str, ...]:
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    return tuple(word for word in words if word)


def _programs_behind(words: Sequence[str]) -> Iterator[int]:
    """Yield the positions of words that may be a program which the first word runs."""
    program = _program(words[0])
    if runs_others(words[0]):
        operands = 0 if {program, _base(words[0])} & _NO_OPERAND else 1
        start = 1
        while start < len(words):
            found = list(_after_options(words, start))
            yield from found
            last = found[-1] if found else len(words)
            if last < len(words) and not _ASSIGNMENT.match(words[last]):
                operands -= 1
                if operands < 0:
                    return
            start = last + 1
    elif program == "find":
        yield from (at + 1 for at, word in enumerate(words[:-1]) if word in _FIND_ACTS)
    elif program in _RUN_ANY_WORD:
        yield from range(1, len(words))
    elif _is_among(_REACH_OUT | _RUN_FILES | _RUN_AFTER, words[0]):
        # A container, a package or an environment may be named before the program.
        marks = _GIT_RUNS if program == "git" else _RUN_WORDS
        run = next((at for at, word in enumerate(words) if at and word in marks), len(words))
        yield from range(run + 1, len(words))


def _has_script(program: str, before: Sequence[str]) -> bool:
    """Return whether the words before a free one name the script of this program for sure."""
    words = iter(before)
    for word in words:
        if not word.startswith("-"):
            return True
        if word in _SCRIPT_OPTIONS.get(program, _named("-f")):
            return next(words, None) is not None
        if word in _VALUED_OPTIONS and program not in _PLAIN_FLAGS:
            next(words, None)
        elif word not in _PLAIN_FLAGS.get(program, ()) and not word.startswith(("-F", "-v")):
            return False
    return False


def _of_other_meaning(program: str, before: Sequence[str]) -> str | None:
    """Return the reason why a word at this position says what is done, or to whom; None: it does not."""
    plain = [word for word in before if not word.startswith("-")]
    if program in _PROCESSES:
        return f"a word of '{program}' may name a process"
    if program in _MODES and not plain:
        return f"the first word of '{program}' says who may do what"
    if program not in _LETTERS:
        return None
    if not before:
        return f"the first word of '{program}' is its options"
    valued = 0 if before[0].startswith("-") else sum(letter in _VALUED_LETTERS for letter in before[0])
    return f"the free word may be the value of an option in '{before[0]}'" if len(before) <= valued else None


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


def _is_among(programs: frozenset[str], word: str) -> bool:
    """Return whether a program, or the family that it is named after (`docker-compose`), is among these."""
    return not {_base(word), _program(word), _base(word).partition("-")[0]}.isdisjoint(programs)


def _base(word: str) -> str:
    return word.rpartition("/")[2].casefold().removesuffix(".exe")


def _program(word: str) -> str:
    """Return the name of a program without folder and version."""
    return _VERSION.sub("", _base(word)) or _base(word)
