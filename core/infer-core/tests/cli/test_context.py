from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from infer.cli.context import Context
from infer.config.sections import InferConfig
from infer.model.source import Local
from infer.observe.logs import set_up_logging
from infer.plugins.discovery import PluginIndex, PluginRecord
from infer.plugins.installed import Installed, InstalledEntry
from infer_api.errors import ModelError, PluginError


class Router:
    """What a web framework's router does, as far as core may know."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.inside: list[Router] = []

    def include_router(self, router: Router) -> None:
        self.inside.append(router)


class Routes:
    def __init__(self, options: Any) -> None:
        self.options = options

    def router(self, services: Any) -> Router:
        return Router()


@pytest.fixture
def routes_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PluginIndex:
    """Routes of ours and of a third party, with a catalog that tells them apart."""
    module = ModuleType("acme_routes")
    module.Routes = Routes  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "acme_routes", module)
    catalog = tmp_path / "some_catalog"
    catalog.mkdir()
    (catalog / "__init__.py").touch()
    (catalog / "catalog.json").write_text(
        '{"format": 1, "plugins": [{"distribution": "ours", "kind": "routes", "name": "a", "summary": ""}]}'
    )
    entry = InstalledEntry("infer", "1", "infer.catalog", "infer", "some_catalog")
    data = {"implementation": "acme_routes:Routes", "options": None, "options_class": None}
    records = [
        PluginRecord("routes", "a", "ours", "1", "ours", data, "compatible"),
        PluginRecord("routes", "b", "theirs", "1", "theirs", data, "compatible"),
        PluginRecord("routes", "c", "ours", "1", "ours", {}, "failed", "it needs a moon"),
    ]
    return PluginIndex(records, Installed({}, (entry,), (str(tmp_path),)))


def test_third_party_routes_are_mounted_only_when_listed(
    routes_index: PluginIndex, caplog: pytest.LogCaptureFixture
) -> None:
    names = [name for name, _ in Context(InferConfig(), routes_index).routes(None)]  # type: ignore[arg-type]
    assert names == ["a"]
    assert "third-party routes must be listed: --plugins.listed theirs" in caplog.text
    assert "it needs a moon" in caplog.text


def test_listed_third_party_routes_lie_under_a_prefix_of_their_own(routes_index: PluginIndex) -> None:
    config = InferConfig().replace(plugins={"listed": ("theirs",)})
    routers = dict(Context(config, routes_index).routes(None))  # type: ignore[arg-type]
    assert routers["a"].prefix == ""
    assert routers["b"].prefix == "/x/theirs"
    assert len(routers["b"].inside) == 1


def test_without_a_catalog_nobody_is_a_third_party(routes_index: PluginIndex) -> None:
    """Whoever installs core and a few plugins by hand gets their routes."""
    index = PluginIndex(routes_index.records(), Installed({}, ()))
    routers = dict(Context(InferConfig(), index).routes(None))  # type: ignore[arg-type]
    assert {name: router.prefix for name, router in routers.items()} == {"a": "", "b": ""}


def test_something_that_is_no_router_is_named(routes_index: PluginIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Routes, "router", lambda self, services: object())
    config = InferConfig().replace(plugins={"listed": ("theirs",)})
    with pytest.raises(PluginError, match="theirs/b did not give a router"):
        Context(config, routes_index).routes(None)  # type: ignore[arg-type]


def test_what_is_said_goes_to_standard_error(index: PluginIndex, capsys: pytest.CaptureFixture[str]) -> None:
    Context(InferConfig(), index).say("ready")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "ready\n")


def test_services_open_on_a_model_that_was_fetched_before(
    index: PluginIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []

    @asynccontextmanager
    async def open_services(config: Any, index: Any, *, inline: bool | None, progress: Any):
        progress("weights", 1, 2)
        events.append(f"open inline={inline}")
        yield "services"
        events.append("close")

    assemble = ModuleType("infer.service.assemble")
    assemble.open_services = open_services  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "infer.service.assemble", assemble)
    monkeypatch.setattr(
        "infer.model.source.ensure_model",
        lambda config, index: events.append(config.model.name) or Local("x", tmp_path),
    )

    async def use() -> None:
        async with Context(InferConfig(), index).open_services() as services:
            assert services == "services"

    asyncio.run(use())
    assert events == ["auto", "open inline=None", "close"]


@pytest.mark.parametrize(
    ("quiet", "words", "level"), [(True, (), "warning"), (False, (), "info"), (True, ("--log-level", "debug"), "debug")]
)
def test_a_quiet_command_of_a_plugin_logs_warnings_unless_the_user_says_otherwise(
    infer: Any, index: PluginIndex, monkeypatch: pytest.MonkeyPatch, quiet: bool, words: tuple[str, ...], level: str
) -> None:
    levels: list[str] = []
    monkeypatch.setattr("infer.cli.context.set_up_logging", lambda said, packages, format: levels.append(said))
    (probe,) = index.records("commands")
    monkeypatch.setitem(probe.supports, "quiet", quiet)  # type: ignore[arg-type]
    assert infer("probe", "fast", *words).status == 5
    assert levels == [level]


def test_the_format_of_logs_is_the_configured_one(infer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    formats: list[str] = []
    monkeypatch.setattr("infer.cli.context.set_up_logging", lambda level, packages, format: formats.append(format))
    for words in ((), ("--log-format", "json")):
        infer("probe", "fast", *words)
    assert formats == ["text", "json"]


@pytest.fixture
def levels_as_before() -> Iterator[None]:
    """Setting up logging sets levels, which later tests must not inherit."""
    before = {name: logging.getLogger(name).level for name in ("infer", "infer_api", "acme")}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


@pytest.mark.usefixtures("levels_as_before")
def test_with_json_logs_all_that_a_command_says_and_its_last_error_are_json(
    infer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from acme_probe_command import ProbeCommand  # type: ignore[import-not-found]

    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", list(root.handlers))
    monkeypatch.setattr("infer.cli.context.set_up_logging", set_up_logging)

    def run(self: Any, context: Any, arguments: Any, options: Any) -> int:
        context.say("serves at http://x")
        raise ModelError("broken,\nin two lines")

    monkeypatch.setattr(ProbeCommand, "run", run)
    plain = infer("probe", "fast")
    assert (plain.status, plain.err) == (1, "serves at http://x\ninfer: error: broken, in two lines\n")
    result = infer("probe", "fast", "--log-format", "json", "--log-level", "error")
    lines = [json.loads(line) for line in result.err.splitlines()]
    assert result.status == 1
    assert [(line["level"], line["logger"], line["message"]) for line in lines] == [
        ("INFO", "infer", "serves at http://x"),
        ("ERROR", "infer", "broken, in two lines"),
    ]
