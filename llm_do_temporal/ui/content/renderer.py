"""Pages from templates. All values are escaped, and hidden characters in the words of models are written out."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import groupby
from typing import Any, cast

from jinja2 import (
    BaseLoader,
    ChoiceLoader,
    Environment,
    FileSystemLoader,
    PackageLoader,
    PrefixLoader,
    StrictUndefined,
    pass_context,
)
from jinja2.runtime import Context
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from llm_do_temporal.client.decisions import seconds_until
from llm_do_temporal.client.question_document import (
    by_words,
    document_of,
    done_words,
    entry_title,
    group_title,
    question_title,
    source_words,
    tells_more,
)
from llm_do_temporal.extension import added, answers, installed
from llm_do_temporal.redaction import hidden_characters as names
from llm_do_temporal.redaction.hidden_characters import hidden_marks, written_out
from llm_do_temporal.ui.content.questions import answered
from llm_do_temporal.ui.content.urls import (
    approval_address,
    crumbs_of,
    grants_address,
    group_address,
    invocation_address,
    open_questions_address,
    run_address,
)

_LINE_ENDS = {"\n": "\\n", "\t": "\\t"}


def render(
    request: Request, template: str, *, status: int = 200, headers: dict[str, str] | None = None, **context: Any
) -> HTMLResponse:
    """Return a page. Templates see `request`, `user`, `nonce` and the values of `context`."""
    state = request.state
    text = _environment.get_template(template).render(request=request, user=state.user, nonce=state.nonce, **context)
    return HTMLResponse(text, status, headers)


def visible(value: object) -> Markup:
    """Return text of several lines; hidden characters in it are written out and marked."""
    return _marked(str(value).replace("\r\n", "\n"), keep="\n\t")


def visible_source(value: object) -> Markup:
    """Return lines of a file or of a change; carriage returns are written out, too: a change of line ends is seen."""
    return _marked(str(value), keep="\n\t")


def visible_line(value: object) -> Markup:
    """Return text on one line; hidden characters, line ends and tabs in it are written out and marked."""
    return _marked(str(value), keep="")


def shown_name(path: str) -> Markup:
    """Return a path as people are shown it; what is written out in it is marked."""
    return _with_marks(names.shown_name(path))


def shown_value(text: str) -> Markup:
    """Return a value on one line as people are shown it; what is written out in it is marked."""
    shown = names.shown_value(text)
    return escape(text) if shown == text else _with_marks(shown)


def pretty(value: object) -> str:
    """Return indented JSON, for people."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def ago(moment: datetime) -> str:
    """Return the rough time since `moment`."""
    return span(datetime.now(UTC) - _aware(moment))


def until(moment: datetime) -> str:
    """Return the rough time until `moment`; `now` once it has passed."""
    left = _aware(moment) - datetime.now(UTC)
    return "now" if left.total_seconds() <= 0 else span(left)


def when(moment: datetime) -> str:
    """Return date and time of `moment`, in UTC."""
    return f"{_aware(moment).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def to(begin: datetime, end: datetime) -> str:
    """Return the rough time between `begin` and `end`."""
    return span(_aware(end) - _aware(begin))


def money(amount: Decimal) -> str:
    """Return an amount of US dollars, below 1 with four places; `free` for nothing."""
    if not amount:
        return "free"
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"


def span(length: timedelta) -> str:
    """Return a length of time in its largest unit, like `5 min`."""
    seconds = max(0, int(length.total_seconds()))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _marked(text: str, keep: str) -> Markup:
    runs = [(hidden, "".join(char for char, _ in run)) for hidden, run in groupby(hidden_marks(text), _by_hidden(keep))]
    shown = [_hidden_chars(run) if hidden else str(escape(run)) for hidden, run in runs]
    return Markup("".join(shown))  # noqa: S704 - escaped; what is put in is made here


def _by_hidden(keep: str) -> Callable[[tuple[str, bool]], bool]:
    return lambda pair: pair[1] and pair[0] not in keep


def _hidden_chars(run: str) -> str:
    return "".join(f'<span class="hidden-char">{_LINE_ENDS.get(char) or written_out(char)}</span>' for char in run)


def _with_marks(shown: str) -> Markup:
    pieces = Markup("")
    end = 0
    for found in names.WRITTEN.finditer(shown):
        pieces += shown[end : found.start()]
        pieces += Markup('<span class="hidden-char">{}</span>').format(found[0])
        end = found.end()
    return pieces + shown[end:]


@pass_context
def _csrf_field(context: Context) -> Markup:
    token = context["request"].state.csrf
    return Markup('<input type="hidden" name="csrf" value="{}">').format(token)


def address_of(subject: str, *names: str) -> str | None:
    """Return the address of the page of an extension about what the names mean; None where no extension has one."""
    found = answers(lambda one: one.addresses().get(subject)).values()
    return next((address(*names) for address in found), None)


def _linked(name: str, subject: str) -> Markup:
    """Return a name as a link to the page of an extension about it; the name alone where no extension has one."""
    address, shown = address_of(subject, name), visible_line(name)
    return shown if address is None else Markup('<a href="{}">{}</a>').format(address, shown)


def _templates_of_extensions() -> dict[str, BaseLoader]:
    folders = {extension.name: extension.folder("templates") for extension in installed()}
    return {name: FileSystemLoader(folder) for name, folder in folders.items() if folder is not None}


def _make_environment() -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("llm_do_temporal.ui"), PrefixLoader(_templates_of_extensions())]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (visible, visible_line, shown_name, shown_value, pretty, ago, until, seconds_until, when, to, money, span)
    environment.filters.update(cast("dict[str, Any]", {function.__name__: function for function in filters}))
    for function in (
        address_of,
        answered,
        approval_address,
        by_words,
        crumbs_of,
        document_of,
        done_words,
        entry_title,
        grants_address,
        group_address,
        group_title,
        invocation_address,
        open_questions_address,
        question_title,
        run_address,
        source_words,
        tells_more,
    ):
        environment.globals[function.__name__] = cast("Any", function)
    environment.globals["csrf_field"] = cast("Any", _csrf_field)
    environment.globals["linked"] = cast("Any", _linked)
    environment.globals["navigation"] = cast("Any", added(lambda one: one.navigation()))
    return environment


_environment = _make_environment()
