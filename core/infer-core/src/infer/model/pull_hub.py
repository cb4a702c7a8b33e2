"""Models of a hub: the hub client lists, downloads and checks; we choose the files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer.model.source import Formats, HubModel
from infer_api.errors import ModelError

if TYPE_CHECKING:
    from infer.config.sections import LoadConfig

__all__ = ["choose_files", "fetch_hub"]

BESIDE_WEIGHTS = (".json", ".jinja", ".txt", ".model")
"""Suffixes of the small files that a model folder needs beside its weights."""
WEIGHTS = ".safetensors"


def fetch_hub(
    source: HubModel, folder: Path, load: LoadConfig, formats: Formats, expect: Callable[[int, int], None]
) -> None:
    """Fetch a model of the hub at `load.hub_endpoint` into `folder`. Raises ModelError, one line."""
    from huggingface_hub import HfApi, snapshot_download

    access = {"endpoint": load.hub_endpoint, "token": load.hub_token or False}
    with _explained(source, load), _no_bars():
        info = HfApi(**access).model_info(source.repo, revision=load.revision, files_metadata=True)
        sizes = {one.rfilename: one.size or 0 for one in info.siblings or ()}
        chosen = choose_files(source, sizes, formats)
        total = sum(sizes[name] for name in chosen)
        expect(total, total)
        # The commit that was listed: a push in between cannot mix two versions.
        revision = info.sha or load.revision
        snapshot_download(source.repo, revision=revision, local_dir=folder, allow_patterns=chosen, **access)
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # the client's own notes
    for path in [folder / name for name in chosen if "/" in name]:
        path.rename(folder / path.name)


def choose_files(source: HubModel, sizes: Mapping[str, int], formats: Formats) -> list[str]:
    """Which files of a repository make the model: the one asked for, or the top folder's, or the only model file.

    Raises ModelError when nothing fits, or several do (listing them).
    """
    if source.file is not None:
        if source.file not in sizes:
            raise ModelError(f"{source.repo} holds no file {source.file!r} (files: {_some(list(sizes))})")
        return [source.file]
    top = [name for name in sizes if "/" not in name]
    if formats.is_folder(top) and any(name.endswith(WEIGHTS) for name in top):
        return [name for name in top if name.endswith((*BESIDE_WEIGHTS, WEIGHTS)) and not _is_second_copy(name, top)]
    models = [name for name in sizes if formats.is_file(name)]
    if len(models) == 1:
        return models
    if models:
        raise ModelError(
            f"{source.repo} holds {len(models)} model files; choose one: {source.repo}/FILE ({_some(models)})"
        )
    raise ModelError(f"{source.repo} holds no model that an installed loader opens (looked for {formats})")


def _is_second_copy(name: str, names: list[str]) -> bool:
    """Some repositories hold the same weights again in their maker's own layout."""
    return name.startswith("consolidated") and any(one.startswith("model") and one.endswith(WEIGHTS) for one in names)


def _some(names: list[str]) -> str:
    return ", ".join(sorted(names)[:8]) + (", …" if len(names) > 8 else "")


@contextmanager
def _no_bars() -> Iterator[None]:
    """Silence the client's own bars: ours shows the whole."""
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    silent = are_progress_bars_disabled()
    disable_progress_bars()
    try:
        yield
    finally:
        if not silent:
            enable_progress_bars()


@contextmanager
def _explained(source: HubModel, load: LoadConfig) -> Iterator[None]:
    """Turn what the client raises into one line."""
    from huggingface_hub import errors

    where = load.hub_endpoint or "the hub"
    access: Any = "give a token that may read it with HF_TOKEN" if not load.hub_token else "your token may not read it"
    try:
        yield
    except errors.GatedRepoError:
        raise ModelError(f"{source.repo} is gated: accept its terms at {where}, then {access}") from None
    except errors.RevisionNotFoundError:
        raise ModelError(f"{source.repo} has no revision {load.revision!r}") from None
    except errors.RepositoryNotFoundError:
        raise ModelError(
            f"no such model: {where} has no repository {source.repo!r}, or it is private ({access})"
        ) from None
    except errors.HFValidationError as error:
        raise ModelError(f"{source.repo!r} is no hub id: {error}") from None
    except errors.HfHubHTTPError as error:
        raise ModelError(f"{where} refused {source.repo}: {' '.join(str(error).split())}") from None
    except (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError):
        raise ModelError(f"no network: {where} could not be reached for {source.repo}") from None
    except errors.HTTPError as error:
        raise ModelError(f"no network: {where} could not be reached for {source.repo} ({error})") from None
