"""The hub client lists, downloads and checks; we choose the files."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infer_api.errors import ModelError
from infer_api.sources import Expect, FetchRequest
from infer_source_hub.files import choose_files
from infer_source_hub.options import HubOptions

__all__ = ["HubSource"]


class HubSource:
    """The source. A spec is "org/name" or "org/name/file"."""

    def __init__(self, options: HubOptions) -> None:
        self._options = options

    def fetch(self, request: FetchRequest, folder: Path, expect: Expect) -> None:
        from huggingface_hub import HfApi, snapshot_download

        if not isinstance(request.spec, str) or request.spec.count("/") < 1:
            raise ModelError(f"the alias {request.name!r} of a catalog is damaged: its spec must be org/name")
        org, name, *rest = request.spec.split("/", 2)
        repo, options = f"{org}/{name}", self._options
        # False: without a token of ours the client would look for one in files of the user's home.
        token = options.token or False
        with _explained(repo, options), _no_bars():
            api = HfApi(endpoint=options.endpoint, token=token)
            info = api.model_info(repo, revision=options.revision, files_metadata=True)
            sizes = {one.rfilename: one.size or 0 for one in info.siblings or ()}
            chosen = choose_files(repo, "".join(rest), sizes, request.formats)
            total = sum(sizes[name] for name in chosen)
            expect(total, total)
            # The commit that was listed: a push in between cannot mix two versions.
            revision = info.sha or options.revision
            snapshot_download(
                repo,
                revision=revision,
                local_dir=folder,
                allow_patterns=chosen,
                endpoint=options.endpoint,
                token=token,
            )
        shutil.rmtree(folder / ".cache", ignore_errors=True)  # the client's own notes
        if "/" in chosen[0]:
            _flatten(folder, chosen[0])


def _flatten(folder: Path, name: str) -> None:
    """Move the one file that was fetched out of the repository's folders, which are removed."""
    moved = (folder / name).rename(folder / ".moved")  # a folder may be called like the file in it
    shutil.rmtree(folder / name.partition("/")[0])
    moved.rename(folder / Path(name).name)


@contextmanager
def _no_bars() -> Iterator[None]:
    """Silence the client's own bars: core's shows the whole."""
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    silent = are_progress_bars_disabled()
    disable_progress_bars()
    try:
        yield
    finally:
        if not silent:
            enable_progress_bars()


@contextmanager
def _explained(repo: str, options: HubOptions) -> Iterator[None]:
    """Turn what the client raises into one line."""
    from huggingface_hub import errors

    where = options.endpoint or "the hub"
    access = "your token may not read it" if options.token else "give a token that may read it with HF_TOKEN"
    try:
        yield
    except errors.GatedRepoError:
        raise ModelError(f"{repo} is gated: accept its terms at {where}, then {access}") from None
    except errors.RevisionNotFoundError:
        raise ModelError(f"{repo} has no revision {options.revision!r}") from None
    except errors.RepositoryNotFoundError:
        raise ModelError(f"no such model: {where} has no repository {repo!r}, or it is private ({access})") from None
    except errors.HFValidationError as error:
        raise ModelError(f"{repo!r} is no hub id: {error}") from None
    except errors.HfHubHTTPError as error:
        raise ModelError(f"{where} refused {repo}: {' '.join(str(error).split())}") from None
    except (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError):
        raise ModelError(f"no network: {where} could not be reached for {repo}") from None
    except errors.HTTPError as error:
        raise ModelError(f"no network: {where} could not be reached for {repo} ({error})") from None
