from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from infer_api.services import Services
from infer_server.banner import ready_lines

URL = "http://127.0.0.1:8000"
CHAT = frozenset({"/v1/chat/completions", "/v1/completions"})


async def test_it_names_address_model_capacity_and_sampling(
    make_services: Callable[..., Services], engine: Any
) -> None:
    lines = ready_lines(make_services(), await engine.stats(), URL, CHAT)
    assert "tiny = small" in lines[0]
    assert URL in lines[0]
    assert "12,288 tokens" in lines[1]
    assert "the model recommends nothing" in lines[2]


async def test_defaults_of_the_checkpoint_are_shown(make_services: Callable[..., Services], engine: Any) -> None:
    services = make_services()
    card = replace(services.models[0], defaults={"temperature": 0.6, "top_k": 20})
    lines = ready_lines(replace(services, models=(card,)), await engine.stats(), URL, CHAT)
    assert "temperature 0.6, top_k 20" in lines[2]


async def test_the_command_to_try_fits_routes_template_and_keys(
    make_services: Callable[..., Services], engine: Any
) -> None:
    stats = await engine.stats()
    services = make_services("k1")
    base = replace(services, models=(replace(services.models[0], has_chat_template=False),))
    assert "/v1/chat/completions -H 'Authorization: Bearer" in ready_lines(services, stats, URL, CHAT)[3]
    assert "/v1/completions " in ready_lines(base, stats, URL, CHAT)[3]
    assert "Authorization" not in ready_lines(make_services(), stats, URL, CHAT)[3]
    assert ready_lines(services, stats, URL, frozenset())[3] == f"Try: curl {URL}/ready"
