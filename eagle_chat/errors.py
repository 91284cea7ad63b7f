"""What goes wrong for a user, as one sentence and an exit code."""

EXIT_DONE = 0
EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


class EagleChatError(Exception):
    """Something failed. The message is one sentence: what is wrong, where, and what to do."""

    exit_code = EXIT_FAILURE


class UsageError(EagleChatError):
    """The command line or the configuration cannot work as given."""

    exit_code = EXIT_USAGE
