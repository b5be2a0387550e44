"""What the sample decks say. Every company, person and figure in here is invented."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Chart:
    """A small chart: a title and one value for each label."""

    kind: Literal["bar", "line"]
    title: str
    labels: Sequence[str]
    values: Sequence[float]


@dataclass(frozen=True)
class Slide:
    """One page: a title, points under it, perhaps a chart beside them."""

    title: str
    points: Sequence[str]
    chart: Chart | None = None


@dataclass(frozen=True)
class DeckText:
    """A deck: its file's stem, the company, a line below the name, the slides, and the accent colour."""

    stem: str
    company: str
    tagline: str
    colour: str
    slides: Sequence[Slide]


FROSTLANE = DeckText(
    stem="frostlane",
    company="Frostlane",
    tagline="Cold chain monitoring for pharmacies and vaccine wholesalers. Seed round, spring 2025.",
    colour="#0B6E99",
    slides=(
        Slide(
            "The problem: medicines spoil where nobody looks",
            (
                "1 in 14 pharmacy fridges leaves the 2 to 8 degree range at least once a month.",
                "A pharmacy writes off €3,900 of spoiled medicines a year and spends 5 hours a week on paper logs.",
                "Source: our audit of 212 fridges in 61 pharmacies, with the University of Aarfeld, 2024.",
            ),
        ),
        Slide(
            "The solution: a sensor that needs no installation",
            (
                "A battery sensor clips into the fridge in 5 minutes and measures air and product temperature.",
                "The software predicts a failing compressor from door and motor patterns 9 days ahead.",
                "Live in 214 pharmacies; spoiled stock fell by 71% in the first six months.",
            ),
        ),
        Slide(
            "Why customers choose us",
            (
                "Competitors: LogTherm sells loggers, Vaultmed sells whole fridges at €6,000.",
                "We compete with paper first: 68% of pharmacies still write temperatures by hand.",
                "Patent granted for predicting failure from door cycles (EP filing 2023).",
            ),
        ),
        Slide(
            "Market: counted from the shelf up",
            (
                "148,000 pharmacies in the EU, 2.6 fridges each, which makes €208 million at €540 a year.",
                "Wholesalers and vaccination centres add €95 million.",
                "Spending on compliance grows 11% a year since the 2023 distribution rules (source: EU registry).",
            ),
            Chart(
                "bar",
                "Serviceable market, million EUR",
                ("2023", "2024", "2025", "2026", "2027"),
                (246, 273, 303, 336, 373),
            ),
        ),
        Slide(
            "Business model: hardware at cost, software by subscription",
            (
                "€45 per fridge per month, billed annually; the sensor is included.",
                "Gross margin 74%, up from 58% with the first sensor.",
                "One pharmacy brings €1,400 a year on average, over 2.6 fridges.",
            ),
        ),
        Slide(
            "Traction: 214 pharmacies pay for the service today",
            (
                "ARR grew from €96,000 to €301,000 in twelve months.",
                "Net revenue retention 118%; 3 of 217 customers have left.",
                "Two wholesalers have signed contracts for 640 fridges.",
            ),
            Chart("line", "ARR, thousand EUR", ("Q1", "Q2", "Q3", "Q4", "Q1"), (96, 141, 189, 247, 301)),
        ),
        Slide(
            "Team",
            (
                "Ingrid Solvang, CEO: ran compliance for a chain of 340 pharmacies for 9 years.",
                "Tomas Reuter, CTO: PhD in refrigeration control, formerly lead engineer at Kelvinor.",
                "Amara Osei, Sales: built the hospital business of Medilog from 0 to €4 million.",
            ),
        ),
        Slide(
            "Financials",
            (
                "2025: revenue €0.7 million, burn €95,000 a month.",
                "2026: revenue €1.9 million. 2027: €4.4 million, break-even in the third quarter.",
                "The plan assumes 30 new pharmacies a month; today we win 22.",
            ),
            Chart("bar", "Revenue plan, million EUR", ("2024", "2025", "2026", "2027"), (0.19, 0.7, 1.9, 4.4)),
        ),
        Slide(
            "The ask",
            (
                "We are raising €2.4 million in a seed round; €0.9 million is committed.",
                "Use of funds: 50% sales in Germany and Denmark, 35% engineering, 15% certification.",
                "That is 20 months of runway, to €1.5 million ARR and the second product.",
            ),
        ),
    ),
)

