from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from infer.plugins.discovery import PluginRecord
from infer.plugins.pluginset import PluginSet
from infer_api.errors import ConfigError, ModelError, PluginError

CODE = """
from infer_api.errors import ModelError
from infer_api.options import Options

class Limits(Options):
    low: int = 0

class PlugOptions(Options):
    num_splits: int = 4
    names: tuple[str, ...] = ()
    limits: Limits = Limits()

class Plugin:
    def __init__(self, *arguments):
        *self.arguments, self.options = arguments

def refuses(options):
    raise ModelError("no head")

def fails(options):
    raise ZeroDivisionError("of course")
"""

Make = Callable[..., PluginSet]


@pytest.fixture
def make_set(site: Any, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Make:
    """Install one attention plugin `fast` under a package name of its own, and pin it."""
    package = "pinned_" + "".join(c if c.isalnum() else "_" for c in request.node.name)

    def make(options: dict[str, Any] | None = None, *, code: str = CODE, **changes: Any) -> PluginSet:
        changes = {"options_class": f"{package}.main:PlugOptions", **changes}
        if "implementation" in changes:
            changes["implementation"] = f"{package}.main:{changes['implementation']}"
        site.add(package, code=code, **changes)
        monkeypatch.syspath_prepend(site.root)
        return PluginSet.pin(site.index().records(), lambda kind, name: options or {})

    return make


def test_a_plugin_is_made_with_its_validated_options(make_set: Make) -> None:
    plugins = make_set({"num_splits": 8, "names": ["a", "b"], "limits": {"low": 3}})
    made = plugins.make("attention", "fast")
    assert (made.options.num_splits, made.options.names, made.options.limits.low) == (8, ("a", "b"), 3)


def test_options_that_were_not_given_keep_their_defaults(make_set: Make) -> None:
    assert make_set().make("attention", "fast").options.num_splits == 4


def test_arguments_come_before_the_options(make_set: Make) -> None:
    made = make_set(options_class=None).make("attention", "fast", "path")
    assert (made.arguments, made.options) == (["path"], None)


def test_load_does_not_call_and_is_timed_once(make_set: Make) -> None:
    plugins = make_set()
    assert plugins.load("attention", "fast").__name__ == "Plugin"
    (seconds,) = plugins.timings.values()
    plugins.load("attention", "fast")
    assert plugins.timings == {"attention:fast": seconds}
    assert seconds > 0


def test_a_wrong_value_names_the_path_of_its_field(make_set: Make) -> None:
    plugins = make_set({"num_splits": "many", "limits": {"low": "x"}})
    with pytest.raises(
        ConfigError, match=r"attention\.fast\.num_splits: .*found 'many'; attention\.fast\.limits\.low: "
    ):
        plugins.make("attention", "fast")


def test_an_unknown_option_gets_near_misses(make_set: Make) -> None:
    plugins = make_set({"num_split": 8})
    with pytest.raises(
        ConfigError, match=r"attention\.fast\.num_split: .*no such option .*Did you mean 'num_splits'\?"
    ):
        plugins.make("attention", "fast")


def test_the_path_is_that_of_the_configuration_group(make_set: Make) -> None:
    plugins = make_set({"x": 1}, kind="loaders")
    with pytest.raises(ConfigError, match=r"^load\.fast\.x: "):
        plugins.options("loaders", "fast")


def test_options_for_a_plugin_without_options_are_refused(make_set: Make) -> None:
    plugins = make_set({"x": 1}, options_class=None)
    with pytest.raises(ConfigError, match=r"has no options; remove attention\.fast\.x"):
        plugins.make("attention", "fast")


def test_a_module_that_raises_on_import_is_named_with_its_distribution(make_set: Make) -> None:
    plugins = make_set(code="raise OSError('libfast.so: not found')\n", options_class=None)
    with pytest.raises(
        PluginError, match=r"attention plugin 'fast' of pinned-.* 1\.0 failed while importing .*:Plugin: "
    ) as e:
        plugins.load("attention", "fast")
    assert "OSError: libfast.so: not found" in str(e.value)
    assert isinstance(e.value.__cause__, OSError)


def test_an_implementation_that_is_not_there_is_named(make_set: Make) -> None:
    plugins = make_set(implementation="Absent", options_class=None)
    with pytest.raises(PluginError, match=r"main:Absent: AttributeError: .*'Absent'"):
        plugins.load("attention", "fast")


def test_a_plugin_that_fails_to_start_is_named(make_set: Make) -> None:
    plugins = make_set(implementation="fails", options_class=None)
    with pytest.raises(PluginError, match="failed to start: ZeroDivisionError: of course"):
        plugins.make("attention", "fast")


def test_a_typed_error_of_a_plugin_passes_unchanged(make_set: Make) -> None:
    plugins = make_set(implementation="refuses", options_class=None)
    with pytest.raises(ModelError, match="^no head$"):
        plugins.make("attention", "fast")


def plain(name: str, kind: str = "attention", **changes: Any) -> PluginRecord:
    data = {"implementation": f"{name}.main:X", "options_class": None}
    return PluginRecord(kind, name, f"infer-{name}", changes.pop("version", "1.0"), name, data, **changes)


def options_by(kind: str, name: str) -> dict[str, Any]:
    return {"size": 3, "names": ("ä", "b"), "deep": {"z": 1.5, "a": None}} if name == "two" else {}


@pytest.fixture
def pair() -> PluginSet:
    return PluginSet.pin([plain("two"), plain("one", "models")], options_by)


def test_a_set_survives_pickle(pair: PluginSet) -> None:
    assert pickle.loads(pickle.dumps(pair)) == pair
    assert pickle.loads(pickle.dumps(pair)).digest == pair.digest


def test_a_set_survives_msgpack_and_json(pair: PluginSet) -> None:
    packed = msgspec.msgpack.decode(msgspec.msgpack.encode(pair.to_dict()))
    assert PluginSet.from_dict(packed) == pair
    assert PluginSet.from_dict(json.loads(json.dumps(pair.to_dict()))).digest == pair.digest


def test_the_digest_is_the_same_in_another_process(pair: PluginSet) -> None:
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).digest)"
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, input=pickle.dumps(pair), capture_output=True, check=True)
    assert result.stdout.decode().strip() == pair.digest
    assert len(pair.digest) == 16


