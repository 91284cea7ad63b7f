"""Fetches a model's files into the Hugging Face hub's own cache, and says in one sentence why it cannot."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from eagle_chat.errors import EagleChatError, UsageError
from eagle_chat.events import Loading
from eagle_chat.failures import causes, disk_full, is_disk_full
from eagle_chat.fingerprint import weight_files

FILES = ["*.json", "*.jinja", "*.model", "*.txt", "*.safetensors", "freq_*.pt"]
OLDER = ["*.bin", "*_lm_head.pt"]  # fetched where there is nothing else
# Other formats of the same weights and what a trainer left behind; folders hold exports (onnx/, original/).
UNWANTED = ["*/*", "consolidated*", "training_args.bin", "optimizer.bin", "scheduler.bin"]
ANSWER_SECONDS = 10.0


def download(repo: str, progress: Callable[[Loading], None]) -> Path:
    """The folder of a hub model's files, fetched where missing. HF_HOME, HF_TOKEN and HF_HUB_OFFLINE hold."""
    progress(Loading(f"looking for {repo} on the hub"))
    with asking(repo):
        reachable = answers(repo)
        folder = _snapshot(repo, FILES, reachable, progress)
        if not weight_files(folder):
            folder = _snapshot(repo, [*FILES, *OLDER], reachable, progress)
    return folder


@contextmanager
def asking(repo: str) -> Iterator[None]:
    """Makes the errors of the hub's library ours, and keeps its advice off the terminal."""
    from huggingface_hub import constants
    from huggingface_hub.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()  # about tokens and symbolic links
    try:
        yield
    except EagleChatError:
        raise  # the watcher's own
    except Exception as error:  # the library's kinds share no base, and all mean that there is no model
        if is_disk_full(error):
            raise disk_full(repo, Path(constants.HF_HUB_CACHE)) from error
        raise _explain(repo, error) from error
    finally:
        logging.set_verbosity(before)


def answers(repo: str) -> bool:
    """False where the network leads nowhere: the hub's library would wait for it without a limit."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HTTPError, OfflineModeIsEnabled

    try:
        HfApi().model_info(repo, timeout=ANSWER_SECONDS)
    except (HfHubHTTPError, OfflineModeIsEnabled):
        return True  # an answer, and the library's own business: it may have the files in its cache
    except (HTTPError, OSError):
        return False
    return True


def _snapshot(repo: str, patterns: list[str], reachable: bool, progress: Callable[[Loading], None]) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import tqdm

    class Forwarding(tqdm):
        """A bar that draws nothing and tells `progress` about bytes instead."""

        def __init__(self, *args: object, **kwargs: object) -> None:
            transfer = str(kwargs.get("name")).endswith(".transfer")  # the same bytes, compressed
            self.forwards = kwargs.get("unit") == "B" and not transfer
            self.done = 0
            super().__init__(*args, **(kwargs | {"disable": True}))

        def update(self, n: float | None = 1) -> None:
            self.done += int(n or 0)
            if self.forwards:
                progress(Loading(f"downloading {repo}", self.done, int(self.total) if self.total else None))

    return Path(
        snapshot_download(
            repo,
            allow_patterns=patterns,
            ignore_patterns=UNWANTED,
            local_files_only=not reachable,
            tqdm_class=Forwarding,
        )
    )


def _explain(repo: str, error: Exception) -> EagleChatError:
    """The hub's error as one sentence: whose mistake it is decides the exit code."""
    from huggingface_hub import errors

    chain = list(causes(error))

    def met(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in chain)

    if met(errors.HFValidationError):
        return UsageError(f"{repo!r} is not a hub id: it should look like owner/name.")
    if met(errors.RepositoryNotFoundError) and not met(
        errors.GatedRepoError
    ):  # the second is one of the first
        return UsageError(
            f"There is no model {repo} on the hub, or it is private: check the name, "
            "or sign in with `hf auth login`."
        )
    codes = [cause.response.status_code for cause in chain if isinstance(cause, errors.HfHubHTTPError)]
    if met(errors.GatedRepoError):
        what = _gated(repo)
    elif met(errors.OfflineModeIsEnabled):
        what = (
            f"{repo} is not in the hub's local cache and HF_HUB_OFFLINE is set: unset it once to download it"
        )
    elif codes:
        what = f"The hub answered {codes[0]} for {repo}: try again later, or check HF_TOKEN"
    elif met(errors.LocalEntryNotFoundError, errors.HTTPError, ConnectionError, TimeoutError):
        what = f"The hub cannot be reached and {repo} is not in its local cache: check the network connection"
    else:
        what = f"{repo} could not be downloaded from the hub: {' '.join(str(error).split())}"
    return EagleChatError(f"{what}.")


def _gated(repo: str) -> str:
    """What to accept, and where the token goes or why it is not enough."""
    from huggingface_hub import get_token

    accept = f"{repo} is gated: accept its licence on the hub's page {repo}"
    if get_token():
        return f"{accept} with the account of your token (`hf auth whoami`), and wait for the approval"
    return f"{accept}, then sign in with `hf auth login` or set HF_TOKEN"