KELPWORKS = DeckText(
    stem="kelpworks",
    company="Kelpworks",
    tagline="Packaging film from seaweed for food makers.",
    colour="#2F7D4F",
    slides=(
        Slide(
            "Problem",
            (
                "Food makers wrap products in plastic film that cannot be recycled.",
                "One mid-sized bakery throws away 14 tonnes of film a year.",
                "Retailers push their suppliers to stop, and the suppliers have no alternative that seals.",
            ),
        ),
        Slide(
            "Our product",
            (
                "A clear film made from farmed kelp that seals on existing machines.",
                "It composts in 12 weeks and keeps bread fresh as long as plastic does.",
                "Two pilots with regional bakeries are running.",
            ),
        ),
        Slide(
            "Market",
            (
                "Flexible food packaging in Europe is a market of €31 billion.",
                "New packaging rules come into force from 2027 on.",
                "We start with bakeries, then cheese and fresh pasta.",
            ),
            Chart(
                "bar", "Market by segment, billion EUR", ("Bakery", "Dairy", "Pasta", "Other"), (4.2, 6.9, 2.3, 17.6)
            ),
        ),
        Slide(
            "Business model",
            (
                "We sell film by the kilogram, at €9.80 today and €6.50 at scale.",
                "Plastic film costs €3.10; our customers accept a premium for the label.",
                "Later we license the process to film makers.",
            ),
        ),
        Slide(
            "Traction",
            (
                "2 paid pilots, 11 companies on the waiting list.",
                "First revenue of €18,000 last year.",
                "Winner of the Harbour Innovation Prize.",
            ),
        ),
        Slide(
            "Team",
            (
                "Maren Dahl, founder and CEO, marine biologist.",
                "Jonas Pietsch, co-founder, process engineer.",
                "We are looking for a head of sales.",
            ),
        ),
        Slide(
            "Next steps",
            (
                "Bring our line from 2 to 40 kilograms an hour.",
                "We are raising €1.5 million to build the line and to hire.",
            ),
        ),
    ),
)

MENDLY = DeckText(
    stem="mendly",
    company="Mendly",
    tagline="Repairs for household appliances, booked in a minute.",
    colour="#B5532A",
    slides=(
        Slide(
            "Broken machines end up in the bin",
            (
                "People throw away 7 of 10 broken washing machines, though most could be repaired.",
                "Finding somebody takes 4 phone calls and 11 days, as we learnt in 85 interviews.",
            ),
        ),
        Slide(
            "How it works",
            (
                "Describe the fault in the app; it matches a local technician and names a fixed price.",
                "The platform is live in 3 cities; 83% of machines are repaired on the first visit.",
            ),
        ),
        Slide(
            "Pricing",
            (
                "We keep an 18% commission of each repair; the average repair is €124.",
                "Customers pay per order, technicians pay nothing.",
            ),
        ),
        Slide(
            "Traction",
            (
                "9,400 orders from 7,100 customers since launch.",
                "Revenue grew from €6,000 to €31,000 a month within a year.",
                "38% of customers come back within twelve months.",
            ),
            Chart(
                "line", "Orders a month", ("Jan", "Mar", "May", "Jul", "Sep", "Nov"), (260, 390, 610, 820, 1130, 1480)
            ),
        ),
        Slide(
            "Competition",
            (
                "We have no competitors: nobody else offers fixed prices for repairs.",
                "Manufacturers want to sell new machines, not to mend old ones.",
            ),
        ),
        Slide(
            "What is next",
            (
                "Five more cities this year.",
                "A guarantee of 24 months on every repair.",
                "Write to us at hello@mendly.example.",
            ),
        ),
    ),
)

VIBELOOP = DeckText(
    stem="vibeloop",
    company="VibeLoop",
    tagline="The future of everything social.",
    colour="#7A3EA8",
    slides=(
        Slide(
            "A revolutionary platform", ("We disrupt how everyone connects.", "World-class technology with unique AI.")
        ),
        Slide("A huge market", ("Everyone with a phone is our customer.", "Viral growth is built in.")),
        Slide("Join the ride", ("Be part of the next big thing.",)),
    ),
)

BRIGHTACRE = DeckText(
    stem="brightacre-scan",
    company="Brightacre",
    tagline="Soil sensors for vegetable growers.",
    colour="#333333",
    slides=(
        Slide(
            "Problem",
            (
                "Growers water by habit.",
                "A third of the water is wasted, and with it €310 a hectare.",
                "We measured 42 fields in 2024.",
            ),
        ),
        Slide("Solution", ("A probe that lasts six seasons.", "Tells the pump when to run.", "In use on 19 farms.")),
        Slide(
            "Traction",
            ("19 farms, 1,150 hectares.", "€64,000 revenue in the first season.", "17 of 19 farms renewed."),
            Chart("bar", "Hectares", ("2022", "2023", "2024"), (80, 430, 1150)),
        ),
        Slide(
            "Team",
            ("Elif Karaca, CEO, grew up on a tomato farm.", "Piet Vos, CTO, built irrigation controls for 12 years."),
        ),
        Slide("Ask", ("€800,000 for 18 months.", "60% for production, 40% for sales.")),
    ),
)

TYPESET = (FROSTLANE, KELPWORKS, MENDLY, VIBELOOP)
SCANNED = (BRIGHTACRE,)
