"""Programs that only read what their words name, each with the options of which that is known.

With any other option such a program may do more: take the names of files, or its settings, from a file, or write one.
"""

from __future__ import annotations

from collections.abc import Sequence
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
_GIT_FLAGS = _named(
    """
    -b -i -p -s -w -z --abbrev-commit --all --cached --color --graph --ignored --merges --name-only --name-status
    --no-color --no-merges --no-patch --numstat --oneline --patch --porcelain --reverse --short --staged --stat
    """
)
_GIT_DIFFS = Reads(_GIT_FLAGS, _named("-U --unified"))
_GIT_LOGS = Reads(
    _GIT_FLAGS | _named("--follow"),
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
