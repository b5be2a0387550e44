"""The shapes of structured results in this workshop."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

Dimension = Literal["problem", "solution", "market", "business_model", "traction", "team", "financials_and_ask"]


class DimensionScore(BaseModel):
    """One dimension of the rubric."""

    dimension: Dimension
    score: int = Field(ge=1, le=5, description="1 is absent or only asserted, 5 is shown with numbers and sources.")
    evidence: str = Field(
        min_length=1, description='A quotation with its page, like page 4: "...", or that the deck says nothing.'
    )


class PitchEvaluation(BaseModel):
    """The evaluation of one pitch deck."""

    summary: str = Field(min_length=1, description="Two to four sentences for a reader with one minute.")
    scores: list[DimensionScore] = Field(
        min_length=7, max_length=7, description="Every dimension once, in the order of the rubric."
    )
    verdict: Literal["go", "watch", "pass"]
    red_flags: list[Annotated[str, Field(min_length=1)]] = Field(
        default_factory=list, max_length=3, description="The most serious first; empty if there are none."
    )