def test_the_digest_does_not_depend_on_order(pair: PluginSet) -> None:
    assert PluginSet.pin([plain("one", "models"), plain("two")], options_by).digest == pair.digest


@pytest.mark.parametrize(
    "other",
    [
        PluginSet.pin([plain("two")], options_by),
        PluginSet.pin([plain("two", version="1.1"), plain("one", "models")], options_by),
        PluginSet.pin([plain("two"), plain("one", "models")]),
    ],
)
def test_the_digest_changes_with_names_versions_and_options(pair: PluginSet, other: PluginSet) -> None:
    assert other.digest != pair.digest


def test_a_failed_record_cannot_be_pinned() -> None:
    with pytest.raises(PluginError, match="'infer-x/x' cannot be used: it is old"):
        PluginSet.pin([plain("x", state="failed", reason="it is old")])


def test_options_that_are_no_plain_data_cannot_be_pinned() -> None:
    with pytest.raises(ConfigError, match=r"options of attention\.x must be plain values"):
        PluginSet.pin([plain("x")], lambda kind, name: {"value": object()})


def test_what_is_not_pinned_cannot_be_loaded(pair: PluginSet) -> None:
    with pytest.raises(PluginError, match=r"no attention plugin called 'one' .*pinned: two"):
        pair.load("attention", "one")
    assert pair.get("models", "infer_one/one").distribution == "infer-one"


def test_pinning_and_loading_need_no_pydantic(pair: PluginSet) -> None:
    code = "import infer.plugins.pluginset, sys; sys.exit('pydantic' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_class_of_what_requests_send_travels_with_the_set(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(site.root)
    package, schema = "pinned_for_requests", {"type": "object", "properties": {}}
    site.add(package, "logits_processors", code=CODE, request=schema, request_class=f"{package}.main:Limits")
    plugins = PluginSet.from_dict(PluginSet.pin(site.index().records()).to_dict())
    assert plugins.request_class("logits_processors", "fast")(low=3).low == 3


def test_a_plugin_that_takes_nothing_of_requests_is_named(make_set: Make) -> None:
    with pytest.raises(PluginError, match=r"'fast' .* takes no parameters of requests"):
        make_set().request_class("attention", "fast")
