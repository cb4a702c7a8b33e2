from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

import pytest
import trustme

from infer_api.errors import ConfigError, InferError
from infer_bench.server import free_port
from infer_bench.target import Target, find_counter, learn, open_session

COMPLETIONS = "/v1/completions"


def test_an_address_may_end_in_v1_and_must_name_a_scheme() -> None:
    for url in ("http://host:1", "http://host:1/", "http://host:1/v1", "http://host:1/v1/"):
        assert Target.at("server", url, COMPLETIONS).base_url == "http://host:1"
    with pytest.raises(ConfigError, match="http"):
        Target.at("server", "host:1", COMPLETIONS)


def test_the_key_is_in_no_text() -> None:
    target = Target.at("server", "http://host:1", COMPLETIONS, api_key="secret")
    assert "secret" not in repr(target) + str(target.facts())


async def test_model_and_vocabulary_are_those_that_the_server_lists(serve_stub: Callable[..., Any]) -> None:
    target = Target.at("server", serve_stub().url, COMPLETIONS)
    async with open_session(target, 5.0) as session:
        found = await learn(target, session, 5.0)
        assert (found.model, found.vocab_size) == ("stub", 50)
        other = await learn(Target.at("server", target.base_url, COMPLETIONS, model="other"), session, 5.0)
        assert (other.model, other.vocab_size) == ("other", None)


async def test_a_server_that_does_not_come_up_is_waited_for_and_then_an_error(caplog: pytest.LogCaptureFixture) -> None:
    target = Target.at("server", f"http://127.0.0.1:{free_port()}", COMPLETIONS)
    async with open_session(target, 5.0) as session:
        with pytest.raises(InferError, match="--ready-timeout"):
            await learn(target, session, 0.35)
    assert [f"waiting for {target.base_url}" in message for message in caplog.messages] == [True], "told once"


async def test_a_certificate_that_nobody_trusts_is_an_error_at_once() -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    target = Target.at("server", f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", COMPLETIONS)
    async with server, open_session(target, 5.0) as session:
        with pytest.raises(ConfigError, match="SSL_CERT_FILE"):
            await asyncio.wait_for(learn(target, session, 60.0), 5)


async def test_tokens_are_counted_by_the_server_if_it_can(serve_stub: Callable[..., Any]) -> None:
    for has_tokenize in (True, False):
        target = Target.at("server", serve_stub(has_tokenize=has_tokenize).url, COMPLETIONS)
        async with open_session(target, 5.0) as session:
            counter = await find_counter(target, session)
            assert (counter is not None) == has_tokenize
            if counter is not None:
                assert await counter.count("a b c") == 4
