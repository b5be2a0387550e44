"""Values of all configured keys, and their removal from every text that leaves: errors, logs, traces and exports.

A provider that refuses a key may repeat it, a driver may put its connection string into an error. Called where such
text leaves: by the converter of failures, by logging, spans, exports and everything that prints. Knows the variables of
this process whose names or values look like a key's, the variables that definitions name, and values that it is told
of. Values below `SHORTEST_CHARS` characters stay: they would be found in the middle of ordinary words.
"""

from __future__ import annotations

import base64
import html
import json
import logging
import os
import re
import sys
import traceback
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, cast
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from llm_do_temporal.environment import KEY_FILE_VARIABLE
from llm_do_temporal.policy.key_shapes import begins_like_key, looks_like_key
from llm_do_temporal.redaction.hidden_characters import each_text

SHORTEST_CHARS = 8
_CUT_FROM_CHARS = 16
"""Length from which the beginning and the end of a value are taken out too, where a text was cut."""
_CUT_CHARS = (12, 20)
"""Least and greatest length of such a beginning or end: half of the value, within these bounds."""
_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|PASS$|_PWD$|CREDENTIAL|AUTH(?!OR)|AUTHORIZATION|WEBHOOK|DSN|COOKIE|HEADERS",
    re.IGNORECASE,
)
"""Variables that hold keys, by their names."""
_PLACE = re.compile(r"(?:FILE|PATH|DIR|SOCK|HOME)$", re.IGNORECASE)
_ORDINARY = frozenset(
    {"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "PWD", "OLDPWD", "SHELL", "TERM", "TMPDIR", "TZ", "USER"}
)
_WORDS = frozenset({"disabled", "optional", "required", "undefined", "anonymous"})
_HOOK_HOSTS = re.compile(r"(?:^|\.)(?:hooks\.slack\.com|discord(?:app)?\.com|webhook\.office\.com|logic\.azure\.com)$")
_DIGIT = re.compile(r"\d")
_PIECES = re.compile(r"[\s,;]+")
_INTRODUCED = re.compile(r"^[A-Za-z0-9._-]{1,40}[:=]")
"""Text before a key in a list of several: its id, or the name of a header."""
_PEM_LINE = re.compile(r"-----[A-Z0-9 ]+-----")
_GAP = re.compile(r"(?:\r\n|[\r\n]|\\r\\n|\\n)[ \t>|]*|[\u00ad\u200b-\u200f\u2060\ufeff]")
"""Gaps between the characters of a key that was broken over lines, also as they are written in JSON."""
_ESCAPE = re.compile(
    r"""
    \\{1,8}(?:[ux]\{0{0,6}|u(?:0000)?00|x)(?P<code>[2-7][0-9a-f])\}?  # JSON, JavaScript, Python
    | \\{1,8}(?P<octal>(?:0?[4-7]|1[0-7])[0-7])
    | &(?:amp;){0,3}\#(?:x0{0,6}(?P<hex>[2-7][0-9a-f])|0{0,6}(?P<number>\d{2,3}));?  # XML, HTML
    | &(?:amp;){0,3}(?P<entity>plus|sol|equals|bsol|lowbar|period|num|excl|dollar|percnt|amp|lt|gt|quot|apos|colon|comma
        |semi|ast|commat|quest|lpar|rpar|lsqb|lbrack|rsqb|rbrack|lcub|lbrace|rcub|rbrace|verbar|vert|grave|Hat|midast);
    | %(?:25){0,3}(?P<percent>[2-7][0-9a-f])
    | \\(?P<sign>[^\w\s])
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Escape for a character of ASCII: each program chooses for itself which characters it escapes, and how."""
_GAP_OR_ESCAPE = re.compile(f"{_GAP.pattern}|(?ix:{_ESCAPE.pattern})", re.IGNORECASE)
_BASES = (("code", 16), ("hex", 16), ("percent", 16), ("number", 10), ("octal", 8))


@dataclass(frozen=True)
class _Span:
    start: int
    end: int
    name: str


class Keys:
    """Values of keys, in every spelling in which they usually come back."""

    def __init__(self, values: Iterable[tuple[str, str]]) -> None:
        """Prepare the search for `values`: the names to show, and the secrets."""
        by_spelling: dict[str, str] = {}
        for name, value in values:
            for spelling in _spellings(value):
                by_spelling.setdefault(spelling, name)
        # Longer ones first: a password alone is found within the address that holds it.
        self._keys = sorted(by_spelling.items(), key=lambda one: -len(one[0]))

    def remove(self, text: str) -> str:
        """Return the text with `[key NAME]` in the place of every key's value, or of a long beginning or end of it."""
        if not self._keys or len(text) < SHORTEST_CHARS:
            return text
        # In one go: what the first search finds of a key that is escaped in part would hide the rest from the second.
        found = list(self._found(_Searched(text, _GAP)))
        if _ESCAPE.search(text):
            found += self._found(_Searched(text, _GAP_OR_ESCAPE))
        shown: list[str] = []
        done = 0
        for span in _merged(found):
            shown += (text[done : span.start], f"[key {span.name}]")
            done = span.end
        return "".join((*shown, text[done:]))

    def _found(self, searched: _Searched) -> Iterator[_Span]:
        lowered = _lowered(searched.text)
        for spelling, name in self._keys:
            for span in _spans(lowered, spelling, name):
                yield _Span(searched.begin(span.start), searched.end(span.end - 1), name)


_named: set[str] = set()
_told: dict[str, str] = {}


def know_variable(name: str) -> None:
    """Treat the value of a variable as a key from now on, whatever its name: a definition says that it is a key."""
    if name not in _ORDINARY and not name.startswith("LC_"):
        _named.add(name)


def know_value(name: str, value: str) -> None:
    """Treat a value as a key from now on; it is shown as `[key NAME]`."""
    _told[value] = name


def remove_keys(text: str) -> str:
    """Return the text without the values of all keys that this process knows now."""
    return _known().remove(text)


def without_keys(value: Any) -> Any:
    """Return a value like those of JSON with no keys in any of its texts and names."""
    return each_text(value, remove_keys)


def guard_logging() -> None:
    """Take keys out of every log line of this process from now on, whichever logger writes it and wherever it goes."""
    make = logging.getLogRecordFactory()
    if not isinstance(make, _KeylessRecords):
        logging.setLogRecordFactory(_KeylessRecords(make))


def guard_process() -> None:
    """Take keys out of log lines, and out of the traceback of an error that ends the process."""
    guard_logging()
    sys.excepthook = _print_without_keys


class _KeylessRecords:
    def __init__(self, make: Callable[..., logging.LogRecord]) -> None:
        self._make = make

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = self._make(*args, **kwargs)
        with suppress(Exception):  # a line whose arguments do not fit is the business of who handles it
            said = record.getMessage()
            if (clean := remove_keys(said)) != said:
                record.msg, record.args = clean, ()
        if record.exc_info and record.exc_info[0] is not None:
            trace = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            if (clean := remove_keys(trace)) != trace:
                record.exc_text, record.exc_info = clean, None
        return record


def _print_without_keys(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.stderr.write(remove_keys("".join(traceback.format_exception(kind, error, trace))))


def _known() -> Keys:
    path = os.environ.get(KEY_FILE_VARIABLE, "")
    changed: tuple[int, ...] = ()
    if path:
        with suppress(OSError, ValueError):
            facts = Path(path).stat()
            changed = facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size
    return _keys_of(frozenset(os.environ.items()), frozenset(_named), frozenset(_told.items()), path, changed)


@lru_cache(maxsize=4)
def _keys_of(
    environment: frozenset[tuple[str, str]],
    named: frozenset[str],
    told: frozenset[tuple[str, str]],
    key_file: str,
    _changed: tuple[int, ...],
) -> Keys:
    found: list[tuple[str, str]] = [(name, value) for value, name in told if len(value) >= SHORTEST_CHARS]
    for name, value in environment:
        found += ((name, secret) for secret in secrets_of(name, value, named=name in named))
    if key_file:
        with suppress(OSError, ValueError):
            text = Path(key_file).read_text(encoding="utf-8")
            found += ((KEY_FILE_VARIABLE, secret) for secret in _pieces(text))
    return Keys(sorted(found))


def secrets_of(name: str, value: str, *, named: bool = False) -> set[str]:
    """Return the secrets in a variable's value; `named`: a definition says that it holds a key."""
    value = value.strip()
    if len(value) < SHORTEST_CHARS:
        return set()
    found = _secrets_in_address(value, whole_path=named or "WEBHOOK" in name.upper())
    is_key = named or _NAME.search(name) is not None or begins_like_key(value)
    if is_key and not re.match(r"https?://", value) and not _is_ordinary(name, value):
        found |= {value} | _pieces(value) | _secrets_in_object(value)
    return {secret for secret in found if len(secret) >= SHORTEST_CHARS}


def _is_ordinary(name: str, value: str) -> bool:
    if value.lower() in _WORDS or (name.upper().endswith("TOKENS") and value.isdigit()):
        return True
    if not value.startswith(("/", "~", "./", "../")):
        return False
    with suppress(OSError, ValueError, RuntimeError):  # the last where nobody has the name after "~"
        return _PLACE.search(name) is not None or Path(value).expanduser().exists()
    return False


def _pieces(value: str) -> set[str]:
    """Return the keys in a list of several, with or without a name before each; and the body of a PEM file."""
    if _PEM_LINE.search(value):
        # The lines around it are the same in every file of the kind.
        return {body for part in _PEM_LINE.split(value) if len(body := part.strip()) >= _CUT_FROM_CHARS}
    parts = [part for part in _PIECES.split(value) if part]
    parts += [_INTRODUCED.sub("", part) for part in parts]
    parts += [unquote(part).rpartition(" ")[2] for part in parts]
    return {part for part in parts if len(part) >= _CUT_FROM_CHARS and part != value}


def _secrets_in_object(value: str) -> set[str]:
    """Return the values of fields named like keys in JSON, as in a service account's file, and the keys in a list."""
    if not value.startswith(("{", "[")):
        return set()
    try:
        waiting: list[tuple[str, object]] = [("", cast("object", json.loads(value)))]
    except (ValueError, RecursionError):
        return set()
    found: set[str] = set()
    while waiting:
        name, given = waiting.pop()
        if isinstance(given, dict):
            waiting += cast("dict[str, object]", given).items()
        elif isinstance(given, list):
            # In a list that stands under no name, all are what the variable is named for.
            waiting += ((name or "KEY", inner) for inner in cast("list[object]", given))
        elif isinstance(given, str) and _NAME.search(name):
            found |= secrets_of(name, given, named=True)
    return found


def _secrets_in_address(value: str, *, whole_path: bool) -> set[str]:
    """Return the password in an address, the keys in its query or fragment, and the path of a webhook.

    A name before the `@` is a key where there is no password and it looks like one, as in the address of a Sentry.
    """
    found: set[str] = set()
    for part in value.split() if "://" in value else ():
        try:
            address = urlsplit(part)
            password, host, user = address.password, address.hostname or "", address.username or ""
        except ValueError:
            continue
        if not password and (looks_like_key(unquote(user)) or begins_like_key(unquote(user))):
            found |= {user, unquote(user)}
        if password:
            found |= {password, unquote(password), f"{address.username}:{password}@"}
        for name, said in (*parse_qsl(address.query), *parse_qsl(address.fragment)):
            if whole_path or _NAME.search(name) or name.lower() in ("sig", "code", "sv") or looks_like_key(said):
                found.add(said)
        if (whole_path or _HOOK_HOSTS.search(host)) and len(address.path) >= SHORTEST_CHARS:
            found |= {address.path, f"{address.path}?{address.query}" if address.query else address.path}
            found |= {part for part in address.path.split("/") if len(part) >= _CUT_FROM_CHARS or _DIGIT.search(part)}
    return found


def _spellings(value: str) -> set[str]:
    """Return the value, and its forms in addresses, JSON, HTML, Python and headers; no gaps, in small letters."""
    if _PEM_LINE.search(value):
        return set()
    as_json = [json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)]
    quoted = [quote(value, safe=""), quote(value), quote_plus(value)]
    entities = html.escape(value)
    found = {value, repr(value)[1:-1], *as_json, *quoted, quote(quoted[0], safe=""), entities}
    found |= {json.dumps(one)[1:-1] for one in as_json} | {one.replace("/", r"\/") for one in as_json}
    found |= {entities.replace("&#x27;", "&#39;").replace("&quot;", "&#34;"), entities.replace("&#x27;", "'")}
    data = value.encode(errors="surrogateescape")
    found |= {data.hex(), *_base64(data)}
    found |= {one.translate({43: "-", 47: "_"}) for one in (value, *_base64(data))}
    return {spelling for one in found if len(spelling := _lowered(_GAP.sub("", one))) >= SHORTEST_CHARS}


def _base64(data: bytes) -> Iterator[str]:
    """Yield the value in base64 at each offset in an encoded text, without the characters that neighbours share."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + data).decode()
        yield encoded[(before * 8 + 5) // 6 : (before + len(data)) * 8 // 6]


class _Searched:
    """Text without its gaps, with escapes read where the pattern has them; knows each character's old position."""

    def __init__(self, text: str, pattern: re.Pattern[str]) -> None:
        self._begins, self._stood, self._widths, parts = list[int](), list[int](), list[int](), list[str]()
        done = length = 0
        for found in pattern.finditer(text):
            meant = _meant(found)
            wide = found.end() - found.start() if len(meant) == 1 else 1
            for part, stood, width in ((text[done : found.start()], done, 1), (meant, found.start(), wide)):
                if part:
                    self._begins.append(length)
                    self._stood.append(stood)
                    self._widths.append(width)
                    parts.append(part)
                    length += len(part)
            done = found.end()
        self._begins.append(length)
        self._stood.append(done)
        self._widths.append(1)
        self.text = "".join((*parts, text[done:])) if done else text

    def begin(self, at: int) -> int:
        """Return the position at which the character `at` began in the original text."""
        part = bisect_right(self._begins, at) - 1
        return self._stood[part] + at - self._begins[part]

    def end(self, at: int) -> int:
        """Return the position at which the character `at` ended in the original text."""
        return self.begin(at) + self._widths[bisect_right(self._begins, at) - 1]


def _meant(found: re.Match[str]) -> str:
    """Return the character that an escape stands for; an empty text for a gap."""
    said = found.groupdict()
    if entity := said.get("entity"):
        return html.unescape(f"&{entity if entity == 'Hat' else entity.lower()};")
    if sign := said.get("sign"):
        return sign
    for name, base in _BASES:
        if code := said.get(name):
            value = int(code, base)
            return chr(value) if 0x20 < value < 0x7F else found[0]
    return ""


def _lowered(text: str) -> str:
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(small if len(small := char.lower()) == 1 else char for char in text)


def _spans(text: str, spelling: str, name: str) -> Iterator[_Span]:
    length = len(spelling)
    least = length if length < _CUT_FROM_CHARS else max(_CUT_CHARS[0], min(length // 2, _CUT_CHARS[1]))
    head, at = spelling[:least], -1
    while (at := text.find(head, at + 1)) >= 0:
        end = at + least
        while end - at < length and text[end : end + 1] == spelling[end - at]:
            end += 1
        yield _Span(at, end, name)
    if least == length:
        return
    tail, at = spelling[-least:], -1
    while (at := text.find(tail, at + 1)) >= 0:
        end = at + least
        start = at
        while end - start < length and start > 0 and text[start - 1] == spelling[length - (end - start) - 1]:
            start -= 1
        yield _Span(start, end, name)


def _merged(spans: Iterable[_Span]) -> list[_Span]:
    merged: list[_Span] = []
    for span in sorted(spans, key=lambda one: (one.start, -one.end)):
        if merged and span.start < merged[-1].end:
            before = merged.pop()
            span = _Span(before.start, max(before.end, span.end), before.name)
        merged.append(span)
    return merged
