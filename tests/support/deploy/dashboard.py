"""Queries of the Grafana dashboard and of the Prometheus alerts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from tests.support.deploy.programs import ROOT

DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana/dashboard.json").read_text())
ALERTS: dict[str, Any] = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text())


def panels() -> list[dict[str, Any]]:
    return [one for one in DASHBOARD["panels"] if one["type"] != "row"]


def queries() -> Iterator[tuple[str, str]]:
    """Yield the place and the text of every query."""
    for panel in panels():
        yield from ((f"panel {panel['title']}", one["expr"]) for one in panel["targets"])
    for variable in DASHBOARD["templating"]["list"]:
        (labelled,) = re.findall(r"label_values\((.+), \w+\)", variable["query"]["query"])
        yield f"variable {variable['name']}", labelled
    for rule in (rule for group in ALERTS["groups"] for rule in group["rules"]):
        yield f"alert {rule['alert']}", rule["expr"]
