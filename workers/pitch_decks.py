"""Plays of the workers that evaluate pitch decks: they read the PDFs and score them by rules on words and numbers.

A script really reads a deck, quotes it, and says so if it cannot. It does not understand a sentence, sees no picture,
and can be fooled by any deck that uses the right words. The rules are tables; they know no particular deck. The verdict
follows the rule of `PROCEDURE.md`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from llm_do_temporal.offline.plain import NOT_A_MODEL, greet
from llm_do_temporal.pdf.reader import Order, PdfFailure, pdf_text
from llm_do_temporal.testing import PlaySteps, SeenRequest, ToolResult, call, play

PDF = "application/pdf"
BY_RULES = "Scored by a script with rules on words and numbers, not by a language model."
FOOTER = "*Written by an offline script of llm-do-temporal that follows fixed rules. It is not a language model.*"


@play
def play_decks(seen: SeenRequest) -> Any:
    """Answer as any worker that evaluates pitch decks: the part follows from the tools and files of the request."""
    if wants_evaluation(seen):
        return evaluate(seen)
    return orchestrate(seen) if seen.tools else greet(seen)


# Decks, read from PDFs into pages of statements that can be quoted

MIN_WORDS = 3
"""Fewest words of a quote: shorter statements are headings and axis labels."""
_ORDER = Order("text", 200, characters=1_000_000, first_pages=True, pictures=True)
_BULLET = re.compile(r"^[\s•·▪–—*»>-]+(?=\S)")  # noqa: RUF001 - these dashes are bullets in real decks
_WORD = re.compile(r"[^\W\d_]{2,}")
_CONTINUES = re.compile(r"^[a-z(&]")
_UNFINISHED = re.compile(r"(?:[,;]|\b(?:and|or|of|the|a|an|in|with|for|to|by|from|at|on|than))$")


@dataclass(frozen=True)
class Statement:
    """One thought of a deck, letter by letter as on its page, without bullets and line ends; pages count from 1."""

    page: int
    text: str

    @property
    def words(self) -> int:
        """Number of words of letters."""
        return len(_WORD.findall(self.text))


@dataclass(frozen=True)
class Deck:
    """Deck that could be opened: the statements of each page, and how many pages have pictures."""

    pages: tuple[tuple[Statement, ...], ...]
    pictures: int

    @property
    def statements(self) -> list[Statement]:
        """Statements of all pages, in order."""
        return [statement for page in self.pages for statement in page]

    @property
    def words(self) -> int:
        """Length of the deck in words."""
        return sum(statement.words for statement in self.statements)

    @property
    def extent(self) -> str:
        """Number of pages in words, like `1 page`."""
        return "1 page" if len(self.pages) == 1 else f"{len(self.pages)} pages"


class UnreadableDeck(Exception):
    """Refusal of bytes that are no readable PDF; the message says why."""


def read_deck(data: bytes) -> Deck:
    """Return the deck in the bytes of a PDF, which another process parses. Raises UnreadableDeck."""
    try:
        found = pdf_text(data, _ORDER)
    except PdfFailure as failure:
        if failure.kind == "Refused":
            raise UnreadableDeck("it is locked with a password") from failure
        raise UnreadableDeck(f"it is damaged or no PDF ({failure.kind}: {failure})") from failure
    if not found.count:
        raise UnreadableDeck("it has no pages")
    pages = (
        tuple(Statement(number, one) for one in _joined(text.splitlines()) if _WORD.search(one))
        for number, text in enumerate(found.texts, 1)
    )
    return Deck(tuple(pages), sum(found.pictures))


def _joined(lines: list[str]) -> Iterator[str]:
    current = ""
    for line in lines:
        cleaned = " ".join(line.split())
        bare = _BULLET.sub("", cleaned)
        if current and bare == cleaned and (_CONTINUES.match(bare) or _UNFINISHED.search(current)):
            current = f"{current} {bare}"
            continue
        if current:
            yield current
        current = bare
    if current:
        yield current


# The rubric: each dimension has a topic, which matches the statements and pages about it, and four signals, which are
# the facts that a reader looks for there, by the name that a missing one has

_AMOUNT = (
    r"(?:[$€£]\s?\d[\d.,]*(?:\s?(?:k|m|bn|b|million|billion|thousand)\b)?"
    r"|\b(?:USD|EUR|GBP|CHF)\s?\d[\d.,]*(?:\s?(?:k|m|bn|million|billion)\b)?"
    r"|\b\d[\d.,]*\s?(?:k|m|bn|thousand|million|billion)?\s?(?:euros?|dollars?|pounds|francs|USD|EUR|GBP|CHF)\b)"
)
_BUYERS = (
    r"(?:customers?|clients?|users?|compan(?:y|ies)|firms?|teams?|owners?|operators?|managers?|manufacturers?|makers"
    r"|retailers?|shops?|stores?|restaurants?|hospitals?|clinics?|pharmac(?:y|ies)|patients?|doctors?|nurses?|farms?"
    r"|farmers?|growers?|schools?|teachers?|students?|developers?|engineers?|households?|people|parents|business(?:es)?"
    r"|drivers?|fleets?|plants?|factories|workers?|landlords?|tenants?|cities|utilities|sites?|warehouses?|hotels?"
    r"|banks?|insurers?|subscribers?|members?|sellers?|buyers?|labs?|buildings?)"
)
_ROLE = r"(?:CEO|CTO|COO|CFO|CPO|CSO|CMO|founder|co-founder|chief|head of|managing director)"
_PERSON_IN_ROLE = (  # with capitals, as names have them
    r"(?-i:\b[A-Z][\w'-]+(?: [A-Z][\w'.-]*)+\b.{0,40}?\b)(?:CEO|CTO|COO|CFO|CPO|CSO|CMO|founder|co-founder|chief"
    r"|head of|managing director|advisor|engineer|product|sales|operations)\b"
)
_ASK = (
    rf"\b(?:rais\w+|seek\w*|ask\w*|invest\w*|round|seed|series [a-d]|need)\b.*{_AMOUNT}"
    rf"|{_AMOUNT}.*\b(?:round|seed|series [a-d]|invest\w*)\b"
)
HYPE = re.compile(
    r"\b(?:revolution\w*|game.?chang\w*|disrupt\w*|world.?class|best.in.class|next.generation|cutting.edge|unique"
    r"|huge|massive|enormous|explosive|viral|unlimited|leading|uber of|everyone|nobody else|paradigm)\b",
    re.IGNORECASE,
)
NO_COMPETITION = re.compile(
    r"\b(?:no|without|zero|not? (?:have )?any)\s+(?:\w+\s+){0,2}(?:competit\w+|rivals?)\b"
    r"|\bnobody (?:else )?(?:does|offers|can)\b",
    re.IGNORECASE,
)
_RUBRIC: dict[str, tuple[str, dict[str, str]]] = {
    "problem": (
        r"\bproblem|\bbroken\b|\bthrow\w* away|\bpain\b|\bstruggl|\bmanual(?:ly)?\b"
        r"|\bwast(?:e|ed|ing)\b|\blos(?:e|es|ing|t|s)\b|\bspoil|\bfail",
        {
            "who has the problem": rf"\b{_BUYERS}\b",
            "a figure": r"\d",
            "its cost in money or time": rf"{_AMOUNT}|\b\d[\d.,]*\s?(?:%|percent|hours?|days?|minutes?|weeks?)",
            "a source or own research": r"\binterview|\bsurvey|\bstudy|\bstudies|\bsource\b|according to|\bmeasured\b"
            r"|\bwe (?:asked|visited|spoke)|\baudit|\breport",
        },
    ),
    "solution": (
        r"\bsolution|\bproduct\b|\bhow it works|\bplatform\b|\bour (?:app|software|device|sensors?|tool|technology)",
        {
            "how it works": r"\b(?:works by|uses?|using|combines?|connects? to|made (?:from|of)|measures?|reads|scans?"
            r"|plugs?|clips?|predicts?|matches)\b|\bin \d+ (?:minutes|hours|days)\b",
            "use today": r"\b(?:live|in production|pilots?|deployed|launched|installed|shipping|in use|running in)\b",
            "a measured effect": r"\b\d[\d.,]*\s?(?:%|percent|x\b|times|hours|minutes|days|weeks)|\bfrom \d.* to \d",
            "what is different": r"\b(?:unlike|patent\w*|alternatives?|versus|vs\.?|proprietary|differ\w*"
            r"|instead of)\b",
        },
    ),
    "market": (
        r"\bmarket\b|\bTAM\b|\bSAM\b|\bSOM\b|\baddressable|\bcompetit|\bsegment\b",
        {
            "a size in money": _AMOUNT,
            "a count from below": rf"\b\d[\d., ]*(?:k|m|thousand|million)?\s+(?:\w+\s+){{0,2}}{_BUYERS}\b|bottom.up"
            r"|\bserviceable\b",
            "its growth": r"(?:\bgr[oe]w\w*|\bCAGR\b|\brising\b).*\d|\d.*(?:\bgr[oe]w\w*|\bCAGR\b|per year)",
            "a source or named competitors": r"\bsource\b|according to|\bcensus\b|\bregist(?:er|ry)\b|\bcompetitors?:"
            r"|\bcompete[sd]? with\b|\bincumbents?\b",
        },
    ),
    "business_model": (
        r"\bbusiness model|\bpric(?:e|es|ing)\b|\brevenue model|\bsubscription|\bmargin|\blicen[cs]e|\bcommission"
        r"|\bfees?\b|\bunit economics|\bper (?:month|seat|site|year|user)\b|\bCAC\b|\bLTV\b|\bmoneti[sz]",
        {
            "a price": rf"{_AMOUNT}|\d+\s?% (?:commission|fee|of)",
            "who pays and how often": r"\bper (?:\w+ )?(?:per )?(?:month|year|seat|site|order|user)|\bannual|\bmonthly"
            r"|\brecurring",
            "its margin": r"\bmargins?\b.*\d|\d.*\bmargins?\b",
            "the cost of winning a customer": r"\bCAC\b|\bLTV\b|\bpayback|\bacquisition cost|\bcost to (?:win|acquire)",
        },
    ),
    "traction": (
        r"\btraction\b|\bARR\b|\bMRR\b|\bpaying\b|\bretention\b|\bchurn\b|\bwait(?:ing )?list|\bpilots?\b"
        r"|\bsigned\b|\brevenue (?:grew|of|was|is)|\brenew",
        {
            "a number of customers": rf"\b\d[\d.,]*\s+(?:\w+\s+){{0,2}}{_BUYERS}\b",
            "revenue": rf"(?:\bARR\b|\bMRR\b|\brevenue|\bsales\b|\bbookings).*?{_AMOUNT}"
            rf"|{_AMOUNT}.*?(?:\bARR\b|\bMRR\b|\brevenue)",
            "growth over time": r"(?:\bgr[eo]w\w*|\bup\b|\bdoubled|\btripled|month on month|year on year).*\d"
            r"|\bfrom .*\d.* to .*\d",
            "retention or contracts": r"\bretention|\bchurn|\brenew\w*|\bcontracts?\b|\bNPS\b|\bletters? of intent",
        },
    ),
    "team": (
        rf"\bteam\b|\b{_ROLE}\b|\badvis[oe]r",
        {
            "named people in their roles": _PERSON_IN_ROLE,
            "a commercial lead": r"\bCEO\b|\bCOO\b|\bCCO\b|\bsales\b|\bcommercial\b|managing director",
            "a technical lead": r"\bCTO\b|\bengineer|\bscientist|\bPhD\b|\btechnical\b|\bdeveloper",
            "earlier experience": r"\b\d+ years\b|\bformer|\bpreviously|\bex-"
            r"|\b(?:led|built|sold|ran|scaled|founded)\b",
        },
    ),
    "financials_and_ask": (
        r"\bask\b|\brais(?:e|es|ing)\b|\bseed\b|\bseries [a-d]\b|\brunway\b|\buse of funds|\bfinancials?\b"
        r"|\bprojection|\bforecast|\bburn\b|\bbreak.?even|\binvestment\b|\bvaluation",
        {
            "the amount asked for": _ASK,
            "what the money is for": r"\b\d+\s?% (?:on|for|to|goes|sales|product|engineering)|\buse of funds.*\w"
            r"|\b(?:to|for) (?:build|hire|grow|launch|expand|open|sales|engineering|product\w*|marketing)\b",
            "how long it lasts": r"\brunway\b.*\d|\d+ months\b|\bmilestones?\b",
            "figures of the years to come": rf"\b20\d\d\b.*{_AMOUNT}|{_AMOUNT}.*\b20\d\d\b"
            r"|\bbreak.?even.*\d|\bburn.*\d",
        },
    ),
}


@dataclass(frozen=True)
class Dimension:
    """Dimension of the rubric."""

    name: str
    topic: re.Pattern[str]
    signals: Mapping[str, re.Pattern[str]]


DIMENSIONS = tuple(
    Dimension(
        name,
        re.compile(topic, re.IGNORECASE),
        {label: re.compile(pattern, re.IGNORECASE) for label, pattern in signals.items()},
    )
    for name, (topic, signals) in _RUBRIC.items()
)


# Scores: a point for every dimension, and one more for every signal in the statements about it

MAX_RED_FLAGS = 3
MAX_QUOTE_CHARS = 240
GO_AVERAGE, WATCH_AVERAGE = 3.8, 2.5
THIN_PAGES, THIN_WORDS = 5, 150
"""Fewest pages and words of a full deck; with fewer it cannot answer seven questions."""
Score = dict[str, Any]


def _score(deck: Deck, dimension: Dimension) -> Score:
    relevant = _relevant(deck, dimension)
    if not relevant:
        return _row(dimension.name, 1, f"The deck says nothing about it ({deck.extent} read).")
    missing = [
        label for label, pattern in dimension.signals.items() if not any(pattern.search(one.text) for one in relevant)
    ]
    note = f" (not found: {', '.join(missing)})" if missing else ""
    points = min(5, 1 + len(dimension.signals) - len(missing))
    return _row(dimension.name, points, _quote(_strongest(deck, relevant, dimension)) + note)


def _row(dimension: str, score: int, evidence: str) -> Score:
    return {"dimension": dimension, "score": score, "evidence": evidence}


def _relevant(deck: Deck, dimension: Dimension) -> list[Statement]:
    found: list[Statement] = []
    for page in deck.pages:
        about = bool(page) and page[0].page > 1 and dimension.topic.search(page[0].text)
        found.extend(statement for statement in page if about or dimension.topic.search(statement.text))
    return found


def _strongest(deck: Deck, relevant: Sequence[Statement], dimension: Dimension) -> Statement:
    def strength(statement: Statement) -> tuple[bool, int, bool, bool]:
        signals = sum(bool(pattern.search(statement.text)) for pattern in dimension.signals.values())
        own_page = bool(dimension.topic.search(deck.pages[statement.page - 1][0].text))
        return statement.words >= MIN_WORDS, signals, own_page, bool(dimension.topic.search(statement.text))

    return max(relevant, key=strength)


def _quote(statement: Statement) -> str:
    """Return the page and the words of a statement, cut at a word if they are long."""
    text = statement.text
    if len(text) > MAX_QUOTE_CHARS:
        text = text[: MAX_QUOTE_CHARS + 1].rsplit(" ", 1)[0]
    return f'page {statement.page}: "{text}"'


def _red_flags(deck: Deck, scores: Sequence[Score]) -> Iterator[str]:
    points = {row["dimension"]: row["score"] for row in scores}
    if len(deck.pages) < THIN_PAGES or deck.words < THIN_WORDS:
        # First, for it is why most of the others are raised.
        yield f"Very thin: {deck.words} {'word' if deck.words == 1 else 'words'} on {deck.extent}."
    alone = next((one for one in deck.statements if NO_COMPETITION.search(one.text)), None)
    if alone:
        yield f"Claims to have no competition ({_quote(alone)})."
    if points["team"] <= 2:
        yield "No team: nobody is named with what they have done before."
    if points["financials_and_ask"] <= 2:
        yield "No clear ask: no amount together with what it is for."
    traction = next(one for one in DIMENSIONS if one.name == "traction")
    numbers = [one for one in _relevant(deck, traction) if re.search(r"\d", one.text)]
    if not any(pattern.search(one.text) for one in numbers for pattern in list(traction.signals.values())[:3]):
        yield "No traction in numbers: neither customers, nor revenue, nor growth."
    boasts = [one for one in deck.statements if HYPE.search(one.text) and not re.search(r"\d", one.text)]
    if len(boasts) > 1:
        yield f"Big words without numbers, {len(boasts)} times ({_quote(boasts[0])})."
    unreadable = sum(not page for page in deck.pages)
    if unreadable:
        yield f"{unreadable} of {deck.extent} {'has' if unreadable == 1 else 'have'} no readable text."


def _verdict(scores: Sequence[Mapping[str, Any]], flags: int) -> str:
    mean = sum(float(row.get("score") or 0) for row in scores) / max(1, len(scores))
    if mean < WATCH_AVERAGE or flags >= MAX_RED_FLAGS:
        return "pass"
    return "go" if mean >= GO_AVERAGE and not flags else "watch"


# pitch_evaluator


def wants_evaluation(seen: SeenRequest) -> bool:
    """Whether the request asks for an evaluation: by its schema, or by an attached PDF without any tools."""
    schema = seen.output_schema
    if schema is not None:
        return "verdict" in schema.get("properties", {})
    return not seen.tools and any(item.media_type == PDF for item in seen.attachments)


def evaluate(seen: SeenRequest) -> Mapping[str, Any] | str:
    """Return the evaluation of the attached deck, in the shape the request asks for."""
    attached = next((item for item in seen.attachments if item.media_type == PDF), None)
    name = attached.identifier if attached else "no deck"
    if attached is None:
        found = _unread("Nothing was evaluated: no PDF was attached.", "nothing read: no PDF was attached")
        found["red_flags"] = ["Not read: no PDF was attached."]
    else:
        try:
            found = _evaluation(read_deck(attached.data))
        except UnreadableDeck as error:
            words = f"Nothing was evaluated: '{name}' cannot be opened, {error}."
            found = _unread(words, f"nothing read: the file cannot be opened, {error}")
            found["red_flags"] = [f"The file cannot be opened: {error}."]
    found = {**found, "summary": f"{found['summary']} {BY_RULES}", "average": average_score(found)}
    if seen.output_schema is None:
        return evaluation_page(name, found)
    return {"text": "not assessed by this script", **found}


def _evaluation(deck: Deck) -> dict[str, Any]:
    if not deck.words:
        return _of_images(deck)
    scores = [_score(deck, dimension) for dimension in DIMENSIONS]
    flags = list(_red_flags(deck, scores))[:MAX_RED_FLAGS]
    best, worst = max(scores, key=lambda row: row["score"]), min(scores, key=lambda row: row["score"])
    summary = (
        f"{deck.statements[0].text}: {deck.extent}, average {average_score({'scores': scores})} of 5. "
        f"Strongest on {best['dimension'].replace('_', ' ')} ({best['score']}), "
        f"weakest on {worst['dimension'].replace('_', ' ')} ({worst['score']})."
    )
    return {"summary": summary, "scores": scores, "verdict": _verdict(scores, len(flags)), "red_flags": flags}


def _of_images(deck: Deck) -> dict[str, Any]:
    alone = len(deck.pages) == 1
    evidence = f"no readable text on {'its only page' if alone else f'any of {deck.extent}'}"
    found = _unread(f"Nothing was evaluated: {evidence}. This script cannot see pictures.", evidence)
    which = "its only page is a picture" if alone else f"{deck.pictures} of {deck.extent} are pictures"
    images = f"Images only: {which} without text; needs a model with eyes."
    return {**found, "red_flags": [images if deck.pictures else f"Empty: {evidence}."]}


def _unread(summary: str, evidence: str) -> dict[str, Any]:
    """Return the evaluation of an unread deck: lowest scores, and `watch`, as no fact speaks against it either."""
    scores = [_row(dimension.name, 1, evidence) for dimension in DIMENSIONS]
    return {"summary": summary, "scores": scores, "verdict": "watch", "red_flags": []}


def average_score(evaluation: Mapping[str, Any]) -> float | None:
    """Return the mean of the scores to one decimal; None without scores."""
    values = [row["score"] for row in _score_rows(evaluation) if isinstance(row.get("score"), int | float)]
    return round(sum(values) / len(values), 1) if values else None


def _score_rows(evaluation: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    rows = evaluation.get("scores")
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


def evaluation_page(deck: str, evaluation: Mapping[str, Any] | str) -> str:
    """Return the page for `deck`. A plain text is shown as it is, an evaluation of unknown shape as JSON."""
    if isinstance(evaluation, str):
        body = [evaluation.strip()]
    elif not (rows := _score_rows(evaluation)):
        body = ["```json\n" + json.dumps(evaluation, indent=2, ensure_ascii=False) + "\n```"]
    else:
        flags = evaluation.get("red_flags")
        bullets = [f"- {_line(flag)}" for flag in flags] if isinstance(flags, list) else []
        table = ["| Dimension | Score |", "|---|---|", *(f"| {_title(row)} | {row.get('score', '')} |" for row in rows)]
        body = [
            f"- Deck: `{deck}`\n- Verdict: **{evaluation.get('verdict', 'none given')}**\n"
            f"- Average: {average_score(evaluation)} of 5",
            str(evaluation.get("summary", "")),
            "## Scores",
            "\n".join(table),
            "## Evidence",
            *(f"**{_title(row)}**\n\n> {_line(row.get('evidence', ''))}" for row in rows),
            "## Red flags",
            "\n".join(bullets) or "None found.",
        ]
    return "\n\n".join([f"# Evaluation of {PurePosixPath(deck).name}", *body, "---", FOOTER]) + "\n"


def _title(row: Mapping[str, Any]) -> str:
    return str(row.get("dimension", "?")).replace("_", " ").replace("|", "/").capitalize()


def _line(text: object) -> str:
    return " ".join(str(text).split())


# evaluation_judge


def judge_evaluation(seen: SeenRequest) -> Mapping[str, Any]:
    """Judge the evaluation in the input, by rules on words and numbers."""
    output = seen.input.get("output")
    evaluation: Mapping[str, Any] = output if isinstance(output, Mapping) else {}
    scores = _score_rows(evaluation)
    loose = [str(row.get("dimension")) for row in scores if not _has_evidence(row)]
    verdict, due = evaluation.get("verdict"), _verdict(scores, len(evaluation.get("red_flags") or ()))
    reasons = [f"no evidence for {', '.join(loose)}"] if loose else []
    reasons += [f"the verdict is '{verdict}', and '{due}' follows"] if verdict != due else []
    return {
        "grounded": bool(scores) and not loose,
        "verdict_follows": verdict == due,
        "reason": "; ".join(reasons) or "nothing is wrong with it",
    }


def _has_evidence(row: Mapping[str, Any]) -> bool:
    said = str(row.get("evidence") or "")
    return bool(re.search(r'page \d+: "', said)) or ("says nothing" in said and row.get("score") == 1)


# pitch_orchestrator, pitch_orchestrator_listed, pitch_orchestrator_coded

TASK = "Evaluate the attached pitch deck against your rubric. Quote the deck, with page numbers."
MAX_FAILURE_CHARS = 300
_PDF_NAME = re.compile(r"[\w./-]*[\w-]\.pdf\b", re.IGNORECASE)
_ALL = re.compile(r"\b(?:every|all|each)\b", re.IGNORECASE)
_FOLDER = re.compile(r"(?<![\w./])/[\w-]+(?:/[\w-]+)*(?![\w./-]*\.\w)")
_OTHER_FILE = re.compile(r"(?<![\w.])/[\w./-]+\.md\b")


def orchestrate(seen: SeenRequest) -> PlaySteps:
    """List the decks, have each one evaluated, write the evaluations, and sum up."""
    listed = yield from _listed(seen)
    if isinstance(listed, str):
        return f"{listed}\n\n{NOT_A_MODEL}"
    decks, unknown = choose_decks(list(listed), seen.prompt)
    if not decks:
        return f"No deck is called {', '.join(unknown)}. There are {', '.join(listed)}.\n\n{NOT_A_MODEL}"
    delegate = next((tool for tool in seen.tools.values() if "attachments" in _properties(tool)), None)
    if delegate is None:
        return f"There are {len(decks)} decks, but no tool to have them evaluated with.\n\n{NOT_A_MODEL}"
    given = {"worker_name": "pitch_evaluator", "input": TASK, "input_data": TASK}
    calls = [call(delegate.name, **given, attachments=[deck]) for deck in decks]
    results = yield [f"Evaluating {_count(len(decks), 'deck')}.", *calls]
    found = dict(zip(decks, results, strict=True))
    paths = {**evaluation_paths(decks), **{deck: path for deck, path in listed.items() if path}}
    pages = {
        deck: {"path": paths[deck], "content": evaluation_page(deck, evaluation_in(result))}
        for deck, result in found.items()
        if result.ok and "write_file" in seen.tools
    }
    attempts = yield from _written(pages)
    return "\n".join([*_summary(found, attempts, unknown), "", NOT_A_MODEL])


def _listed(seen: SeenRequest) -> PlaySteps:
    """Return the decks, each with the path of its evaluation where that is known; or a sentence if there are none.

    The tool that knows the decks is asked; without it, folders are listed until one holds decks: those that the prompt
    names, then the usual one, then the root.
    """
    if "list_decks" in seen.tools:
        (listing,) = yield ["Asking for the decks.", call("list_decks")]
        problem = [] if listing.ok else [listing.text]
        return {row["deck"]: row["evaluation"] for row in _rows(listing)} or " ".join(["There are no decks.", *problem])
    tried, failures = [], []
    for folder in dict.fromkeys([*_FOLDER.findall(seen.prompt), "/pipeline", "/"]):
        (listing,) = yield [f"Looking for decks in {folder}.", call("list_files", path=folder, pattern="**/*.pdf")]
        decks = [path for path in listing.files if path.lower().endswith(".pdf")]
        if decks:
            return dict.fromkeys(decks, "")
        tried.append(folder)
        failures += [] if listing.ok else [f" {folder}: {listing.text}"]
    return f"There are no decks: no PDF in {' or '.join(tried)}.{''.join(failures)}"


def _written(pages: Mapping[str, dict[str, str]]) -> PlaySteps:
    """Write the pages, all in one turn; again where a rejection names another file. Return the attempts by deck."""
    attempts: dict[str, list[ToolResult]] = {deck: [] for deck in pages}
    due, words, tried = dict(pages), f"Writing {_count(len(pages), 'evaluation')}.", set[str]()
    while due:
        results = yield [words, *(call("write_file", **page) for page in due.values())]
        tried |= {page["path"] for page in due.values()}
        for deck, result in zip(due, results, strict=True):
            attempts[deck].append(result)
        due, words = {}, "Writing where the notes say."
        for deck, writes in attempts.items():
            named = [path for path in _OTHER_FILE.findall(writes[-1].rejection or "") if path not in tried]
            if named and named[0] not in {page["path"] for page in due.values()}:
                due[deck] = {**pages[deck], "path": named[0]}
    return attempts


def choose_decks(decks: Sequence[str], prompt: str) -> tuple[list[str], list[str]]:
    """Return the decks that the prompt names, by path, file name or stem, and the names that no deck has.

    If it names none, all decks are meant.
    """
    mentioned = list(dict.fromkeys(_PDF_NAME.findall(prompt)))
    if mentioned:
        chosen = [deck for deck in decks if any(_is_called(deck, name) for name in mentioned)]
        return chosen, [name for name in mentioned if not any(_is_called(deck, name) for deck in decks)]
    by_stem = [deck for deck in decks if f" {_plain(PurePosixPath(deck).stem)} " in f" {_plain(prompt)} "]
    return (by_stem if by_stem and not _ALL.search(prompt) else list(decks)), []


def _is_called(deck: str, name: str) -> bool:
    full, wanted = deck.casefold().lstrip("/"), name.casefold().lstrip("/")
    return full == wanted or full.endswith("/" + wanted)


def _plain(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", text.casefold()))


def evaluation_paths(decks: Sequence[str], folder: str = "/evaluations") -> dict[str, str]:
    """Return the path of each deck's evaluation: `<folder>/<stem>.md`; equal stems get the parent folders in front."""
    paths: dict[str, str] = {}
    taken: set[str] = set()
    stems = Counter(PurePosixPath(deck).stem.casefold() for deck in decks)
    for deck in decks:
        path = PurePosixPath(deck)
        alone = stems[path.stem.casefold()] == 1
        wanted = path.stem if alone else "-".join(path.with_suffix("").parts).lstrip("/-")
        name, number = wanted, 2
        while name.casefold() in taken:
            name, number = f"{wanted}-{number}", number + 1
        taken.add(name.casefold())
        paths[deck] = f"{folder}/{name}.md"
    return paths


