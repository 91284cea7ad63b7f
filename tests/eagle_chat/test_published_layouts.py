"""The aliases, end to end, on tiny checkpoints in exactly the layouts of the published ones, in fp32."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from eagle_chat import hub
from eagle_chat.catalogue import entry
from eagle_chat.errors import UsageError
from eagle_chat.events import Finished
from eagle_chat.loading import load_session
from eagle_chat.options import Dtype, Method, Options
from eagle_chat.session import ChatSession
from engine import Eagle2
from engine.drafters.eagle_head import EagleHead
from tests.eagle_chat.published_layouts import write_llama_2, write_llama_3, write_vicuna
from tests.engine.fused import rotary_base

pytestmark = pytest.mark.usefixtures("one_thread")

WRITERS: dict[str, Callable[[Path], tuple[Path, Path]]] = {
    "llama3-8b": write_llama_3,
    "llama2-7b-chat": write_llama_2,
    "vicuna-7b": write_vicuna,
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """Target and head of each alias."""
    return {alias: write(tmp_path_factory.mktemp("published")) for alias, write in WRITERS.items()}


@pytest.fixture
def tiny_hub(folders, monkeypatch) -> list[str]:
    """A hub that holds the tiny checkpoints; the ids it was asked for."""
    asked: list[str] = []

    def download(repo: str, progress: object) -> Path:
        asked.append(repo)
        known = {
            name: folder
            for alias, (target, head) in folders.items()
            for name, folder in ((entry(alias).target, target), (entry(alias).heads["eagle2"], head))
        }
        return known[repo]

    monkeypatch.setattr(hub, "download", download)
    return asked


def load(**options) -> ChatSession:
    chosen = Options(dtype=Dtype.FP32, max_new_tokens=40, force=True, **options)  # tiny, whatever their names
    return load_session(chosen, lambda event: None, sized=False)


def assert_lossless(session: ChatSession) -> None:
    """EAGLE-2 says what plain decoding says, and is right often enough for that to mean something."""
    stop = threading.Event()
    for prompt in ("Why is the sky blue?", "And the sea?"):
        *_, reply = session.ask(prompt, seed=3, stop=stop)
        *_, plain = session.again(method="none", stop=stop)
        assert isinstance(reply, Finished)
        assert isinstance(plain, Finished)
        assert reply.summary["method"] == "eagle2"
        assert reply.summary["tokens"] == plain.summary["tokens"]
        assert reply.text == plain.text
        assert reply.summary["tau"] > 1.15


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("alias", ["llama3-8b", "llama2-7b-chat"])
def test_folders(folders, alias, temperature):
    """Catches a layout that loads wrongly: shards, old config fields, dtypes, biases, a copied embedding."""
    target, head = folders[alias]
    session = load(model=str(target), head=str(head), temperature=temperature)
    assert session.info.head == str(head)
    assert session.engine.target.model.dtype == torch.float32
    if temperature == 0:
        assert_lossless(session)
    else:
        *_, reply = session.ask("Hi", seed=1, stop=threading.Event())
        *_, plain = session.again(method="none", stop=threading.Event())
        assert isinstance(reply, Finished)
        assert isinstance(plain, Finished)
        assert reply.summary["tokens"] == plain.summary["tokens"]


@pytest.mark.parametrize("alias", list(WRITERS))
def test_aliases(tiny_hub, alias):
    """Catches an alias that fetches the wrong repositories, or a Vicuna without a template."""
    session = load(model=alias)
    assert session.info.method == "eagle2"
    assert session.info.notes == ()
    assert sorted(tiny_hub) == sorted([entry(alias).target, entry(alias).heads["eagle2"]])
    assert_lossless(session)


def test_hub_id_of_an_alias(tiny_hub):
    """Catches a model that has head and template under its alias, but not under its own name."""
    session = load(model="lmsys/vicuna-7b-v1.3")
    assert session.info.method == "eagle2"
    assert session.prompts.encode([{"role": "user", "content": "?"}])[0] == 1


@pytest.mark.parametrize(
    ("alias", "names"),
    [
        ("llama3-8b", {"<|eot_id|>", "<|end_of_text|>"}),
        ("llama2-7b-chat", {"</s>"}),
        ("vicuna-7b", {"</s>"}),
    ],
)
def test_stop_ids(tiny_hub, alias, names):
    """Catches Llama 3 talking on after its turn: tokenizer and generation config each name only some ids."""
    session = load(model=alias, method=Method.NONE)
    ids = session.prompts.tokenizer.convert_tokens_to_ids(sorted(names))
    assert session.settings.stop_ids == set(ids)


def test_heads_are_read_by_their_tensors_and_their_own_config(folders):
    """Catches hyper-parameters taken from the target, or defaults that differ from the reference's."""
    shapes = {}
    for alias in ("llama3-8b", "llama2-7b-chat"):
        target, head = folders[alias]
        drafter = load(model=str(target), head=str(head)).engine.drafters["eagle2"]
        assert isinstance(drafter, Eagle2)
        network = drafter.head
        assert isinstance(network, EagleHead)
        shape = network.layer.layer.shape
        shapes[alias] = (shape.kv_heads, round(rotary_base(network)), shape.rms_norm_eps)
        assert (network.fc.bias is not None) == (alias != "llama3-8b")
        assert network.embedding.weight.shape[0] == network.target_vocabulary
    assert shapes == {"llama3-8b": (2, 500000.0, 1e-5), "llama2-7b-chat": (4, 10000.0, 1e-6)}


