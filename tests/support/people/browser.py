"""A browser without JavaScript: gets pages, fills in the forms that are there, sends them, follows redirects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urljoin

import httpx2
from starlette.applications import Starlette


@dataclass
class Form:
    """A form of a page, with what stands in it."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict[str, str])
    pairs: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Fields in their order, those of one name each by itself."""
    buttons: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


@dataclass
class Page:
    address: str
    status: int
    html: str
    forms: list[Form]
    text: str
    """What can be read on it."""

    def form(self, **fields: str) -> Form:
        """The one form with these fields, filled in like this."""
        (found,) = [form for form in self.forms if all(form.fields.get(name) == text for name, text in fields.items())]
        return found


class Browser:
    """One person's browser at an application."""

    def __init__(self, app: Starlette, base: str) -> None:
        transport = httpx2.ASGITransport(app=app)
        # Addresses are typed, as far as the page can tell.
        typed = {"sec-fetch-site": "none"}
        self.client = httpx2.AsyncClient(transport=transport, base_url=base, follow_redirects=True, headers=typed)
        self._origin = {"origin": base}

    async def open(self, address: str) -> Page:
        return _page(await self.client.get(address))

    async def send(self, page: Page, form: Form, *, without: str = "", **fields: str) -> Page:
        """Fill in a form, leave out the field `without`, and send it. Names are as in the form, with `_` for `.`."""
        dotted = {name.replace("__", "."): value for name, value in fields.items()}
        data = {name: value for name, value in {**form.fields, **dotted}.items() if name != without}
        address = urljoin(page.address, form.action)
        return _page(await self.client.post(address, data=data, headers=self._origin))

    async def send_pairs(self, page: Page, form: Form, pairs: Iterable[tuple[str, str]]) -> Page:
        """Send these fields, of which several may have one name, as those of a form."""
        data: dict[str, list[str]] = {}
        for name, value in pairs:
            data.setdefault(name, []).append(value)
        return _page(await self.client.post(urljoin(page.address, form.action), data=data, headers=self._origin))


def _page(answer: httpx2.Response) -> Page:
    reader = _Reader()
    reader.feed(answer.text)
    # A form of a dialog only closes it.
    forms = [form for form in reader.forms if form.method != "dialog"]
    return Page(str(answer.url), answer.status_code, answer.text, forms, " ".join(" ".join(reader.words).split()))


class _Reader(HTMLParser):
    """Finds forms, with their fields as a browser would send them untouched, and text."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.words: list[str] = []
        self._area: str | None = None
        self._select: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(Form(given.get("action", ""), given.get("method", "get")))
        elif self.forms and "name" in given:
            self._field(tag, given)
        elif self.forms and tag == "option" and self._select is not None:
            fields = self.forms[-1].fields
            if "selected" in given or self._select not in fields:
                fields[self._select] = given["value"]

    def _field(self, tag: str, given: dict[str, str]) -> None:
        form, name = self.forms[-1], given["name"]
        if tag == "button":
            form.buttons.append((name, given.get("value", "")))
        elif tag == "textarea":
            self._area, form.fields[name] = name, ""
        elif tag == "select":
            self._select = name
        elif tag == "input" and (given.get("type") not in ("checkbox", "radio") or "checked" in given):
            form.fields[name] = given.get("value", "on" if given.get("type") == "checkbox" else "")
            form.pairs.append((name, form.fields[name]))

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._area is not None:
            # A browser drops the line end that follows the tag.
            fields = self.forms[-1].fields
            fields[self._area] = fields[self._area].removeprefix("\n")
            self.forms[-1].pairs.append((self._area, fields[self._area]))
            self._area = None
        elif tag == "select":
            self._select = None

    def handle_data(self, data: str) -> None:
        if self._area is not None:
            self.forms[-1].fields[self._area] += data
        else:
            self.words.append(data)