def evaluation_in(result: ToolResult) -> Mapping[str, Any] | str:
    """Return the structured evaluation in a delegation's result, unwrapped if the tool wraps it; else its text."""
    data = result.data
    if isinstance(data, Mapping) and "scores" not in data and "output" in data:
        data = data["output"]
    return data if isinstance(data, Mapping) else str(result.text if data is None else data)


def _summary(
    found: Mapping[str, ToolResult], attempts: Mapping[str, list[ToolResult]], unknown: Sequence[str]
) -> Iterator[str]:
    done = {deck: evaluation_in(result) for deck, result in found.items() if result.ok}
    # A person may have changed the path, so it is the one that the tool reports.
    written = {
        deck: str(_fields(write.data).get("path") or write.args.get("path"))
        for deck, writes in attempts.items()
        for write in writes
        if write.ok
    }
    yield f"Evaluated {len(done)} of {len(found)} decks, wrote {len(written)} files."
    if done:
        yield from ("", "| Deck | Verdict | Average | File | First red flag |", "|---|---|---|---|---|")
    for deck, evaluation in done.items():
        facts = _fields(evaluation)
        average, flags = average_score(facts), facts.get("red_flags")
        flag = str(flags[0]).replace("|", "/") if isinstance(flags, list) and flags else "none"
        cells = (deck, facts.get("verdict", "see file"), "-" if average is None else average)
        yield f"| {' | '.join(map(str, (*cells, written.get(deck, 'not written'), flag)))} |"
    troubles = [
        f'{write.args.get("path")} was not written: "{write.rejection}"'
        if write.rejection
        else f"{write.args.get('path')} could not be written: {_short(write.text)}"
        for writes in attempts.values()
        for write in writes
        if not write.ok
    ]
    failed = {deck: result.rejection or result.text for deck, result in found.items() if not result.ok}
    troubles += [f"Not evaluated: {deck}: {_short(problem)}" for deck, problem in failed.items()]
    troubles += [f"No deck is called {name}." for name in unknown]
    yield from ("", *(f"- {trouble}" for trouble in troubles)) if troubles else ()


