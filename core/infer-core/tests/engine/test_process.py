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
from infer.engine.start import EngineSpec
from infer.plugins.pluginset import PinnedPlugin, PluginSet
from infer_api.executors import WorkerSpec

async def main():
    names = ("executors", "scripted", "infer-testkit", "0", "infer_testkit", "infer_testkit.executor:scripted_executor")
    worker = WorkerSpec("unused:Worker", {}, PluginSet((PinnedPlugin(*names),)).to_dict())
    client = ProcessClient()
    await client.start(EngineSpec("scripted", worker, max_num_seqs=4, max_num_batched_tokens=16, in_flight=2))
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
