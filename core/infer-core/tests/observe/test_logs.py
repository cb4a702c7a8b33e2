from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from infer.observe.logs import log_line, set_up_logging


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


def test_as_json_each_message_is_one_object_a_line() -> None:
    out = io.StringIO()
    set_up_logging("debug", format="json", stream=out)
    log = logging.getLogger("infer.engine")
    log.info("two\nlines %s", "Größe", extra={"request_id": "mine-7"})
    try:
        raise KeyError("gone")
    except KeyError:
        log.exception("failed")
    first, second = (json.loads(line) for line in out.getvalue().splitlines())
    assert {key: first[key] for key in ("level", "logger", "message", "request_id")} == {
        "level": "INFO",
        "logger": "infer.engine",
        "message": "two\nlines Größe",
        "request_id": "mine-7",
    }
    said = datetime.fromisoformat(first["time"])
    assert said.utcoffset() == timedelta(0)
    assert abs((datetime.now(UTC) - said).total_seconds()) < 60
    assert "exception" not in first
    assert "request_id" not in second
    assert second["exception"].startswith("Traceback")
    assert "KeyError: 'gone'" in second["exception"]


def test_what_the_user_is_told_is_a_message_of_any_level_in_json_and_not_ours_to_write_in_text() -> None:
    out = io.StringIO()
    set_up_logging("error", format="json", stream=out)
    assert log_line(logging.INFO, 'serves "tiny" at\nhttp://x')
    told = json.loads(out.getvalue())
    assert out.getvalue().count("\n") == 1
    assert (told["level"], told["logger"], told["message"]) == ("INFO", "infer", 'serves "tiny" at\nhttp://x')
    out = io.StringIO()
    set_up_logging("error", stream=out)
    assert not log_line(logging.INFO, "serves")
    assert out.getvalue() == ""