def evaluate_by_code(seen: SeenRequest) -> PlaySteps:
    """Find out which decks the request means, have them evaluated in one call, and report the results."""
    (listing,) = yield ["Looking which decks there are.", call("list_decks")]
    decks = [row["deck"] for row in _rows(listing)]
    if not decks:
        return f"There is no deck to evaluate. {'' if listing.ok else listing.text}".strip()
    chosen, unknown = choose_decks(decks, seen.prompt)
    everything = chosen == decks and not unknown
    names = [] if everything else [*(PurePosixPath(deck).stem for deck in chosen), *unknown]
    (done,) = yield ["Having them evaluated.", call("evaluate_decks", names=names)]
    if not done.ok:
        return f"Nothing was evaluated: {done.text}"
    table = ["| Deck | Verdict | Average | File |", "|---|---|---|---|"]
    for row in done.data or []:
        cells = (row.get("deck"), row.get("verdict", "-"), row.get("average", "-"), row.get("file", "not written"))
        table.append(f"| {' | '.join(map(str, cells))} |")
    problems = [f"- {row.get('deck')}: {row['problem']}" for row in done.data or [] if "problem" in row]
    return "\n\n".join(filter(None, ["\n".join(table), "\n".join(problems), done.note]))


def _rows(result: ToolResult) -> list[dict[str, Any]]:
    """Return the rows of a table that a tool returned; none if it failed."""
    return result.data if result.ok and isinstance(result.data, list) else []


def _fields(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _properties(tool: Any) -> Mapping[str, Any]:
    return tool.parameters_json_schema.get("properties", {})


def _count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"


def _short(text: str) -> str:
    line = _line(text)
    return line if len(line) <= MAX_FAILURE_CHARS else line[:MAX_FAILURE_CHARS].rstrip() + " [cut]"
