from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from infer_metrics_prometheus.dashboard import dashboard_json

METRIC = re.compile(r"\b(?:infer|process)_\w+")


@pytest.fixture
def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(dashboard_json())
    return loaded


def expressions(dashboard: dict[str, Any]) -> list[str]:
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]


@pytest.fixture
async def sample_names(client: httpx.AsyncClient, counter: Any) -> set[str]:
    counter.infer_response_sent(method="GET", route="/ready", status=200, duration_s=0.1)
    families = text_string_to_metric_families((await client.get("/metrics")).text)
    return {sample.name for family in families for sample in family.samples}


def test_every_expression_names_metrics_that_are_served(dashboard: dict[str, Any], sample_names: set[str]) -> None:
    for expression in expressions(dashboard):
        named = set(METRIC.findall(expression))
        assert named, expression
        assert named <= sample_names, expression


def test_every_metric_of_ours_has_a_panel(dashboard: dict[str, Any], sample_names: set[str]) -> None:
    def family(name: str) -> str:
        return re.sub(r"_(bucket|sum|count)$", "", name)

    shown = {family(name) for expression in expressions(dashboard) for name in METRIC.findall(expression)}
    ours = {family(name) for name in sample_names if name.startswith("infer_") and not name.endswith("_created")}
    assert ours - shown == set()


def test_labels_in_expressions_exist(dashboard: dict[str, Any]) -> None:
    known = {"le", "instance", "outcome", "state", "method", "route", "status"}
    for expression in expressions(dashboard):
        grouped = {word for by in re.findall(r"by \(([^)]*)\)", expression) for word in re.findall(r"\w+", by)}
        matched = set(re.findall(r"(\w+)\s*=~?\s*\"", expression))
        assert grouped | matched <= known, expression


def test_the_data_source_is_chosen_when_it_is_imported(dashboard: dict[str, Any]) -> None:
    assert dashboard["templating"]["list"][0]["type"] == "datasource"
    sources = {panel["datasource"]["uid"] for panel in dashboard["panels"] if panel["type"] != "row"}
    assert sources == {"${datasource}"}


def test_panels_have_ids_of_their_own_and_do_not_overlap(dashboard: dict[str, Any]) -> None:
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_the_module_prints_it(dashboard: dict[str, Any]) -> None:
    command = [sys.executable, "-m", "infer_metrics_prometheus.dashboard"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == dashboard
