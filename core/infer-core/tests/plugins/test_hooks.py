from __future__ import annotations

import logging
import sys
from typing import Any

import pytest

from infer.plugins.hooks import HookCaller
from infer_api.errors import ConfigError, PluginError
from infer_api.hooks import hookimpl


class Counter:
    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    @hookimpl
    def infer_request_finished(self, request_id: str, num_generated_tokens: int) -> None:
        self.seen.append((request_id, num_generated_tokens))


class Bad:
    @hookimpl
    def infer_request_finished(self) -> None:
        raise RuntimeError("no disk")


class Misspelled:
    @hookimpl
    def infer_request_finishd(self) -> None: ...


class WrongArgument:
    @hookimpl
    def infer_request_finished(self, colour: str) -> None: ...


def finish(caller: HookCaller) -> None:
    caller.call("infer_request_finished", request_id="r1", finish_reason="stop", num_generated_tokens=7)


def test_an_implementation_gets_the_arguments_that_it_asks_for() -> None:
    caller, counter = HookCaller(), Counter()
    caller.register(counter, "counter")
    finish(caller)
    assert counter.seen == [("r1", 7)]


def test_a_hook_that_raises_is_logged_with_its_name_and_all_others_run(caplog: pytest.LogCaptureFixture) -> None:
    caller, first, last = HookCaller(), Counter(), Counter()
    for name, plugin in (("first", first), ("faulty", Bad()), ("last", last)):
        caller.register(plugin, name)
    with caplog.at_level(logging.ERROR):
        finish(caller)
    assert first.seen == last.seen == [("r1", 7)]
    (record,) = caplog.records
    assert "infer_request_finished of hook plugin faulty failed" in record.getMessage()
    assert "no disk" in record.getMessage()


@pytest.mark.parametrize("plugin", [Misspelled(), WrongArgument()])
def test_an_implementation_that_the_specifications_do_not_know_is_refused(plugin: object) -> None:
    caller, counter = HookCaller(), Counter()
    caller.register(counter, "counter")
    with pytest.raises(PluginError, match="hook plugin 'wrong' is wrong"):
        caller.register(plugin, "wrong")
    assert caller.names == ("counter",)
    finish(caller)
    assert counter.seen == [("r1", 7)]


def test_a_call_without_implementations_does_nothing() -> None:
    caller = HookCaller()
    caller.call("infer_shutdown")
    assert caller.names == ()
    assert not caller.failures


CODE = """
from infer_api.hooks import hookimpl
CALLS = []
class Hooks:
    @hookimpl
    def infer_shutdown(self):
        CALLS.append("shutdown")
HOOKS = Hooks()
"""


def install(site: Any, package: str, code: str, attribute: str) -> None:
    site.metadata(package.replace("_", "-"), "1.0", f"[infer.hooks]\nwatch = {package}.main:{attribute}\n")
    site.package(package, code=code)


@pytest.mark.parametrize(("package", "attribute"), [("infer_hook_object", "HOOKS"), ("infer_hook_class", "Hooks")])
def test_installed_hooks_are_loaded_and_called(
    site: Any, monkeypatch: pytest.MonkeyPatch, package: str, attribute: str
) -> None:
    install(site, package, CODE, attribute)
    monkeypatch.syspath_prepend(site.root)
    caller = HookCaller.from_index(site.index())
    caller.call("infer_shutdown")
    assert sys.modules[f"{package}.main"].CALLS == ["shutdown"]
    assert caller.failures == {}


def test_a_hook_plugin_that_cannot_be_imported_is_logged_and_left_out(
    site: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    install(site, "infer_hook_broken", "raise OSError('no such bus')\n", "HOOKS")
    install(site, "infer_hook_fine", CODE, "HOOKS")
    monkeypatch.syspath_prepend(site.root)
    with caplog.at_level(logging.ERROR):
        caller = HookCaller.from_index(site.index())
    assert caller.names == ("infer-hook-fine/watch",)
    assert caller.failures == {"infer-hook-broken/watch": "OSError: no such bus"}
    assert "hook plugin infer-hook-broken/watch is left out" in caplog.text


def test_a_disabled_hook_plugin_is_not_imported(site: Any) -> None:
    install(site, "infer_hook_off", "raise OSError('imported')\n", "HOOKS")
    caller = HookCaller.from_index(site.index(), disabled=["infer-hook-off"])
    assert (caller.names, caller.failures) == ((), {})


def test_an_error_that_says_what_to_do_is_logged_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    class Unconfigured:
        @hookimpl
        def infer_shutdown(self) -> None:
            raise ConfigError("set THIS to that")

    hooks = HookCaller()
    hooks.register(Unconfigured(), "mine")
    with caplog.at_level(logging.ERROR):
        hooks.call("infer_shutdown")
    (record,) = caplog.records
    assert "set THIS to that" in record.getMessage()
    assert record.exc_info is None
