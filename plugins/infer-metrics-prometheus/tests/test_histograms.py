from __future__ import annotations

import random

from prometheus_client import CollectorRegistry, Histogram, generate_latest

from infer_metrics_prometheus.histograms import BatchHistogram


def test_a_batch_counts_as_the_librarys_histogram_does_one_by_one() -> None:
    rng, bounds = random.Random(7), (0.01, 0.1, 0.5, 1.0)
    batches = [[rng.choice([*bounds, rng.random() * 1.5, 2.0]) for _ in range(rng.randrange(40))] for _ in range(20)]
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    batch = BatchHistogram("gaps", "Gaps.", bounds)
    ours.register(batch)
    single = Histogram("gaps", "Gaps.", buckets=bounds, registry=theirs)
    for values in batches:
        batch.observe(values)
        for value in values:
            single.observe(value)
    assert exposed(ours).keys() == exposed(theirs).keys()
    for name, value in exposed(ours).items():
        assert abs(value - exposed(theirs)[name]) < 1e-9, name


def exposed(registry: CollectorRegistry) -> dict[str, float]:
    lines = (line.rsplit(" ", 1) for line in generate_latest(registry).decode().splitlines() if line[0] != "#")
    return {name: float(value) for name, value in lines if "_created" not in name}
