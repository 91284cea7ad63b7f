"""The configuration file and the environment: who wins, what is refused, and what measurements ignore."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.eagle_chat.conftest import Ran, assert_refused

Command = Callable[..., Ran]


def shown(command: Command, *args: object) -> dict[str, dict[str, object]]:
    """The settings as `config --json` reports them."""
    ran = command(*args, "config", "--json")
    assert ran.code == 0, ran.err
    return json.loads(ran.out)["settings"]


def test_flag_over_environment_over_file_over_default(
    command: Command, no_configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a source that loses against a weaker one, or is reported as another."""
    no_configuration.write_text("temperature = 0.25\ntop-p = 0.5\nseed = 7\nascii = true\n")
    monkeypatch.setenv("EAGLE_CHAT_TEMPERATURE", "0.5")
    monkeypatch.setenv("EAGLE_CHAT_TOP_P", "0.75")
    settings = shown(command, "--temperature", 1)
    file, flag = str(no_configuration), "command line"
    assert settings["temperature"] == {"value": 1.0, "source": flag}
    assert settings["top-p"] == {"value": 0.75, "source": "EAGLE_CHAT_TOP_P"}
    assert settings["seed"] == {"value": 7, "source": file}
    assert settings["ascii"] == {"value": True, "source": file}
    assert settings["max-new-tokens"] == {"value": 512, "source": "default"}


def test_what_is_configured_is_used(
    command: Command, chat_model: Path, no_configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a configuration that has no effect, or wins over a flag in front of the command."""
    no_configuration.write_text(
        f'model = "{chat_model}"\nmethod = "none"\ndtype = "fp32"\nseed = 3\nmax-new-tokens = 4\n'
    )
    monkeypatch.setenv("EAGLE_CHAT_TEMPERATURE", "0.5")
    report = json.loads(command("run", "Hi", "--json").out)
    assert [report[key] for key in ("method", "seed", "new_tokens", "temperature")] == ["none", 3, 4, 0.5]
    report = json.loads(command("--seed", 4, "run", "Hi", "--json", "--max-new-tokens", 6).out)
    assert [report[key] for key in ("seed", "new_tokens", "temperature")] == [4, 6, 0.5]
    piped = command(stdin=b"Hi\n")
    assert piped.code == 0
    assert "seed 3" in piped.err


def test_a_measurement_takes_the_weights_alone(
    command: Command, chat_model: Path, no_configuration: Path, sky: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a temperature, meant for chatting, that changes what a head or a method is measured at."""
    no_configuration.write_text(
        f'model = "{chat_model}"\ndtype = "fp32"\ntemperature = 0.9\nmethod = "pld"\n'
    )
    monkeypatch.setenv("EAGLE_CHAT_SEED", "9")
    asked = []
    monkeypatch.setattr("eagle_chat.bench.bench", lambda options, job: asked.append(options) or 0)
    monkeypatch.setattr("eagle_chat.evaluate.evaluate", lambda options, job: asked.append(options) or 0)
    monkeypatch.setattr("eagle_chat.train.train", lambda options, job: asked.append(options) or 0)
    for args in (("bench", "--questions", sky), ("evaluate", "--questions", sky), ("train", "--out", "x")):
        assert command(*args).code == 0
    for options in asked:
        assert (options.model, options.dtype) == (str(chat_model), "fp32")
        assert (options.temperature, options.method, options.seed) == (0.0, None, None)
    assert command("-t", 0.5, "bench", "--questions", sky).code == 0
    assert asked[-1].temperature == 0.5
    assert asked[0].max_new_tokens == 128


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("temprature = 1", ["'temprature'", "did you mean 'temperature'?"]),
        ("top_p = 1", ["'top_p'", "did you mean 'top-p'?"]),
        ("temperature = 'warm'", ["'temperature'", "number"]),
        ("temperature = 0.0001", ["'temperature'", "too small"]),
        ("top-p = 3", ["'top-p'", "at most 1"]),
        ("seed = true", ["'seed'", "a text or a number"]),
        ("ascii = 1", ["'ascii'", "true or false"]),
        ("dtype = 'fp8'", ["'dtype'", "'fp8' is not one of", "'bf16'"]),
        ("nodes = [1]", ["'nodes'", "single value"]),
        ("keys = 3", ["'keys'", "[keys]"]),
        ("[keys]\n'app.compare' = 3", ["'keys.app.compare'", "ctrl+r"]),
        ("[keys]\napp.compar = 'f6'", ["'app.compar'", "did you mean 'app.compare'?"]),
        ("[keys]\napp.compare = 'foo'", ["'foo'", "'app.compare'", "is no key"]),
        ("[keys]\napp.compare = 'ctrl+n'", ["'ctrl+n'", "'app.compare'", "is the key of 'app.new_chat'"]),
        ("temperature = x", ["cannot be read", "line 1"]),
    ],
)
def test_a_mistake_is_named(command: Command, no_configuration: Path, text: str, parts: list[str]) -> None:
    """Catches a setting that is ignored in silence, and a traceback."""
    no_configuration.write_text(text)
    assert_refused(command("config"), str(no_configuration), *parts)


def test_a_mistake_in_the_environment_names_the_variable(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches a sentence about an option that nobody gave."""
    monkeypatch.setenv("EAGLE_CHAT_TOP_P", "3")
    assert_refused(command("run", "Hi"), "EAGLE_CHAT_TOP_P", "at most 1")


def test_the_file_is_found_and_made(
    command: Command, no_configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches an existing file overwritten, and a broken one that nothing opens any more."""
    assert command("config", "path").out == f"{no_configuration}\n"
    assert "no such file" in command("config").err
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "true")
    assert command("config", "edit").code == 0
    assert "# temperature = 0.0" in no_configuration.read_text()
    plain = no_configuration.read_text()
    no_configuration.write_text(plain.replace("# temperature = 0.0", "temperature = 0.5"))
    assert command("config", "edit").code == 0
    assert shown(command)["temperature"]["value"] == 0.5
    no_configuration.write_text("temperature =")
    assert command("config", "path").code == 0
    assert_refused(command("config", "edit"), "cannot be read")
    monkeypatch.setenv("EDITOR", "no-such-editor")
    refused = command("config", "edit")
    assert refused.code == 1
    assert "'no-such-editor' cannot be started" in refused.err


def test_the_whole_template_is_valid(
    command: Command, no_configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches an example in the new file that could not be used as it stands."""
    monkeypatch.setenv("VISUAL", "true")
    command("config", "edit")
    lines = no_configuration.read_text().splitlines()
    examples = [line.removeprefix("# ") for line in lines if " = " in line and "…" not in line]
    no_configuration.write_text("\n".join([*examples[:-1], "[keys]", examples[-1]]))
    ran = command("config")
    assert ran.code == 0, ran.err
    assert "keys.app.compare" in ran.out


def test_config_needs_no_torch() -> None:
    """Catches seconds of waiting for a list of settings."""
    code = (
        "import sys; sys.argv = ['eagle-chat', 'config']\n"
        "from eagle_chat.cli import cli\n"
        "try: cli()\n"
        "except SystemExit: pass\n"
        "sys.exit(sorted({'torch', 'transformers', 'engine'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
