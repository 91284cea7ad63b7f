"""What can go wrong, each as one sentence: what is wrong, which file or setting, what to do."""


class EngineError(Exception):
    """Base of the engine's own errors."""


class SettingsError(EngineError, ValueError):
    """A setting is out of range, or settings do not fit each other."""


class PromptTooLongError(SettingsError):
    """The prompt leaves no room in the model's context."""


class UnsupportedModelError(EngineError, ValueError):
    """The model's architecture cannot do what the engine needs."""


class CheckpointError(EngineError, ValueError):
    """A draft head cannot be used with this target, or is none."""


class CorruptFileError(CheckpointError):
    """A file of a draft head cannot be read."""


class LoadError(EngineError, RuntimeError):
    """A model cannot be loaded."""
