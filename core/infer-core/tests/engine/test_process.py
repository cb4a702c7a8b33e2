from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SERVING = """
import asyncio
from infer.engine.process_client import ProcessClient
from infer_testkit.executor import scripted_spec

async def main():
    client = ProcessClient()
    await client.start(scripted_spec())
    print("started", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_an_engine_whose_parent_was_killed_takes_its_folder_along() -> None:
    # Not tmp_path: the name of a socket has room for about 100 characters.
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        serving = subprocess.Popen(
            [sys.executable, "-c", SERVING], stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": folder}
        )
        with serving:
            assert serving.stdout is not None
            assert serving.stdout.readline() == b"started\n"
            assert list(Path(folder).glob("infer-*/commands"))
            serving.send_signal(signal.SIGKILL)
        deadline = time.monotonic() + 10
        while list(Path(folder).glob("infer-*")) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert list(Path(folder).glob("infer-*")) == []
