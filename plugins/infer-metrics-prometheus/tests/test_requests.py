from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

from infer_metrics_prometheus.requests import OUTCOMES

Scrape = Callable[[], Awaitable[dict[Any, float]]]


def outcomes(samples: dict[Any, float]) -> dict[str, float]:
    return {
        dict(labels)["outcome"]: value
        for (name, labels), value in samples.items()
        if name == "infer_requests_finished_total"
    }


def value(samples: dict[Any, float], name: str, **labels: str) -> float:
    return samples[name, tuple(sorted(labels.items()))]


async def test_every_outcome_is_there_before_the_first_request(scrape: Scrape, counter: Any) -> None:
    samples = await scrape()
    assert outcomes(samples) == dict.fromkeys(OUTCOMES, 0)
    assert value(samples, "infer_requests_received_total") == value(samples, "infer_requests_open") == 0


async def test_received_is_the_sum_of_finished_and_open_at_every_moment(
    scrape: Scrape, counter: Any, finish: Callable[..., None]
) -> None:
    rng, open_ids = random.Random(3), set[str]()
    for number in range(60):
        counter.infer_request_received(request_id=str(number))
        open_ids.add(str(number))
        if rng.random() < 0.8:
            ended = rng.choice(sorted(open_ids))
            open_ids.remove(ended)
            finish(ended, rng.choice(OUTCOMES))
        if number % 10 == 0:
            samples = await scrape()
            assert value(samples, "infer_requests_open") == len(open_ids)
            assert value(samples, "infer_requests_received_total") == number + 1
            assert sum(outcomes(samples).values()) == number + 1 - len(open_ids)


async def test_a_request_that_was_received_before_the_plugin_listened_is_counted_once(
    scrape: Scrape, counter: Any, finish: Callable[..., None]
) -> None:
    finish("earlier", "abort")
    samples = await scrape()
    assert value(samples, "infer_requests_received_total") == 1
    assert outcomes(samples)["abort"] == 1
    assert value(samples, "infer_requests_open") == 0


async def test_a_finished_request_is_in_every_histogram(scrape: Scrape, finish: Callable[..., None]) -> None:
    finish("a", num_prompt_tokens=100, num_generated_tokens=3, queued_s=0.02, first_token_s=0.3, total_s=0.7)
    samples = await scrape()
    sums = {
        "infer_time_to_first_token_seconds": (0.3, 1),
        "infer_inter_token_seconds": (0.2, 2),
        "infer_request_seconds": (0.7, 1),
        "infer_queue_seconds": (0.02, 1),
        "infer_request_prompt_tokens": (100, 1),
        "infer_request_generated_tokens": (3, 1),
    }
    for name, (total, count) in sums.items():
        assert abs(value(samples, f"{name}_sum") - total) < 1e-9, name
        assert value(samples, f"{name}_count") == count, name
        assert value(samples, f"{name}_bucket", le="+Inf") == count, name


async def test_a_request_that_never_ran_has_no_queue_time_and_no_first_token(
    scrape: Scrape, finish: Callable[..., None]
) -> None:
    finish("a", "rejected", queued_s=None, first_token_s=None, gaps_s=(), num_generated_tokens=0)
    samples = await scrape()
    assert value(samples, "infer_queue_seconds_count") == 0
    assert value(samples, "infer_time_to_first_token_seconds_count") == 0
    assert value(samples, "infer_inter_token_seconds_count") == 0
    assert value(samples, "infer_request_seconds_count") == 1


async def test_replies_count_by_method_declared_route_and_status(scrape: Scrape, counter: Any) -> None:
    for status in (200, 200, 404):
        counter.infer_response_sent(method="GET", route="/v1/models/{model}", status=status, duration_s=0.01)
    samples = await scrape()
    labels = {"method": "GET", "route": "/v1/models/{model}"}
    assert value(samples, "infer_http_responses_total", status="200", **labels) == 2
    assert value(samples, "infer_http_responses_total", status="404", **labels) == 1
    assert value(samples, "infer_http_response_seconds_count", **labels) == 3


async def test_clients_cannot_make_time_series(scrape: Scrape, counter: Any) -> None:
    for number in range(50):
        counter.infer_response_sent(method=f"VERB{number}", route="", status=404, duration_s=0.01)
    samples = await scrape()
    found = {labels: value for (name, labels), value in samples.items() if name == "infer_http_responses_total"}
    assert found == {(("method", "other"), ("route", "unmatched"), ("status", "404")): 50}
