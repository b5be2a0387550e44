"""Calling templates from Python, outside of any run: `TemplateCall`.

Owns the same rules as `llm_worker_call`, held by the caller itself: which templates, which files, JSON or text. Each
call is a run like any other, as `run_worker` makes it.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from temporalio import activity

from llm_do_temporal.callers import loop_is_running
from llm_do_temporal.client.client import LlmDoClient
from llm_do_temporal.client.connection.connect import Connection
from llm_do_temporal.client.given_texts import read_given
from llm_do_temporal.client.run_worker import AnyPath, Parameter, run_template
from llm_do_temporal.client.start import load_local_worker
from llm_do_temporal.definitions.workshop.workshop import find_workshop
from llm_do_temporal.errors import UsageError
from llm_do_temporal.json_schema import normalised, schema_problems
from llm_do_temporal.messages.sizes import MAX_CONTEXT_CHARS
from llm_do_temporal.policy.approvals import Mode
from llm_do_temporal.policy.delegation import TemplateRules, choose_template, template_problems
from llm_do_temporal.policy.files.attachments import (
    DEFAULT_MAX_ATTACHMENTS,
    DEFAULT_MAX_TOTAL_BYTES,
    check_attachment_names,
    check_total,
)

_WHOSE = "this TemplateCall"
FileOrText = str | os.PathLike[str] | Mapping[str, str]


class TemplateCall:
    """Callable rules for templates of a workshop; each call waits for the template's result."""

    def __init__(
        self,
        allow_templates: Sequence[str] = ("**", "pkg:*"),
        lock_template: str | None = None,
        allowed_suffixes: Sequence[str] = (),
        max_attachments: int = DEFAULT_MAX_ATTACHMENTS,
        max_bytes: int = DEFAULT_MAX_TOTAL_BYTES,
        *,
        workshop: AnyPath | None = None,
        model: str | None = None,
        mode: Mode | str | None = None,
        connection: LlmDoClient | Connection | None = None,
    ) -> None:
        """The first five are the keys `allow`, `lock` and so on of a worker's `templates:`; by default every template
        of the workshop may be called. The others are those of `run_worker`. Raises UsageError for rules that cannot be.
        """
        try:
            self._rules = TemplateRules(
                allow=tuple(allow_templates),
                lock=lock_template,
                allowed_suffixes=tuple(allowed_suffixes),
                max_attachments=max_attachments,
                max_bytes=max_bytes,
            )
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            raise UsageError(f"'{'.'.join(map(str, problem['loc']))}' cannot be used: {problem['msg']}") from None
        for _path, problem in template_problems(self._rules):
            raise UsageError(problem)
        self._workshop, self._model, self._mode, self._connection = workshop, model, mode, connection

    def run(
        self,
        template: str = "",
        input: str = "",  # noqa: A002 - the name it has everywhere else
        attachments: Sequence[FileOrText] = (),
        fragments: Sequence[FileOrText] = (),
        params: Mapping[str, Parameter] | None = None,
        *,
        expect_json: bool = False,
    ) -> Any:
        """`run_async` for code that does not run in an event loop. Raises UsageError where it does."""
        if loop_is_running():
            raise UsageError(
                "TemplateCall.run would block the event loop that runs here",
                next_step="Write `await TemplateCall(…).run_async(…)`.",
            )
        return asyncio.run(self.run_async(template, input, attachments, fragments, params, expect_json=expect_json))

    async def run_async(
        self,
        template: str = "",
        input: str = "",  # noqa: A002 - the name it has everywhere else
        attachments: Sequence[FileOrText] = (),
        fragments: Sequence[FileOrText] = (),
        params: Mapping[str, Parameter] | None = None,
        *,
        expect_json: bool = False,
    ) -> Any:
        """Return the template's result: a text; with `expect_json` the object that its schema describes.

        `template` is a path below the workshop's folder, or `pkg:NAME`; with a lock it is not looked at. `attachments`
        are files of this machine, as paths or `{"path": …}`. `fragments` are added to the input: texts, and files as
        `{"path": …}` or paths of pathlib.

        Raises UsageError, DelegationRefusal and AttachmentRefusal before anything is started, and what `run_worker`
        raises.
        """
        if activity.in_activity():
            raise UsageError(
                "TemplateCall is for code outside of runs",
                next_step="Mark the tool with @tool_context, and call `ctx.call_tool('llm_worker_call', …)` there.",
            )
        name = choose_template(self._rules, template, caller=_WHOSE)
        files = [_path_of(one) for one in attachments]
        self._check_files(files)
        schema = await asyncio.to_thread(self._schema, name, params) if expect_json else None
        text = "\n\n".join(part for part in (input, await asyncio.to_thread(_fragments, fragments)) if part)
        done = await run_template(
            name,
            text,
            params=params or {},
            attachments=files,
            workshop=self._workshop,
            model=self._model,
            mode=self._mode,
            connection=self._connection,
        )
        if schema is None:
            return done.output if isinstance(done.output, str) else json.dumps(done.output, ensure_ascii=False)
        problems = schema_problems(schema, done.output)
        if problems:  # the template has another schema by now, or another workshop is served
            raise UsageError(f"the result of run '{done.run}' does not fit the schema of '{name}': {problems[0]}")
        return normalised(schema, done.output)

    def _check_files(self, files: Sequence[Path]) -> None:
        policy = self._rules.attachments
        check_attachment_names(policy, [file.name for file in files], whose=_WHOSE)
        check_total(policy, [file.stat().st_size for file in files if file.is_file()], whose=_WHOSE)

    def _schema(self, name: str, params: Mapping[str, Parameter] | None) -> dict[str, Any]:
        named = self._workshop or os.environ.get("LLM_DO_WORKSHOP") or None
        folder = find_workshop(Path(named or Path.cwd()), named=named is not None)
        schema = load_local_worker(folder, name, params).worker.output_schema
        if schema is None:
            raise UsageError(
                f"template '{name}' has no schema, so its result cannot be expected as JSON",
                next_step="Call it without expect_json.",
            )
        return schema


def _path_of(given: FileOrText) -> Path:
    if not isinstance(given, Mapping):
        return Path(given)
    if set(given) != {"path"}:
        raise UsageError('a file is given as its path or as {"path": …}')
    return Path(given["path"])


def _fragments(given: Sequence[FileOrText]) -> str:
    parts: list[str] = []
    for one in given:
        if isinstance(one, str):
            parts.append(f"Extra context:\n{one}")
            continue
        path = _path_of(one)
        text = read_given(path, f"the fragment '{path}'")
        parts.append(f"Extra context, the file {path.name}:\n{text}")
    text = "\n\n".join(parts)
    if len(text) > MAX_CONTEXT_CHARS:
        raise UsageError(f"the fragments have {len(text)} characters; at most {MAX_CONTEXT_CHARS} are taken together")
    return text
