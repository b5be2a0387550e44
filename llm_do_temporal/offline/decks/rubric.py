"""The rubric of the offline evaluator as rules on words and numbers.

A literal table. `topic` matches the statements and pages that concern a dimension; each of the four `signals`
is a fact that a reader looks for there. The rules know no particular deck.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Signal:
    """Fact to look for, with the name it has if it is missing."""

    label: str
    pattern: re.Pattern[str]


@dataclass(frozen=True)
class RubricLine:
    """Dimension of the rubric: its name, its topic, and four signals."""

    name: str
    topic: re.Pattern[str]
    signals: tuple[Signal, ...]


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def _signal(label: str, pattern: str) -> Signal:
    return Signal(label=label, pattern=_words(pattern))


HYPE = _words(
    r"\b(?:revolution\w*|game.?chang\w*|disrupt\w*|world.?class|best.in.class|next.generation|cutting.edge|unique"
    r"|huge|massive|enormous|explosive|viral|unlimited|leading|uber of|everyone|nobody else|paradigm)\b"
)
NO_COMPETITION = _words(
    r"\b(?:no|without|zero|not? (?:have )?any)\s+(?:\w+\s+){0,2}(?:competit\w+|rivals?)\b"
    r"|\bnobody (?:else )?(?:does|offers|can)\b"
)
ASK = _words(
    rf"\b(?:rais\w+|seek\w*|ask\w*|invest\w*|round|seed|series [a-d]|need)\b.*{_AMOUNT}"
    rf"|{_AMOUNT}.*\b(?:round|seed|series [a-d]|invest\w*)\b"
)
PERSON_IN_ROLE = re.compile(
    r"\b[A-Z][\w'-]+(?: [A-Z][\w'.-]*)+\b.{0,40}?\b(?i:CEO|CTO|COO|CFO|CPO|CSO|CMO|founder|co-founder|chief|head of"
    r"|managing director|advisor|engineer|product|sales|operations)\b"
)

DIMENSIONS = (
    RubricLine(
        "problem",
        _words(
            r"\bproblem|\bbroken\b|\bthrow\w* away|\bpain\b|\bstruggl|\bmanual(?:ly)?\b"
            r"|\bwast(?:e|ed|ing)\b|\blos(?:e|es|ing|t|s)\b|\bspoil|\bfail"
        ),
        (
            _signal("who has the problem", rf"\b{_BUYERS}\b"),
            _signal("a figure", r"\d"),
            _signal(
                "its cost in money or time", rf"{_AMOUNT}|\b\d[\d.,]*\s?(?:%|percent|hours?|days?|minutes?|weeks?)"
            ),
            _signal(
                "a source or own research",
                r"\binterview|\bsurvey|\bstudy|\bstudies|\bsource\b|according to|\bmeasured\b"
                r"|\bwe (?:asked|visited|spoke)|\baudit|\breport",
            ),
        ),
    ),
    RubricLine(
        "solution",
        _words(
            r"\bsolution|\bproduct\b|\bhow it works|\bplatform\b|\bour (?:app|software|device|sensors?|tool|technology)"
        ),
        (
            _signal(
                "how it works",
                r"\b(?:works by|uses?|using|combines?|connects? to|made (?:from|of)|measures?|reads|scans?|plugs?"
                r"|clips?|predicts?|matches)\b|\bin \d+ (?:minutes|hours|days)\b",
            ),
            _signal(
                "use today",
                r"\b(?:live|in production|pilots?|deployed|launched|installed|shipping|in use|running in)\b",
            ),
            _signal(
                "a measured effect",
                r"\b\d[\d.,]*\s?(?:%|percent|x\b|times|hours|minutes|days|weeks)|\bfrom \d.* to \d",
            ),
            _signal(
                "what is different",
                r"\b(?:unlike|patent\w*|alternatives?|versus|vs\.?|proprietary|differ\w*|instead of)\b",
            ),
        ),
    ),
    RubricLine(
        "market",
        _words(r"\bmarket\b|\bTAM\b|\bSAM\b|\bSOM\b|\baddressable|\bcompetit|\bsegment\b"),
        (
            _signal("a size in money", _AMOUNT),
            _signal(
                "a count from below",
                rf"\b\d[\d., ]*(?:k|m|thousand|million)?\s+(?:\w+\s+){{0,2}}{_BUYERS}\b|bottom.up|\bserviceable\b",
            ),
            _signal("its growth", r"(?:\bgr[oe]w\w*|\bCAGR\b|\brising\b).*\d|\d.*(?:\bgr[oe]w\w*|\bCAGR\b|per year)"),
            _signal(
                "a source or named competitors",
                r"\bsource\b|according to|\bcensus\b|\bregist(?:er|ry)\b|\bcompetitors?:"
                r"|\bcompete[sd]? with\b|\bincumbents?\b",
            ),
        ),
    ),
    RubricLine(
        "business_model",
        _words(
            r"\bbusiness model|\bpric(?:e|es|ing)\b|\brevenue model|\bsubscription|\bmargin|\blicen[cs]e|\bcommission"
            r"|\bfees?\b|\bunit economics|\bper (?:month|seat|site|year|user)\b|\bCAC\b|\bLTV\b|\bmoneti[sz]"
        ),
        (
            _signal("a price", rf"{_AMOUNT}|\d+\s?% (?:commission|fee|of)"),
            _signal(
                "who pays and how often",
                r"\bper (?:\w+ )?(?:per )?(?:month|year|seat|site|order|user)|\bannual|\bmonthly|\brecurring",
            ),
            _signal("its margin", r"\bmargins?\b.*\d|\d.*\bmargins?\b"),
            _signal(
                "the cost of winning a customer",
                r"\bCAC\b|\bLTV\b|\bpayback|\bacquisition cost|\bcost to (?:win|acquire)",
            ),
        ),
    ),
    RubricLine(
        "traction",
        _words(
            r"\btraction\b|\bARR\b|\bMRR\b|\bpaying\b|\bretention\b|\bchurn\b|\bwait(?:ing )?list|\bpilots?\b"
            r"|\bsigned\b|\brevenue (?:grew|of|was|is)|\brenew"
        ),
        (
            _signal("a number of customers", rf"\b\d[\d.,]*\s+(?:\w+\s+){{0,2}}{_BUYERS}\b"),
            _signal(
                "revenue",
                rf"(?:\bARR\b|\bMRR\b|\brevenue|\bsales\b|\bbookings).*?{_AMOUNT}|{_AMOUNT}.*?(?:\bARR\b|\bMRR\b|\brevenue)",
            ),
            _signal(
                "growth over time",
                r"(?:\bgr[eo]w\w*|\bup\b|\bdoubled|\btripled|month on month|year on year).*\d|\bfrom .*\d.* to .*\d",
            ),
            _signal(
                "retention or contracts", r"\bretention|\bchurn|\brenew\w*|\bcontracts?\b|\bNPS\b|\bletters? of intent"
            ),
        ),
    ),
    RubricLine(
        "team",
        _words(rf"\bteam\b|\b{_ROLE}\b|\badvis[oe]r"),
        (
            Signal("named people in their roles", PERSON_IN_ROLE),
            _signal("a commercial lead", r"\bCEO\b|\bCOO\b|\bCCO\b|\bsales\b|\bcommercial\b|managing director"),
            _signal("a technical lead", r"\bCTO\b|\bengineer|\bscientist|\bPhD\b|\btechnical\b|\bdeveloper"),
            _signal(
                "earlier experience",
                r"\b\d+ years\b|\bformer|\bpreviously|\bex-|\b(?:led|built|sold|ran|scaled|founded)\b",
            ),
        ),
    ),
    RubricLine(
        "financials_and_ask",
        _words(
            r"\bask\b|\brais(?:e|es|ing)\b|\bseed\b|\bseries [a-d]\b|\brunway\b|\buse of funds|\bfinancials?\b"
            r"|\bprojection|\bforecast|\bburn\b|\bbreak.?even|\binvestment\b|\bvaluation"
        ),
        (
            Signal("the amount asked for", ASK),
            _signal(
                "what the money is for",
                r"\b\d+\s?% (?:on|for|to|goes|sales|product|engineering)|\buse of funds.*\w"
                r"|\b(?:to|for) (?:build|hire|grow|launch|expand|open|sales|engineering|product\w*|marketing)\b",
            ),
            _signal("how long it lasts", r"\brunway\b.*\d|\d+ months\b|\bmilestones?\b"),
            _signal(
                "figures of the years to come",
                rf"\b20\d\d\b.*{_AMOUNT}|{_AMOUNT}.*\b20\d\d\b|\bbreak.?even.*\d|\bburn.*\d",
            ),
        ),
    ),
)
