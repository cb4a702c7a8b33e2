"""`infer explain MODEL`: what would be chosen for each kind, and why everything else would not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from infer.cli.commands import Invocation
from infer.cli.context import open_context
from infer.cli.layout import paragraph, terminal_width
from infer.plugins.select import Selection, explain_rows

if TYPE_CHECKING:
    from infer.engine.plan import EnginePlan

__all__ = ["explain_data", "explain_lines", "run"]


def run(invocation: Invocation) -> int:
    """Entry of the command. Raises InferError: the error names the losers when nothing fits."""
    from infer.engine.assembly import plan_engine

    context = open_context(invocation, quiet=True)
    plan = plan_engine(context.config, context.index)
    if invocation.option("json"):
        print(json.dumps(explain_data(plan), indent=1))
    else:
        print("\n".join(explain_lines(plan, terminal_width())))
    return 0


def explain_data(plan: EnginePlan) -> dict[str, Any]:
    """The plan's choices as plain data."""
    return {
        "model": str(plan.model_path),
        "architecture": plan.facts.architecture,
        "plugins": {kind: [row._asdict() for row in explain_rows(one)] for kind, one in plan.selections.items()},
        "decisions": [{"option": one.option, "value": one.value, "because": one.because} for one in plan.decisions],
        "digest": plan.plugin_set.digest,
    }


def explain_lines(plan: EnginePlan, width: int) -> list[str]:
    """The plan in words: winners first, under each kind its losers."""
    lines = [f"model {plan.model_path} ({plan.facts.architecture})"]
    for kind, selection in plan.selections.items():
        lines += ["", kind, *_selection(selection, width)]
    if plan.decisions:
        lines += ["", "decisions"]
    for decision in plan.decisions:
        lines += paragraph(f"{decision.option} = {decision.value}: {decision.because}", 2, width)
    return [*lines, "", f"plugin set {plan.plugin_set.digest}"]


def _selection(selection: Selection, width: int) -> list[str]:
    lines: list[str] = []
    for row in explain_rows(selection):
        mark = "+" if row.verdict == "taken" else "-"
        lines += paragraph(f"{mark} {row.name} ({row.distribution}), {row.verdict}: {row.reason}", 2, width)
    return lines
