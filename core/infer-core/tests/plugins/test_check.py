from __future__ import annotations

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


@pytest.mark.parametrize(
    ("field", "value"), [("priority", "high"), ("requires", None), ("options", []), ("supports", 3)]
)
def test_a_field_of_the_wrong_type_is_named(site: Any, field: str, value: object) -> None:
    site.add("infer-good")
    data = dict(site.index().get("attention", "fast").data)
    assert shape_problem(data) == ""
    assert f"the field {field!r} is" in shape_problem({**data, field: value})


def test_a_missing_field_is_named() -> None:
    assert shape_problem({}) == "the field 'kind' is missing"
