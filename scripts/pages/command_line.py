"""Writes docs/reference/command-line.md from the program itself, so that the page and `--help` cannot disagree.

Commands, arguments and flags come from the command line's own definition; common flags, exit codes and
output objects are fixed text here. Run it after a change of the command line; `check_docs` compares.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from cyclopts import App
from cyclopts.argument import Argument

from llm_do_temporal.cli.app import COMMANDS, app, usage_line
from llm_do_temporal.cli.options import Location
from scripts.pages.docstrings import first_paragraph

PAGE = Path("docs/reference/command-line.md")
_VALUES = {"Path": "PATH", "int": "N", "float": "SECONDS", "str": "TEXT", "Decimal": "USD"}
_SHARED = frozenset(Location.__dataclass_fields__)

_INTRODUCTION = """\
# Command line

<!-- Written by scripts/pages/command_line.py; change that, or the command line itself, and run it again. -->

stdout carries results and nothing else; everything for people goes to stderr. `--help` works everywhere.
Without a terminal, `start` and `watch` print the work of a run there when it changes, at most every 10 s; not with
`-o json` or `-o jsonl`.
A run is named by its id, which `start` prints and `list` shows.
"""

_SHARED_TEXT = """\
## Which workshop, which server

Every command but `import`, `init` and `completion` takes these.

{table}

The workshop is `--workshop`, else the variable `LLM_DO_WORKSHOP`, else the nearest folder with `workshop.yaml`,
upwards from where you are. `--workshop FILE` with a worker file is the place where that file runs by itself.

The server is found like the `temporal` CLI finds it: flag, then `TEMPORAL_ADDRESS` and the other `TEMPORAL_*`
variables, then a profile of `temporal.toml`. When none of these names an address, it is the workshop's own embedded
server, which is joined where it runs and started where it does not. `check`, `codec-server`, `models`, `import` and
`init` need no server, and `doctor` starts none.

