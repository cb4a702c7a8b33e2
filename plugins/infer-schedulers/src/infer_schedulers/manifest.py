"""What the plugin offers, as data."""

from __future__ import annotations

from infer_api.manifest import SchedulerPlugin, SchedulerSupport

__all__ = ["FCFS", "PRIORITY"]

FCFS = SchedulerPlugin(
    name="fcfs",
    summary="First come, first served; the youngest gives way when the KV cache is full.",
    implementation="infer_schedulers.policies:FirstComeFirstServed",
    priority=60,
)

PRIORITY = SchedulerPlugin(
    name="priority",
    summary="By the request's priority (lower first), then by arrival; the least important gives way.",
    implementation="infer_schedulers.policies:ByPriority",
    supports=SchedulerSupport(heeds_priority=True),
    priority=50,
)
