from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from infer.plugins.check import Machine, capability_problem, contract_problem, requires_problem, shape_problem


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nflags\t\t: fpu avx2 fma\n\nprocessor\t: 1\nflags\t\t: amx\n", encoding="utf-8")
    return Machine({"torch": "2.13.0+cpu"}, str(cpuinfo))


def test_nothing_required_is_met(machine: Machine) -> None:
    assert requires_problem({}, machine) == ""


def test_missing_modules_are_named(machine: Machine) -> None:
    problem = requires_problem({"modules": ["json", "no_such_one", "no_such_two"]}, machine)
    assert problem == "it needs the modules no_such_one, no_such_two, which cannot be imported"


@pytest.mark.parametrize("wanted", [">=2.11", ">=2.11,<3", "==2.13.0", ">2.12.9"])
def test_a_torch_range_that_holds(machine: Machine, wanted: str) -> None:
    assert requires_problem({"torch": wanted}, machine) == ""


def test_a_torch_range_that_does_not_hold(machine: Machine) -> None:
    assert requires_problem({"torch": ">=2.20"}, machine) == "it needs torch >=2.20, found 2.13.0+cpu"


def test_a_torch_range_that_cannot_be_read(machine: Machine) -> None:
    assert "'new' cannot be read" in requires_problem({"torch": "new"}, machine)


def test_a_version_that_the_folders_do_not_show_is_asked_of_importlib(machine: Machine) -> None:
    assert Machine({}).find_version("pytest") == pytest.__version__
    assert machine.find_version("no-such-distribution") is None


def test_cpu_flags(machine: Machine) -> None:
    assert requires_problem({"cpu_flags": ["avx2", "fma"]}, machine) == ""
    problem = requires_problem({"cpu_flags": ["avx2", "amx"]}, machine)
    assert problem == "it needs the CPU flags amx, which this CPU lacks"


def test_cpu_flags_of_a_system_that_lists_none(tmp_path: Path) -> None:
    problem = requires_problem({"cpu_flags": ["avx2"]}, Machine({}, str(tmp_path / "absent")))
    assert "does not list its CPU's flags" in problem


@pytest.mark.parametrize(
    ("have", "problem"),
    [
        ("9.0", ""),
        ("10.0", ""),
        ("8.9", "it needs compute capability 9.0, the device has 8.9"),
        ("", "it needs compute capability 9.0, and the device has none"),
    ],
)
def test_compute_capability(have: str, problem: str) -> None:
    assert capability_problem({"compute_capability": "9.0"}, have) == problem


def test_contract_versions() -> None:
    assert contract_problem("attention", 1, "infer-x") == ""
    assert "version 2 of the attention contract" in contract_problem("attention", 2, "infer-x")
    assert "upgrade infer-api" in contract_problem("attention", 2, "infer-x")
    assert contract_problem("attention", 0, "infer-x").endswith("upgrade infer-x")
    assert "the kind 'teapots' is not known" in contract_problem("teapots", 1, "infer-x")


OPTIONS = {
    "properties": {
        "sizes": {"type": "array", "items": {"$ref": "#/$defs/Size"}, "description": "Sizes.", "flags": ["--sizes"]},
        "limits": {"anyOf": [{"type": "object", "additionalProperties": {"type": "integer"}}, {"type": "null"}]},
    },
    "required": ["sizes"],
    "$defs": {"Size": {"type": "integer", "minimum": 1, "enum": [1, 2]}},
}


def put(data: dict[str, Any], path: str, value: object) -> None:
    *groups, last = path.split(".")
    for group in groups:
        data = data[group]
    data[last] = value


@pytest.fixture
def good(site: Any) -> dict[str, Any]:
    site.add("infer-good", options=OPTIONS)
    return copy.deepcopy(dict(site.index().get("attention", "fast").data))


def test_a_missing_field_is_named(good: dict[str, Any]) -> None:
    assert shape_problem(good) == ""
    del good["roles"]
    assert shape_problem(good) == "the field 'roles' is missing"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("kind", ["attention"]),
        ("priority", "high"),
        ("priority", True),
        ("roles", [{"a": 1}]),
        ("requires", None),
        ("requires.modules", [1.5]),
        ("supports", 3),
        ("supports.dtypes", 1.5),
        ("supports.head_sizes.multiple_of", "x"),
        ("options", []),
    ],
)
def test_a_field_of_the_wrong_type_is_named_however_deep_it_lies(
    good: dict[str, Any], path: str, value: object
) -> None:
    put(good, path, value)
    assert f"the field {path!r} is " in shape_problem(good)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("requires.compute_capability", "new"),
        ("options.properties", ["x"]),
        ("options.properties.sizes", -1),
        ("options.properties.sizes.description", {"a": 1}),
        ("options.properties.sizes.flags", [1]),
        ("options.properties.sizes.type", {"a": 1}),
        ("options.properties.sizes.items", 1),
        ("options.$defs.Size", {"type": "integer", "multipleOf": 0}),
        ("options.properties.sizes.items.$ref", "#/x"),
        ("options.properties.limits.anyOf", 5),
        ("options.required", 5),
        ("options.$defs.Size", 5),
        ("options.$defs.Size.minimum", "1"),
    ],
)
def test_what_the_options_schema_or_a_version_says_must_be_readable(
    good: dict[str, Any], path: str, value: object
) -> None:
    put(good, path, value)
    assert "something in it cannot be read" in shape_problem(good)


def test_a_type_that_contains_itself_is_refused(good: dict[str, Any]) -> None:
    good["options"]["$defs"]["Size"] = {"type": "array", "items": {"$ref": "#/$defs/Size"}}
    assert "RecursionError" in shape_problem(good)


def test_a_type_nested_without_end_is_refused(good: dict[str, Any]) -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"type": "array", "items": deep}
    good["options"]["properties"]["sizes"] = deep
    assert "RecursionError" in shape_problem(good)


def test_a_pattern_of_a_source_must_be_one(good: dict[str, Any]) -> None:
    good |= {"kind": "model_sources", "supports": {"prefix": "x:", "pattern": "(", "usage": "x:NAME"}}
    assert shape_problem(good).startswith("something in it cannot be read")


def test_fields_of_a_later_release_are_left_alone(good: dict[str, Any]) -> None:
    good["supports"]["newer"] = good["newer"] = [1.5]
    assert shape_problem(good) == ""


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("request", None, "the field 'request' is None"),
        ("request_class", 3, "the field 'request_class' is 3"),
        ("request", {"properties": {"size": {"type": "array", "items": 1}}}, "something in it cannot be read"),
    ],
)
def test_what_requests_send_to_a_plugin_is_checked(site: Any, name: str, value: object, said: str) -> None:
    site.add("infer-good", "logits_processors", request=OPTIONS, request_class="good.parameters:Sizes")
    good = dict(site.index().get("logits_processors", "fast").data)
    assert shape_problem(good) == ""
    assert said in shape_problem({**good, name: value})
    del good[name]
    assert shape_problem(good) == f"the field {name!r} is missing"