def test_head_of_another_model(folders):
    """Catches Llama 2's head on Llama 3, whose hidden size is the same: only the vocabularies tell."""
    with pytest.raises(UsageError, match=r"embedding of \[\d+, 32\], but .*Meta-Llama-3.* has \[\d+, 32\]"):
        load(model=str(folders["llama3-8b"][0]), head=str(folders["llama2-7b-chat"][1]))


def test_folder_without_a_template(folders, tmp_path):
    """Catches Vicuna under an unknown name being prompted in a layout it was not trained with."""
    for place, folder in zip(("mine", "head"), folders["vicuna-7b"], strict=True):
        (tmp_path / place).symlink_to(folder)
    with pytest.raises(UsageError, match="no chat template"):
        load(model=str(tmp_path / "mine"), head=str(tmp_path / "head"))


def test_copies_without_a_template(folders, tmp_path):
    """Catches folders with the hub's files, or either of them, that are called no chat model."""
    target, head = folders["vicuna-7b"]
    (tmp_path / "mine").symlink_to(target)
    session = load(model=str(tmp_path / "mine"), head=str(head))
    assert session.info.notes == (
        f"The tokenizer of {tmp_path / 'mine'} has no chat template: prompts are laid out as for vicuna-7b.",
    )
    assert_lossless(session)
    assert load(model=str(target), method=Method.NONE).info.notes[0].endswith("as for vicuna-7b.")


def test_tokenizer_model_alone(tmp_path, monkeypatch):
    """Catches vicuna-7b, whose repository holds no tokenizer.json, failing or splitting text differently."""
    pytest.importorskip("sentencepiece")
    pytest.importorskip("google.protobuf")
    target, head = write_vicuna(tmp_path / "old", tokenizer_json=False)
    newer, _ = write_vicuna(tmp_path / "new")
    monkeypatch.setattr(hub, "download", lambda repo, progress: head if "EAGLE" in repo else target)
    session = load(model="vicuna-7b")
    monkeypatch.setattr(hub, "download", lambda repo, progress: head if "EAGLE" in repo else newer)
    other = load(model="vicuna-7b")
    for text in ("Why is the sky blue?", "天空 é\n  two"):
        message = [{"role": "user", "content": text}]
        assert session.prompts.encode(message) == other.prompts.encode(message)
    assert_lossless(session)
