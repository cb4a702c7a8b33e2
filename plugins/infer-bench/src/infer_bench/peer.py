"""transformers' `generate` as a contender, in float32, on the folder that infer serves."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infer_api.errors import ConfigError
from infer_bench.contenders import check_count

__all__ = ["TransformersPeer", "peer_folder"]


def peer_folder(model: str) -> Path:
    """The folder of `model`. Raises ConfigError for anything that transformers' generate cannot load as it is."""
    folder = Path(model).expanduser()
    if not (folder / "config.json").is_file():
        raise ConfigError(
            f"--against transformers needs a model folder with a config.json, found {model!r}; "
            "name one such as ./SmolLM2-135M-Instruct"
        )
    return folder


class TransformersPeer:
    """Both kinds of contender. Runs with the threads that torch has in this process, as infer's own engine does."""

    name = "transformers"

    def __init__(self, folder: Path) -> None:
        try:
            import torch
            import transformers
        except ImportError as error:
            raise ConfigError(f"--against transformers: {error}; pip install 'infer-bench[transformers]'") from error
        self._torch = torch
        self._model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        # The checkpoint's own would end rows at its end-of-sequence id, and fills whatever a call leaves unset.
        self._model.generation_config = transformers.GenerationConfig(do_sample=False, pad_token_id=0)

    def generate(self, prompts: Sequence[Sequence[int]], output_len: int) -> None:
        generated = self._run(prompts, output_len)
        check_count(self.name, int(generated.shape[1]) - len(prompts[0]), output_len)

    def token_times(self, prompt: Sequence[int], output_len: int) -> list[float]:
        clock = _Clock()
        self._run([prompt], output_len, streamer=clock)
        check_count(self.name, len(clock.times), output_len)
        return clock.times

    def close(self) -> None:
        del self._model

    def _run(self, prompts: Sequence[Sequence[int]], output_len: int, **more: Any) -> Any:
        ids = self._torch.tensor([list(prompt) for prompt in prompts])
        with self._torch.inference_mode():
            return self._model.generate(
                ids, attention_mask=self._torch.ones_like(ids), max_new_tokens=output_len, **more
            )


class _Clock:
    """A transformers streamer that keeps the time of each token; its first `put` is the prompt."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._has_prompt = False
        self.times: list[float] = []

    def put(self, value: Any) -> None:
        if self._has_prompt:
            self.times.append(time.perf_counter() - self._started)
        self._has_prompt = True

    def end(self) -> None:
        """Called after the last token; nothing is held back."""