| variable | meaning |
|---|---|
| `LLM_DO_WORKSHOP` | the workshop's folder |
| `LLM_DO_MODEL` | the last resort for a model; read where `start` runs, else where the worker service runs |
| `LLM_DO_ENCRYPTION_KEYS`, `LLM_DO_ENCRYPTION_KEY_FILE` | keys that all is encrypted with, or a file of such |
| `LLM_DO_ENCRYPTION` | `required`: without a key it is an error, and not plain text |
| `LLM_DO_BLOBS_URL` | where blobs are kept, like `s3://BUCKET/PREFIX`; comes before `blobs:` of `workshop.yaml` |
| `LLM_DO_UI_URL` | in the worker service: where people reach the web page, where the workshop has no `ui_url` |
| `LLM_DO_ISOLATION` | `required` in the worker service: no [command](shell.md) runs without isolation |
| `LLM_DO_NOTIFY` | `off` in the worker service: nobody is notified of what happens |
| `OTEL_EXPORTER_OTLP_ENDPOINT` | collector of OpenTelemetry [traces](../how-to/observe.md#traces); none by default |
| `LLM_DO_TOKEN` | for `mcp`: the [token](../how-to/http.md#who-may-do-what) of whoever it speaks for |
| `SLACK_BOT_TOKEN`, `SLACK_APP_TOKEN` | for `slack`: the [tokens](../how-to/slack.md#the-app) of the app |
| `SLACK_API_URL` | for `slack`: another address of Slack's Web API |
| `LLM_DO_TASK_QUEUE` | the task queue, `llm-do` by default; the same for commands and worker service |
| `XDG_CACHE_HOME` | where the servers of single worker files keep their state; `~/.cache` by default |
| `LLM_DO_UNDO_SECONDS` | seconds for an [undo](../concepts/approvals.md#undo); 10 by default, at most 60, 0 for none |
| `LLM_DO_DEBUG` | `1` prints the traceback of an error |
| `VISUAL`, `EDITOR` | the editor for changed arguments on the terminal; without either `editor` or `vi` |
| `PAGER` | shows a question that is longer than the terminal is high; without it, page by page |
"""

_NOTES = {
    "completion": """\
| shell | in its start file |
|---|---|
| bash | `source <(llm-do-temporal completion bash)` in `~/.bashrc` |
| zsh | `source <(llm-do-temporal completion zsh)` in `~/.zshrc`, after `compinit` |
| fish | `llm-do-temporal completion fish \\| source` in `~/.config/fish/config.fish` |""",
}
"""Further text of a command, by its name."""

_EXIT_CODES = """\
## Exit codes

| code | meaning |
|---|---|
| 0 | done; also: detached from a live screen with Ctrl-C, the run goes on, and left the inbox |
| 1 | the run failed |
| 2 | a command line, a value or a decision that cannot be used |
| 3 | the run waits for approval; stderr has the commands that answer. `approve`: the call is asked about again |
| 4 | no Temporal server answers |
| 5 | the run was cancelled or terminated |
| 6 | `--timeout` passed; the run goes on |
| 7 | a limit was reached, and nobody let the run go on: [which limits](#exit-code-7) |
| 8 | a worker or workshop file is missing or wrong |
| 9 | a batch has completed, and some of its items, or all, have failed |
| 130, 143 | Ctrl-C or SIGTERM without a live screen; a run that was being watched goes on |

On a terminal, `start` and `watch` show the run live, with the end of every answer that is being written, and ask in
place; `approvals watch` does that for all runs. Without one, or in the background, they never
ask: they leave with 3 as soon as somebody is needed. `result` waits through all of it.

### Exit code 7

The error is `BudgetExceeded`. Its message says which limit it was, and `next` which flag or key raises it. There are
two kinds:

- A [limit of yours](../concepts/limits.md) on turns, tool calls, tokens, cost, invocations or time: of the run
  (`limits` of `workshop.yaml`, or `--max-…` of `start`), or of the entry worker (`limits` of its file). Interactive
  runs ask first, and end so when the answer is no. With `--strict` and `--approve-all` nobody is asked, and a batch
  asks nobody about the limits of the run. A worker further down that reaches a limit of its own fails by itself, which
  its caller is told.
- The size of what can be sent at once: instructions with input, or what is new in a conversation since the turn before,
  beyond 16 MiB, and a path of workers of more than 255 characters. No flag raises these.

A batch that ended so keeps the results of the items that have completed; `start --retry-failed RUN` with a higher limit
does the others.
"""

_OUTPUT = """\
## Output

`-o text` prints the worker's text as it is, or its structured value as JSON. `-o json` prints one object, whatever
happened:

```json
{
  "type": "run.completed",
  "status": "completed",
  "is_error": false,
  "output": "You have 1 note.",
  "run": "notes-4be3a1f0",
  "usage": {"requests": 3, "tool_calls": 2, "input_tokens": 1967, "output_tokens": 66},
  "cost_usd": null,
  "unpriced_models": ["anthropic:claude-sonnet-5-5"],
  "duration_ms": 5064,
  "pending_approvals": [],
  "error": null
}
```

- `status` is `completed`, `failed`, `cancelled`, `waiting` (exit 3) or `running` (exit 6, or detached); `type` is
  `run.` and the status.
- `output` is the worker's text, or its structured value. `run` is null where no run was started.
- `truncated` is there where the answer that is the output was cut: `length` or `content_filter`. With `-o text`, stderr
  has a line about it.
- `usage` is that of the whole tree; `tool_calls` counts the calls that models asked for, whatever became of them.
- `cost_usd` is what the turns with a known price have cost, null where there was none; `unpriced_models` lists the
  models of the others.
- `pending_approvals` has the objects of `approvals --json`.
- `error` is null or `{"code", "message", "next"}`, where `code` is the name of the error's class, like
  `WorkerNotFound`, and `next` says what to do, or is null.

`-o jsonl` prints events while they happen, and as its last line the object of `-o json`. Every event has `v` (1),
`seq`, `ts` (UTC), `type` and `path` (the place in the tree, like `main/deck_reader-1`; empty for the run itself).
Events are numbered from 1, and have the same numbers and the same order on every reading: live, later, on any number of
terminals. `watch RUN -o jsonl --from-seq N` goes on where another reading ended. The order is that of the histories'
times; where several machines of a server cluster write histories, and their clocks differ, a live reader may see events
of different invocations in another order than a later one does.

| type | further fields |
|---|---|
| `run.started` | `run` |
| `invocation.started` | `worker`, `model`, `depth` |
| `tools.missing` | `reason`: a toolset or tool that the invocation does without, and why |
| `files.missing` | `reason`: a file that the model did not get as it is, and why |
| `signal.ignored` | `reason`: why a signal to the run, like a decision that is no valid one, changed nothing |
| `turn.started` | `turn` |
| `turn.completed` | `turn`, `model`, `text`, `tools`, `calls`, `input_tokens`, `output_tokens` |
| `call.reused` | of a fork: `tool`, and `reused`, where its result was taken from; `turn.completed` has `reused`, too |
| `call.anew` | of a fork: `reason` why a recorded call is carried out again |
| `call.failed` | `tool`, `call`, `reason`: what the model is told of a call that was refused, rejected or failed |
| `activity.started`, `activity.completed`, `activity.failed` | `what`; when started `activity`; when failed `error` |
| `activity.completed` of a review's commit | `note`, where it has not made all changes, or made them in git |
| `approval.requested` | `tool`, `args`, `summary`, `reason`, `digest`; `again`: the approval that it follows |
| `desk.changed` | `pending`: ids that can be answered now |
| `approval.voted` | `id`, `summary`, `votes`: names of those who have agreed so far, where several must |
| `approval.decided` | `id`, `summary`, `decision`, `by`, `note`, `door`, `waited_seconds`; `source`, `via` |
| `invocation.completed`, `.failed`, `.cancelled`, `.terminated`, `.timed_out` | `error` |
| `item.completed`, `item.failed`, `item.cancelled` | the fields of an item, see below |

`source` is the approval of another run, where a script answers as people did there, `via` the protocol of the door that
a decision came through. `approval.requested` has no id, which the run gives it a moment later: `desk.changed` lists the
ids, and `approvals --json` has `id` and `digest` together. Each of `calls` has `tool`, `args` and `call`,
its id within the conversation. `args` are for reading along: texts in them are cut at 200 characters, lists at 50
parts. `approvals --json` and `export` have all of them.

A run that `start --each` or `--each-line` began has items. `output` is null and the object has one key more, `items`:
a list of `{"item", "path", "status", "output", "error", "usage", "cost_usd", "unpriced_models"}`, in the order of the
files or lines, and `truncated` where its answer was cut.
`status` is `completed`, `failed`, `cancelled` or `not done`. `item_counts` counts them: `{"total",
"completed", "failed", "not_done"}`. When an item failed, the run itself has `completed`, and yet `is_error` is true,
`error` is `ItemsFailed`, which names the items, and the exit code is 9. `-o text` prints a line for each item as it
ends.

`approvals --json` is a list, oldest question first:

```json
[
  {
    "id": "a1",
    "run": "notes-4be3a1f0",
    "task": "Note that I need milk.",
    "worker": "notes",
    "path": "main",
    "tool": "write_file",
    "args": {"path": "/notes.md", "content": "- buy milk\\n"},
    "capabilities": [{"name": "sandbox.write", "payload": {"path": "/notes.md", "bytes": 11}}],
    "summary": "write_file /notes.md (11 bytes)",
    "asked_at": "2026-11-21T15:06:35.258032+00:00",
    "deadline": null
  }
]
```

`review --json` is a list of the reviews that wait (of those decided last, where none waits), each with `v` (1),
`type` (`review`), `run`, `id` and `digest` (for `--id` and `--digest`), `is_open`, `number` (of the review in its
invocation), `section`, `changes_digest`, `branch`, `counts`, `check` (`command`, `exit_code`, `output`, `problem`,
`passed`; or null), `answer` (what approving agrees to: the arguments of the question), `verdict`, and `changes`. A
change has `path`, `old_path` (of a renamed file), `kind` (`added`, `modified`, `mode`, `deleted`, `renamed`),
`conflict` (why it cannot simply be made, or null), `changed_since` (what others have changed since the review was
asked, where the workshop's folder is here, or null), `key` (another one as soon as the change is), `author`
(`invocation`, `turn`), `base` and `now` (`kind`, `mode`, `bytes`, `sha256`, `target`; null where nothing is),
`preview` (`text`, `image`, `pdf`, `binary`, `link`, `folder`: by the bytes, not by the name), `media_type`, `problem`
(why its lines are not here, as with files of more than 2 MiB), `is_divisible` (whether parts of it can be accepted)
and `hunks` of `{"id", "old_start", "new_start", "lines"}`: each line begins with ` `, `-` or `+`, and keeps its end;
`old_start` and `new_start` count the lines before it.

`list --json` is a list of `{"run", "task", "worker", "started_by", "status", "pending_approvals", "started_at",
"ended_at", "missing_key"}`; `task` is the first line of the prompt, or else the input in short, or null; the last is
null, or the id of the
[encryption key](../how-to/encrypt.md#a-key-that-is-missing-or-wrong) without which the rest cannot be read. A batch has
`item_counts`, too, of which only `total` is known while it is open. With `--cost` each run whose history can be read
has `cost_usd` and `unpriced_models`. A run that a schedule started has `schedule`. A fork has `fork_of`; with
`--evaluations` a run that an experiment started has `case`: `experiment`, `case` and `repeat`, and whether the run is
its judge (`is_judge`).

`rules suggest --json` is one object: `asked` (questions to people that today's rules would ask too), `left` (those that
the entries would leave), `wrong` (calls that a person refused or changed and that the entries would pass: 0, or it is a
mistake), `runs` (that were read), `locked` (ids of runs that cannot be read here), `cut` (whether there are more runs),
`diff`, and `entries`, each with `entry` (as it is written in `workshop.yaml`), `sentence`, `approved`, `runs`, `days`,
`people`, and `first` and `last` of `{"run", "day"}`.

`certify -o json` is one object: `events` (how many the recorded run, or experiment, has), `every`, `exact` (whether
results and files were compared), `failed`, and `rows` of `{"kill", "event", "path", "recorded", "struck_after",
"passed", "problems", "asked", "seconds"}`: `asked` counts what a person would have had to decide, `seconds` is the time
to go on, or null.

`show --json` is one object: `run`, `task` (the first line of the prompt, or else the input in short), `prompt`,
`input`, `output`,
`truncated` (where the answer that is the output was cut: `length` or `content_filter`), `files`
(`given`, and `written`: those that file tools and reviews have written, each with `path`, `bytes`, `by`, `created` and
`at`),
`worker`, `status`, `error`, `trouble` (why no worker service goes on with it, or null), `started_at`, `ended_at`,
`duration_ms`, `usage`, `invocations` (`path`, `worker`, `model`, `depth`, `status`, `doing`, `error`, `turns`, `usage`,
`started_at`, `ended_at`, `workflow`) and `approvals` (`id`, `path`, `summary`, `decision`, and who, when and how it was
decided, with `source` and `via` as above, and how long it waited; `decision` is null while it waits). A run that a
schedule started has `schedule`. A fork has `fork_of`, and each of its invocations
`reused`, a list of `what` and `origin`. A batch has
`item_counts` and `items`, all of them as in a result, also those whose files cannot be used, which have no
invocation; the invocation of an item has its name, `item`.

`doctor --json` is one object: `ok`, and `findings`, each with `what`, `status` (`ok`, `warning` or `error`), `message`
and `next`, what mends it or null. `models --json` is one object: `model`, `aliases` (`name`, `model`, `base_url`,
`api_key_env`) and, where a part of a name was given, `known`.

`show --cost` prints what each invocation has cost by itself and with all below it, and each model; models whose price
is not known are named and in no sum. In `show --json` these are `cost_usd` and `total.cost_usd` of an invocation.
Wherever a fork has `cost_usd`, `saved` beside it is what the turns that it has reused have spent in the other run.

`logs` prints one line an event: time (UTC), place in the tree, what happened, with the arguments of calls, the reasons
of questions and of failures, and how long a question waited; what a model says stands below, behind `|`. With
`--follow` it goes on until the run ends. `export --format json` is the object of `show --json` with `v`, `type`
(`run.export`), the whole approvals as in `approvals --json`, and in every invocation a `transcript`: a list of
`{"kind", "at", "turn", "event", "text", "name", "call", "value", "failed", "files", "details"}`, without what is empty.
`--format html` is one page with no script that loads nothing.

`fork --dry-run -o json` is one object: `fork_of`, `turns` (of the other run), `reused`, `new`, `input_tokens`,
`output_tokens` and `questions`, each with `low` and `high`, `cost_usd` (the same; null where a price is not known),
`workers` (paths of the invocations that surely run), `maybe`, `unfinished` and `warnings`.

`diff --json` is one object: `same` (whether nothing differs but times, tokens and cost), `first` and `second` (`run`,
`worker`, `status`, `output`, `error`, `questions`, `duration_ms`, `usage`, `cost_usd`, and `files_problem`, why not all
of its files are told, or null), `same_output`, `divergences` (the first difference of each pair of invocations, causes
before what may follow from them: `kind`, `path`, `other_path`, `turn`, `what`, `first`, `second`), `invocations` (each
pair, `same`, and `first` and `second` with `path`, `worker`, `turns`, `reused` and what it cost; null where a run has
none), `files` (those that were left in two states: `path`, `first`, `second`, `lines`, `problem`) and `same_files`.

`gc --json` is one object: `dry_run`, `workflows` (histories that were read), `removed` and `left`, each with
`blobs` and `bytes`, and `commits` (journals of commits that were removed).

`migrate-check --json` is one object: `workflows` (open ones that were replayed) and `troubles` of `{"workflow",
"diverges", "reason"}`; `diverges` is false where a history could not be replayed at all.
"""


def render() -> str:
    """Return the whole page."""
    names = [inner for name in app if name in COMMANDS for inner in (name, *_below(name))]
    sections = [_INTRODUCTION, _overview(names)]
    sections += [_command(name) for name in names]
    shared = [one for one in _arguments("list") if _is_shared(one)]
    sections += [_SHARED_TEXT.format(table=_table("flag", map(_flag_row, shared))), _EXIT_CODES, _OUTPUT]
    return "\n".join(sections)


def _below(name: str) -> list[str]:
    """Return the names of the commands below a command, like `approvals watch`."""
    return [f"{name} {inner}" for inner in app[name] if not inner.startswith("-")]


def _find(name: str) -> App:
    found = app
    for word in name.split():
        found = found[word]
    return found


def _overview(names: Iterable[str]) -> str:
    return _table("command", ((f"[`{name}`](#{name.replace(' ', '-')})", _summary(name)) for name in names)) + "\n"


def _command(name: str) -> str:
    arguments = [one for one in _arguments(name) if not _is_shared(one)]
    values = [one for one in arguments if one.is_positional_only()]
    flags = [one for one in arguments if not one.is_positional_only()]
    command = COMMANDS.get(name)
    usage = usage_line(command) if command is not None else _usage(name, values, flags)
    parts = [f"## {name}", _summary(name), f"```text\n{usage.removeprefix('Usage: ')}\n```"]
    if command is not None and command.examples:
        parts.append("```bash\n" + "\n".join(f"{app.name[0]} {one}" for one in command.examples) + "\n```")
    if values:
        parts.append(_table("argument", ((f"`{one.name}`", _meaning(one)) for one in values)))
    if flags:
        parts.append(_table("flag", map(_flag_row, flags)))
    if name in _NOTES:
        parts.append(_NOTES[name])
    return "\n\n".join(parts) + "\n"


def _arguments(name: str) -> list[Argument]:
    return [one for one in _find(name).assemble_argument_collection(parse_docstring=True) if one.show]


def _is_shared(argument: Argument) -> bool:
    return argument.keys[:1] != () and argument.keys[0] in _SHARED


def _summary(name: str) -> str:
    return first_paragraph(_find(name).help)


def _usage(name: str, values: Sequence[Argument], flags: Sequence[Argument]) -> str:
    words = [one.name if one.required else f"[{one.name}]" for one in values]
    words += [f"{one.name}{_value(one)}" for one in flags if one.required]
    optional = " [FLAGS]" if any(not one.required for one in flags) else ""
    return " ".join([app.name[0], name, *words]) + optional


def _flag_row(argument: Argument) -> tuple[str, str]:
    names = [name for name in argument.names if name not in argument.negatives or name == "--no-tls"]
    names = [name for name in names if not name.startswith("--empty-")]
    return f"`{', '.join(names)}{_value(argument)}`", _meaning(argument)


def _value(argument: Argument) -> str:
    kind = _inner(argument.hint)
    if kind is bool:
        return ""
    if get_origin(kind) is Literal:
        return f" {'|'.join(get_args(kind))}"
    return f" {_VALUES[kind.__name__]}"


def _inner(hint: Any) -> Any:
    """Return the type of a single value: `Path` for `Path | None` and for `tuple[Path, ...]`."""
    while get_origin(hint) is not None and get_origin(hint) is not Literal:
        hint = next(kind for kind in get_args(hint) if kind is not type(None))
    return hint


def _meaning(argument: Argument) -> str:
    text = argument.parameter.help or ""
    default = argument.field_info.default
    given = isinstance(default, int | float) and not isinstance(default, bool)
    needed = " Required." if argument.required and not argument.is_positional_only() else ""
    return text + needed + (f" {default} by default." if given else "")


def _table(what: str, rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join([f"| {what} | meaning |", "|---|---|", *_lines(rows)])


def _lines(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    for name, meaning in rows:
        yield f"| {_cell(name)} | {_cell(meaning)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    (Path(sys.argv[1] if len(sys.argv) > 1 else ".") / PAGE).write_text(render(), encoding="utf-8")
