"""Programs by name: which of them take no free word, and which run the program that their words name.

Asked when a kind of calls is written, as a free word of a model's would be a program, a host or a script to some
programs; and when a rule of `shell` restrains commands, however they are spelled.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice, pairwise
from posixpath import normpath
from typing import NamedTuple


def _named(text: str) -> frozenset[str]:
    return frozenset(text.split())


class Reads(NamedTuple):
    """Options with which a program only reads what its words name."""

    flags: frozenset[str]
    """Options without a value, or with one behind `=`."""
    counts: frozenset[str] = frozenset()
    """Options whose value is a number, or a list of numbers."""
    texts: frozenset[str] = frozenset()
    """Options whose value is a text that does no harm."""

    def numbers(self, words: Sequence[str], first: int) -> frozenset[int] | None:
        """Return the positions of the values that are numbers in a command whose options begin at `first`.

        None where an option is not known.
        """
        found: set[int] = set()
        last = words.index("--", first) if "--" in words[first:] else len(words)
        positions = iter(range(first, last))
        for at in positions:
            word = words[at]
            if not word.startswith("-") or word == "-" or word[1:].isdecimal():
                continue
            option = self._option(word)
            if option is None:
                return None
            if option in self.counts | self.texts:
                next(positions, None)
                found |= {at + 1} if option in self.counts else set()
        return frozenset(found)

    def _option(self, word: str) -> str | None:
        """Return the option whose value is the next word, else an empty text; None where an option is not known."""
        valued = self.counts | self.texts
        if word.startswith("--"):
            name, sign, _ = word.partition("=")
            known = name if name in valued and not sign else ""
            return known if name in valued | self.flags else None
        for letter in word[1:]:
            option = f"-{letter}"
            if option in valued:
                return option if word.endswith(letter) else ""
            if option not in self.flags:
                return None
        return ""


_SUMS = Reads(_named("-b -t -z --binary --tag --text --zero"))
_GIT_READ_FLAGS = _named(
    """
    -b -i -p -s -w -z --abbrev-commit --all --cached --color --graph --ignored --merges --name-only --name-status
    --no-color --no-merges --no-patch --numstat --oneline --patch --porcelain --reverse --short --staged --stat
    """
)
_GIT_DIFFS = Reads(_GIT_READ_FLAGS, _named("-U --unified"))
_GIT_LOGS = Reads(
    _GIT_READ_FLAGS | _named("--follow"),
    _named("-U -n --max-count --skip --unified"),
    _named("--after --author --before --date --format --grep --pretty --since --until"),
)
READS = {
    "basedpyright": Reads(_named("--outputjson --stats --warnings")),
    "cat": Reads(_named("-A -E -T -b -e -n -s -t -u -v --number --number-nonblank --show-all --squeeze-blank")),
    "clang-format": Reads(_named("-n --dry-run")),
    "cmp": Reads(_named("-b -l -s --print-bytes --quiet --silent --verbose"), _named("-i -n --bytes")),
    "cut": Reads(
        _named("-n -s -z --complement --only-delimited"),
        _named("-b -c -f --bytes --characters --fields"),
        _named("-d --delimiter --output-delimiter"),
    ),
    "diff": Reads(
        _named("-B -E -N -Z -a -b -c -i -p -q -r -s -u -w -y --brief --color --ignore-case --recursive --side-by-side"),
        _named("-C -U -W --context --unified --width"),
        _named("-I -x --exclude"),
    ),
    "du": Reads(
        _named("-0 -a -b -c -h -k -m -s -x --all --apparent-size --bytes --human-readable --summarize --total"),
        _named("-d --max-depth"),
        _named("--exclude"),
    ),
    "file": Reads(_named("-L -b -h -i -k -r --brief --dereference --mime --mime-encoding --mime-type")),
    "git blame": Reads(_named("-c -e -f -l -n -s -t -w -p --porcelain --show-email"), texts=_named("-L")),
    "git describe": Reads(_named("--all --always --dirty --long --tags"), _named("--candidates")),
    "git diff": _GIT_DIFFS,
    "git grep": Reads(_named("-E -F -G -I -P -c -h -i -l -n -v -w --cached --count"), _named("-A -B -C"), _named("-e")),
    "git log": _GIT_LOGS,
    "git ls-files": Reads(_named("-c -d -m -o -s -t -u -z --cached --deleted --exclude-standard --modified --others")),
    "git ls-tree": Reads(_named("-d -l -r -t -z --full-name --full-tree --long --name-only --name-status")),
    "git rev-parse": Reads(_named("-q --abbrev-ref --short --show-toplevel --verify")),
    "git shortlog": Reads(_named("-c -e -n -s --all --email --no-merges --numbered --summary")),
    "git show": _GIT_LOGS,
    "git status": Reads(_named("-b -s -v -z --branch --ignored --long --porcelain --short")),
    "gofmt": Reads(_named("-d -e -l -s")),
    "grep": Reads(
        _named(
            """
            -E -F -G -H -I -L -P -R -T -U -Z -a -b -c -h -i -l -n -o -q -r -s -v -w -x -y -z --color --count
            --extended-regexp --files-with-matches --fixed-strings --ignore-case --invert-match --line-number
            --no-filename --only-matching --quiet --recursive --with-filename --word-regexp
            """
        ),
        _named("-A -B -C -m --after-context --before-context --context --max-count"),
        _named("-e --exclude --exclude-dir --include --regexp"),
    ),
    "head": Reads(_named("-q -v -z --quiet --verbose"), _named("-c -n --bytes --lines")),
    "hexdump": Reads(_named("-C -b -c -d -o -v -x"), _named("-n -s")),
    "ls": Reads(
        frozenset(f"-{letter}" for letter in "1ABCFGHLNQRSUXZabcdfghiklmnopqrstuvx")
        | _named("--all --almost-all --color --directory --full-time --human-readable --recursive --reverse"),
        _named("-w --width"),
        _named("-I --ignore --sort --time"),
    ),
    "md5sum": _SUMS,
    "nl": Reads(_named("-p"), _named("-i -l -v -w"), _named("-b -d -f -h -n -s")),
    "od": Reads(_named("-b -c -d -o -v -x"), _named("-N -j"), _named("-A -t")),
    "pyright": Reads(_named("--outputjson --stats --warnings")),
    "ruff": Reads(_named("-q --check --diff --no-cache --no-fix --preview --quiet")),
    "rustfmt": Reads(_named("--check")),
    "sha1sum": _SUMS,
    "sha256sum": _SUMS,
    "sha512sum": _SUMS,
    "shellcheck": Reads(_named("-a"), texts=_named("-S -e -f -s --exclude --format --severity --shell")),
    "stat": Reads(_named("-L -f -t --dereference --file-system --terse"), texts=_named("-c --format --printf")),
    "tail": Reads(_named("-F -f -q -v -z --follow --quiet --verbose"), _named("-c -n --bytes --lines")),
    "tr": Reads(_named("-C -c -d -s -t --complement --delete --squeeze-repeats")),
    "wc": Reads(_named("-L -c -l -m -w --bytes --chars --lines --max-line-length --words")),
    "yamllint": Reads(_named("-s --strict")),
}
"""Programs, and subcommands of `git`, that read what their words name. With any other option they may do more."""


_NO_OPERAND = _named(
    """
    aa-exec alacritty bear builtin busybox busybox-static busybox.static caffeinate catatonit catchsegv ccache chronic
    command coproc cpulimit daemonize dbus-launch distcc doas dumb-init eatmydata env eval exec fakeroot foot
    gnome-terminal gpg-agent icecc ionice kitty konsole linux32 linux64 ltrace lxterminal memusage mpiexec mpirun nice
    nohup orterun proot proxychains run0 rxvt sccache sem setsid srun ssh-agent st stdbuf strace sudo systemd-cat
    systemd-inhibit systemd-nspawn terminator tilix time tini torify torsocks toybox trickle tsocks uclampset unbuffer
    urxvt valgrind watch watchexec wezterm wsl x-terminal-emulator x86_64 xargs xfce4-terminal xterm xvfb-run
    """
)
"""Programs that run others, and have no word but options and variables before the one that they run."""
_RUN_OTHERS = _NO_OPERAND | _named(
    """
    abduco bwrap capsh cgexec choom chpst chroot chrt datefudge dbus-run-session dtach entr envdir envuidgid execlineb
    expect fakechroot faketime faketimemt firejail flatpak-spawn flock gdb gosu i386 ld-linux-aarch64.so
    ld-linux-x86-64.so ld-musl-aarch64.so ld-musl-x86_64.so ld.so libfaketime logsave nsenter numactl parallel pkexec
    prlimit qemu-aarch64 qemu-x86_64 rlwrap rr runcon runuser s6-envdir s6-envuidgid s6-setuidgid s6-softlimit screen
    script setarch setpriv setuidgid sg softlimit source start-stop-daemon su su-exec systemd-run taskset timeout tmux
    unshare wine wine64
    """
)
"""Programs that run the program that their words name."""
_REACH_OUT = _named(
    """
    adb ansible apk apptainer apt apt-get aptitude aria2c arping autossh aws axel az bower brew buildah bun bundle
    bunx bzr cabal cargo composer conan conda corepack cpan cpanm cpanp crictl curl curlie dig dnf docker doggo dpkg
    drill dub elinks emerge eopkg finger flatpak flutter fping fpm ftp gcloud gem getent gh git-remote glab go gpg
    guix helm heroku hg host http httpie https hub ip iptables kubectl ldapsearch lerna lftp links luarocks lynx mail
    mailx mamba mariadb micromamba mise mongo mongosh mosh mount msmtp mtr multipass mutt mysql mysqladmin mysqldump
    nc ncat nerdctl netcat nimble nix nix-env nmap npm npx nslookup nvm opam openssl pacman pdm pdsh pear pecl ping
    ping6 pip pipenv pipx pixi pkg pkgin pnpm podman poetry port psql pssh pub raco rclone rebar3 redis-cli resolvectl
    rlogin rpm rpm-ostree rsh rsync rustup scp sdk sendmail sftp shards singularity skopeo slogin smbclient snap socat
    spack ssh sshpass svn swaks telnet terraform tftp tlmgr tofu tracepath traceroute uv uvx vagrant vcpkg w3m wget
    wget2 whois xbps xh yarn youtube-dl yt-dlp yum zypper
    """
)
"""Programs whose words name hosts, addresses or packages."""
_RUN_FILES = _named(
    """
    ant at ava b2 ballerina batch bats bazel bc behave bjam blender buck cake celery chef-client chef-solo cmake
    coverage crontab crystal cwltool cypress dagger dagster dart dc deno dotnet duckdb earthly ed emacs ex fab flask
    foreman ghostscript gmake gnuplot gradle gradlew grunt gs gulp gunicorn gvim hatch honcho hypercorn hyperfine inv
    invoke jbang jekyll jest jmeter jupyter just k6 karma kcov latex latexmk launchctl lein locust logrotate lualatex
    m4 mage matlab meson mix mkdocs mlr mocha modprobe mono msbuild mvn mvnw newman nextflow nim ninja nodemon nose2
    nosetests nox nvim nx open packer pants papermill pdflatex perf phpunit pike playwright please pm2 povray
    pre-commit prefect premake prove ps2pdf puppet py.test pytest rake redo robot rollup rspec run-parts rview
    salt-call sam sbt scala-cli scons serverless service skaffold snakemake sphinx sqlite3 stack stap streamlit swift
    systemctl tap task tex thor tilt tox tup turbo uvicorn vi view vim vimdiff vite vitest vvp waf wasm3 wasmedge
    wasmer wasmtime webpack wolframscript xcodebuild xdg-open xelatex xmake zig
    """
)
"""Programs that run the code, the tasks or the services that their words name."""
_SHELLS = _named("ash bash csh dash elvish fish ksh mksh nu osh powershell pwsh rbash sh tcsh xonsh yash ysh zsh")
"""Interpreters that expand globs and braces."""
_INTERPRETERS = _SHELLS | _named(
    """
    abcl bb boot bpftrace ccl chez chezscheme clisp clj clojure coffee cscript csharp csi deno dtrace ecl elixir erl
    escript fennel forth fsharpi gap gforth ghci gjs gosh gprolog graalpy groovy groovysh gsi gst guile hermes hugs hy
    iex ipython janet java jimsh jjs jruby jshell julia jython kotlin kotlinc lfe livescript lsc lua luajit maxima
    micropython mit-scheme mruby newlisp node nodejs ocaml ocamlrun octave octave-cli oil osascript perl petite php
    php-cgi picolisp prolog pypy python pythonw qjs r racket raku rdmd regina rexx rhino rscript ruby runghc
    runhaskell sage sbcl scala scheme scilab swipl tcc tclsh ts-node tsx ucblogo wish wren wscript yap
    """
)
_SCRIPTED = _named("awk gawk jq mawk nawk sed yq")
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
    fuser gcore gstack initctl jcmd jinfo jmap jstack kill killall killall5 loginctl monit pgrep pkill pstack pwait
    py-spy rbspy rc-service renice reptyr s6-svc skill slay snice supervisorctl sv taskkill tskill xkill
    """
)
"""Programs whose words name processes."""
_VALUED_LETTERS = frozenset("bCfFgIKLNTVX")
_LETTERS = _named("ar bsdtar jar ps tar")
"""Programs whose first word is options, with a hyphen or without one."""
MODES = _named("chgrp chmod chown")
"""Programs whose first word that is no option says who may do what with the files that follow."""
_GIT_READS = frozenset(name.removeprefix("git ") for name in READS if " " in name)
_LISTS = re.compile("@|--files|--from-file")
"""Begin of words, of whatever program, that name a file with names of others: `--files-from`, `@list`."""
_DATA_SUFFIXES = _named(
    """
    .avif .csv .docx .gif .htm .html .jpeg .jpg .json .jsonl .log .md .mp3 .mp4 .ods .odt .parquet .pdf .png
    .pptx .rst .svg .tsv .txt .wav .webp .xlsx .xml
    """
)
"""Ends of names of files that are data to nearly every program."""
_GIT_FLAGS = _named("--all --cached --graph --name-only --name-status --oneline --patch --staged --stat -p")
_GIT_GLOBAL = frozenset(("--no-pager", "--no-optional-locks", "-P"))
_VALUELESS = _GIT_GLOBAL - {"-P"} | {"-"}
"""Options that have no value, whichever program has them."""
_GIT_SUBCOMMANDS = _GIT_READS | _named("add branch checkout restore rm switch tag")
_FIND_ACTS = _named("-delete -exec -execdir -fls -fprint -fprint0 -fprintf -ok -okdir")
_RUN_WORDS = _named("-- -c -e create develop dlx enter exec foreach record rsh run shell stat unshare x")
"""Words after which tools for packages, projects and containers run a program that follows."""
_RUN_AFTER = _named(
    """
    adb apptainer asdf aws-vault chamber crictl crun ctr direnv distrobox doppler dotenv dotenvx fnm git guix heroku
    incus infisical limactl lxc machinectl mamba micromamba multipass nix-shell oc op pyenv rbenv runc rye singularity
    teller toolbox volta
    """
)
"""Further programs that run a program behind one of these words."""
_RUN_ANY_WORD = _named("autossh bunx cmd mosh npx pdsh powershell pssh pwsh slogin ssh sshpass uvx")
"""Programs of which any word may be the program that they run, here or elsewhere."""
_READ_BY_SHELLS = _RUN_ANY_WORD | _SHELLS | {"git"}
"""Programs whose words a shell may expand, besides those that always run others."""
_GIT_RUNS = _named("--exec --index-filter --msg-filter --tree-filter -x foreach run")
"""Words of `git` after which a command follows."""
_RUN_OPTIONS = _named(
    """
    --checkpoint-action --compress-program --exec-batch --extcmd --filter --info-script --new-volume-script
    --open-files-in-pager --pager --pre --receive-pack --rsh --rsh-command --rsync-path --speller --strip-program
    --to-command --unzip-command --upload-pack --use-compress-program --wrap
    """
)
"""Options of whatever program whose value is a program, or a command, that it runs."""
_RUN_NOTHING = _named("--check --strip")
"""Options of other programs with which one of these begins."""
_SHORTENED = frozenset(option[:size] for option in _RUN_OPTIONS for size in range(6, len(option))) - _RUN_NOTHING
_RUN_SPELLED = _RUN_OPTIONS | _SHORTENED
"""Options that run their value, also abbreviated."""
_RUN_LETTERS = {
    "bsdtar": ("-I",),
    "fd": ("-x", "-X", "--exec"),
    "fdfind": ("-x", "-X", "--exec"),
    **dict.fromkeys(("c++", "cc", "g++", "gcc"), ("-wrapper",)),
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
_RUN_SCRIPTS = _named("awk gawk gvim less make mawk more most nawk sed view vimdiff")
"""Further programs whose scripts, or settings, may run commands."""
_HOLD_TEXT = _INTERPRETERS | _RUN_AFTER | _RUN_ANY_WORD | _RUN_SCRIPTS
_HOLD_TEXT_FAMILIES = _REACH_OUT | _RUN_FILES
"""Programs of which a word may be the text of commands."""
_FAMILIES = _named("cargo docker git kubectl podman")
"""Programs of which a subcommand may be a program of its own: `git-push`, `docker-compose`."""
_WITHIN = re.compile(r"""exec:|system:|ext::|[=!"'()\[\]{},]+""", re.IGNORECASE)
"""Signs behind which a word may have a command: `core.pager=rm`, `EXEC:rm`, `!rm`, `system("rm")`."""
_GIT_ALIKE = {"hub": "git", "send-pack": "push", "http-push": "push"}
"""Words of `git`, and a program that hands its words to it, with those that do the same."""
_VERSION = re.compile(r"[-.]?\d[-.\d]*[dmtu]{0,2}(-?(dbg|debug|nogil|cgi|cli))?$|[-.\d]+$")
_MAX_NAME = 255
"""Longest name of a file."""
_ASSIGNMENT = re.compile(r"\w+=")
_BEFORE_OPERAND = re.compile(r"\w+=|\+")
"""Words that may stand between a program and its subcommand, besides options: `make A=b all`, `cargo +nightly run`."""
_SHELL_WORD = re.compile(r"\w+=.*|!|\W*[({]|if|then|else|elif|do|while|until|trap")
"""Words of a shell's text behind which a command begins."""
_PYTHON_MODULE = re.compile(r"-\w*m")
"""Option of Python behind which the program is: `python -um pip`."""
_ANYTHING = "\0"
"""Sign in a word for a part that only a shell knows, which puts something else there."""
_TEXT = re.compile(r"""[\s\\'"*?\[{]""")
"""Signs of which a word has one where a shell reads it as anything but itself."""
_BLANK = re.compile(r"\\[_tnvfrc]")
"""Signs that `env -S` reads as the end of a word."""
_PIECES = re.compile(r"([=:,@])")
"""Signs between a word and a path: `if=./x`."""
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


def names_program(words: Sequence[str]) -> bool:
    """Return whether a word of the command may be a program, or a command, that the first one runs."""
    return runs_others(words[0]) or any(_programs_behind(words)) or any(_run_values(words))


def runs_script(word: str) -> bool:
    """Return whether this is the name or path of a program whose first word that is no option is its script."""
    return _program(word) in _INTERPRETERS | _SCRIPTED


def may_free_file(words: Sequence[str], suffix: str) -> bool:
    """Return whether approvals of such commands may free the name of a file that ends so: nothing in it is run.

    Of commands that only read what they name. To other programs a file that is data to nearly every program may be
    free, unless they read the names of further files from it.
    """
    if _reader(words) is not None:
        return numbers_in(words) is not None
    return suffix.casefold() in _DATA_SUFFIXES and not runs_script(words[0]) and not _reads_names(words)


def numbers_in(words: Sequence[str]) -> frozenset[int] | None:
    """Return the positions of what can only be a number in a command that only reads what its words name.

    None for any other command: there a number may be an amount, a process or permissions. A number that follows no
    option may be the name of a file or of a commit.
    """
    reader = _reader(words)
    return None if reader is None else reader[0].numbers(words, reader[1])


def _reader(words: Sequence[str]) -> tuple[Reads, int] | None:
    """Return how a program, or subcommand of `git`, only reads, and the position of its first option."""
    name, first = _program(words[0]), 1
    if name == "git":
        before = _before_subcommand(words)
        first = len(before) + 2
        name = " ".join((name, *words[first - 1 : first])) if _GIT_GLOBAL.issuperset(before) else name
    # A program among the workers' files may be anything, whatever it is called.
    is_known = name in READS and ("/" not in words[0] or words[0].startswith("/"))
    return (READS[name], first) if is_known else None


def _reads_names(words: Sequence[str]) -> bool:
    """Return whether a program takes the names of further files, or further options, from a file that a word names."""
    if any(map(_LISTS.match, words)):
        return True
    letters = [word for at, word in enumerate(words) if at == 1 or re.match(r"-\w", word)]
    return _program(words[0]) in ("bsdtar", "tar") and any("T" in word for word in letters)


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
    family, dash, subcommand = _base(words[0]).partition("-")
    if dash and family in _FAMILIES:
        words = (family, subcommand, *words[1:])
    if _program(words[0]) in ("git", "hub"):
        alike = tuple(_GIT_ALIKE.get(_base(word), word) for word in words)
        if alike != words and _fits_freely(tokens, alike):
            return True
    if words[0] == "{}":  # a file that `find` finds
        return True
    names = {words[0], _base(words[0]), _program(words[0])}
    if not any(_may_be(name, token) for name in names for token in {tokens[0], _base(tokens[0])}):
        return False
    options = [token for token in tokens[1:] if token.startswith("-")]
    if not all(_has_option(token, words) for token in options):
        return False
    plain = [token for token in tokens[1:] if not token.startswith("-")]
    # Words of `git` may say what its subcommands are, or where.
    says_more = any("alias." in word.casefold() or word.startswith("--exec-path") for word in words[1:])
    is_any = bool(plain) and _program(words[0]) == "git" and says_more
    return is_any or _follow(plain, [*_apart(options, words)])


def _follow(plain: Sequence[str], words: Sequence[str]) -> bool:
    """Return whether these words follow each other, with nothing between but options, their values and the like."""
    places = {0}
    for token in plain:
        behind = {at for place in places for at in islice(_after_options(words, place + 1), _MAX_LEADING + 1)}
        if len(behind) > _MAX_LEADING:
            return True
        places = {at for at in behind if _may_be(words[at], token)}
    return bool(places)


def _may_be(word: str, token: str) -> bool:
    """Return whether a word is what the glob `token` fits, as it is, as a path, or as what a shell may make of it."""
    if fnmatchcase(word, token):
        return True
    if _ANYTHING in word:
        begin, stem = word.partition(_ANYTHING)[0], re.split(r"[*?\[]", token)[0]
        is_open = stem != token and (stem.startswith(begin) or begin.startswith(stem))
        return is_open or fnmatchcase(token, word.replace(_ANYTHING, "*"))
    if "/" not in word + token:
        return False
    path, wanted = _as_path(word), _as_path(token).lstrip("/")
    # The top of the files is known to the machine alone: an absolute path, or one that leads up, may be any below it.
    return fnmatchcase(path, wanted) or (path.startswith(("/", "../")) and fnmatchcase(path, f"*/{wanted}"))


def _as_path(word: str) -> str:
    return "".join(normpath(piece) if "/" in piece else piece for piece in _PIECES.split(word))


def _has_option(token: str, words: Sequence[str]) -> bool:
    """Return whether an option is among the words: alone, abbreviated, with a value or, as letters, with others."""
    given = [word for word in words[1:] if word.startswith("-") or _ANYTHING in word]
    valued = (f"{one}={value}" for one, value in pairwise(words[1:]) if one.startswith("-"))
    if any(_may_be(word, token) or _shortens(word, token) for word in (*given, *valued)):
        return True
    if token.startswith("--") or len(token) >= _CLUSTER:
        return False
    letters = {letter for word in given if not word.startswith("--") for letter in word[1:]}
    return letters.issuperset(token[1:])


def _shortens(word: str, token: str) -> bool:
    """Return whether a word is the long option of a rule, perhaps abbreviated, or with another number of hyphens."""
    (name, _, value), (wanted, sign, wish) = word.partition("="), token.partition("=")
    if not (_is_long(name) and _is_long(wanted)):
        return False
    given, whole = name.lstrip("-"), wanted.lstrip("-")
    is_same = whole == given or (name.startswith("--") and whole.startswith(given))
    return is_same and (not sign or _may_be(value, wish))


def _is_long(option: str) -> bool:
    return option.startswith("-") and len(option) >= _CLUSTER - option.startswith("--") and option.strip("-") != ""


def _apart(options: Sequence[str], words: Sequence[str]) -> Iterator[str]:
    """Yield the words, and as a word of its own each value that is glued to one of these options."""
    letters = "".join(option[1:] for option in options if re.fullmatch(r"-\w", option))
    for word in words:
        if any(_shortens(word, option) for option in options):
            yield from word.split("=", 1)
        elif letters and (glued := re.match(f"(-\\w*?[{letters}])(.+)", word)):
            yield from glued.groups()
        else:
            yield word


def _after_options(words: Sequence[str], first: int) -> Iterator[int]:
    """Yield the positions from `first` on where the options and the like may be over; each option may have a value."""
    last_option, position = False, first
    while position < len(words):
        word = words[position]
        if not word.startswith("-"):
            yield position
            if not last_option and not _BEFORE_OPERAND.match(word):
                return
        last_option = word.startswith("-") and word not in _VALUELESS
        position += 1


def _commands_in(argv: tuple[str, ...], depth: int) -> Iterator[tuple[str, ...]]:
    """Yield the command, and those that it may run by what its words say.

    Raises _TooMuchError where these are too many."""
    if len(argv) > _MAX_WORDS and (_may_hold_text(argv) or _program(argv[0]) == "find"):
        raise _TooMuchError
    waiting, seen = [0], {0}
    texts_from: int | None = None
    is_shell = False
    while waiting:
        at = waiting.pop()
        words = argv[at:]
        yield words
        if _may_hold_text(words):
            texts_from = at + 1 if texts_from is None else min(texts_from, at + 1)
            is_shell = is_shell or runs_others(words[0]) or _program(words[0]) in _READ_BY_SHELLS
        inner = {at + one for one in _programs_behind(words)} - seen
        seen |= inner
        waiting.extend(inner)
        for text in _run_values(words):
            yield from _commands_of(text, (), depth, opens=True)
    if texts_from is None or depth >= _MAX_TEXT_DEPTH:
        return
    for number, word in enumerate(argv[texts_from:], texts_from):
        if len(word) > _MAX_TEXT_CHARS:
            raise _TooMuchError
        # A value may be glued to one letter or more: `env -vSrm`.
        glued = [word[at:] for at in range(2, _CLUSTER + 1) if word.startswith("-")]
        is_text, has_blanks = _TEXT.search(word) is not None, any(map(str.isspace, word))
        for text in (*glued, *_WITHIN.split(word), *((word,) if is_text else ())):
            if text != word or is_text:
                yield from _commands_of(text, argv[number + 1 :], depth, opens=is_shell or has_blanks)


def _commands_of(text: str, after: tuple[str, ...], depth: int, *, opens: bool) -> Iterator[tuple[str, ...]]:
    """Yield the commands in a text within a command, and those in them; `after` are the words behind the text.

    With `opens` a shell may read it, so that a glob in it stands for anything.
    """
    if len(text) > _MAX_TEXT_CHARS:
        raise _TooMuchError
    for reading in dict.fromkeys((text, _BLANK.sub(" ", text)) if depth < _MAX_TEXT_DEPTH else ()):
        inside = tuple(_opened(word) if opens else word for word in _split(reading))
        # `env -Srm x` goes on with the words that follow. Variables and words of a shell may stand before.
        whole = (*inside, *after)
        if len(whole) > _MAX_WORDS:
            raise _TooMuchError
        for start in range(min(len(inside), _MAX_LEADING)):
            if _ANYTHING not in whole[start] or all(map(_SHELL_WORD.fullmatch, inside[:start])):
                yield from _commands_in(whole[start:], depth + 1)


def _run_values(words: Sequence[str]) -> Iterator[str]:
    """Yield what the options of a program give it to run."""
    program = _program(words[0])
    letters = _RUN_LETTERS.get(program, ())
    short = {letter[1] for letter in letters if len(letter) < _CLUSTER - 1}
    for at, word in enumerate(words[1:], 1):
        name, _, value = word.partition("=")
        following = " ".join(words[at + 1 : at + 2])
        is_cluster = word.startswith("-") and not word.startswith("--")
        if word.startswith("ext::"):
            yield word.removeprefix("ext::")
        elif name in letters or name in _RUN_SPELLED:
            yield from _WITHIN.split(value or following)
        elif at == 1 and program in _LETTERS and not is_cluster and not short.isdisjoint(word):
            # The values of these letters follow in their order: `tar cfI a.tar rm x`.
            yield from words[2 : 2 + len(word)]
        elif cut := min((found for letter in short if (found := word.find(letter, 1)) > 0 and is_cluster), default=0):
            yield from _WITHIN.split(word[cut + 1 :] or following)


def _may_hold_text(words: Sequence[str]) -> bool:
    """Return whether a word of the command may be the text of other commands."""
    program = _program(words[0])
    if program == "git":
        return not _GIT_RUNS.isdisjoint(words)
    return runs_others(words[0]) or program in _HOLD_TEXT or _is_among(_HOLD_TEXT_FAMILIES, words[0])


def _split(text: str) -> tuple[str, ...]:
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    return tuple(word for word in words if word)


def _opened(word: str) -> str:
    """Return a word with a sign for each part that some shell expands: globs, groups, and braces that are no block."""
    for begin, end, signs in (("{", "}", (",", "..")), ("[", "]", ("",)), ("(", ")", ())):
        first, last = word.find(begin), word.rfind(end)
        if 0 <= first < last and (first or any(sign in word[first:last] for sign in signs)):
            before = "" if "/" in word[first:last] else word[:first].rstrip("@+!?*")
            word = f"{before}{_ANYTHING}{word[last + 1 :]}"
    return word.replace("*", _ANYTHING).replace("?", _ANYTHING)


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
    elif program in ("python", "pypy"):
        yield from (at + 1 for at, word in enumerate(words[:-1]) if _PYTHON_MODULE.fullmatch(word))
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
    if program in MODES and not plain:
        return f"the first word of '{program}' says who may do what"
    if program not in _LETTERS:
        return None
    if not before:
        return f"the first word of '{program}' is its options"
    valued = 0 if before[0].startswith("-") else sum(letter in _VALUED_LETTERS for letter in before[0])
    return f"the free word may be the value of an option in '{before[0]}'" if len(before) <= valued else None


def _after_option(program: str, before: Sequence[str]) -> str | None:
    last = before[-1] if before else ""
    if not last.startswith("-") or last == "--" or (program == "git" and last in _GIT_FLAGS):
        return None
    numbers = numbers_in((program, *before))
    if numbers is not None and len(before) + 1 not in numbers:
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
    base = _base(word)
    return (_VERSION.sub("", base) if len(base) <= _MAX_NAME else base) or base
