"""The dashboard, the alerts and what Prometheus asks: all of it is about something that is there."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.support.deploy.dashboard import ALERTS, DASHBOARD, panels, queries
from tests.support.deploy.metrics import METRICS, used_metrics
from tests.support.deploy.programs import ROOT, final_stage, image_variables, read_dockerfile

PROMETHEUS: dict[str, Any] = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
PROVISIONED = ROOT / "deploy/grafana/provisioning"


@pytest.mark.parametrize(("query"), [query for _, query in queries()], ids=[place for place, _ in queries()])
def test_a_query_is_about_metrics_that_there_are(query: str) -> None:
    used = used_metrics(query.replace("$namespace", ".*"))
    assert used
    assert used <= METRICS


@pytest.mark.parametrize(
    ("query", "used"),
    [
        ("histogram_quantile(0.5, sum by (le) (rate(a_bucket{x='y'}[5m]))) > 1", {"a_bucket"}),
        ("sum(a) / (b + on (x) c) or vector(0)", {"a", "b", "c"}),
        ("max_over_time(rate(a[1m])[5m:1m])", {"a"}),
        ("topk(3, -a)", {"a"}),
    ],
)
def test_all_metrics_of_a_query_are_found(query: str, used: set[str]) -> None:
    assert used_metrics(query) == used


def test_what_is_no_query_is_found() -> None:
    with pytest.raises(ValueError, match="invalid promql"):
        used_metrics("sum by worker rate(a[5m])")


def test_our_own_metrics_are_all_shown() -> None:
    shown = {name for _, query in queries() for name in used_metrics(query.replace("$namespace", ".*"))}
    ours = {re.sub(r"_(bucket|sum|count)$", "", name) for name in METRICS if name.startswith("llm_do_")}
    assert ours == {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown if name.startswith("llm_do_")}


def test_the_panels_lie_side_by_side() -> None:
    cells = [
        (x, y)
        for place in (one["gridPos"] for one in DASHBOARD["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({one["id"] for one in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_every_alert_says_what_is_the_matter() -> None:
    for rule in (rule for group in ALERTS["groups"] for rule in group["rules"]):
        assert rule["labels"]["severity"] in ("page", "warn")
        assert rule["annotations"]["summary"].strip()


def test_prometheus_asks_where_somebody_answers() -> None:
    jobs = {one["job_name"]: one for one in PROMETHEUS["scrape_configs"]}
    (found,) = jobs["llm-do-worker"]["dns_sd_configs"]
    image = image_variables(final_stage(read_dockerfile((ROOT / "worker_service/Dockerfile").read_text())))
    assert found["names"] == [name for name, one in COMPOSE["services"].items() if one.get("command") == ["worker"]]
    assert str(found["port"]) == image["LLM_DO_METRICS_PORT"]
    endpoint = COMPOSE["services"]["temporal"]["environment"]["PROMETHEUS_ENDPOINT"]
    assert jobs["temporal"]["static_configs"] == [{"targets": [endpoint.replace("0.0.0.0", "temporal")]}]
    assert all((ROOT / "deploy/prometheus" / name).is_file() for name in PROMETHEUS["rule_files"])
    named = {job for _, query in queries() for job in re.findall(r'job="([^"]+)"', query)}
    assert named <= jobs.keys()


def test_grafana_finds_the_dashboard_and_its_source() -> None:
    (source,) = yaml.safe_load((PROVISIONED / "datasources/prometheus.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert {one["datasource"]["uid"] for one in panels()} == {source["uid"]}
    (provider,) = yaml.safe_load((PROVISIONED / "dashboards/llm-do.yaml").read_text())["providers"]
    grafana = COMPOSE["services"]["grafana"]
    shown = f"{provider['options']['path']}/llm-do.json"
    assert f"./deploy/grafana/dashboard.json:{shown}:ro" in grafana["volumes"]
    assert grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == shown
