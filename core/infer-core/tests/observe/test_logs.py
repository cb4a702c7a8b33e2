from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from infer.observe.logs import set_up_logging


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root, names = logging.getLogger(), ("infer", "infer_api", "acme_wave")
    handlers, levels = list(root.handlers), {name: logging.getLogger(name).level for name in names}
    yield
    root.handlers[:] = handlers
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def test_messages_of_infer_and_of_plugins_are_heard_from_the_level_on() -> None:
    out = io.StringIO()
    set_up_logging("info", ["acme_wave"], stream=out)
    logging.getLogger("infer.engine").info("ready")
    logging.getLogger("acme_wave.backend").info("waving")
    logging.getLogger("infer.engine").debug("details")
    logging.getLogger("elsewhere").info("chatter")
    text = out.getvalue()
    assert "INFO    infer.engine: ready" in text
    assert "acme_wave.backend: waving" in text
    assert "details" not in text
    assert "chatter" not in text


def test_a_second_set_up_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    set_up_logging("info", stream=first)
    set_up_logging("debug", stream=second)
    logging.getLogger("infer").debug("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1
