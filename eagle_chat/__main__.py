"""`eagle-chat` and `python -m eagle_chat`: run the command line and turn what goes wrong into a sentence."""

import sys

from eagle_chat.errors import EXIT_INTERRUPTED, EagleChatError


def main() -> None:
    """Exit with the code of the contract. A user's mistake never shows a traceback."""
    try:
        from eagle_chat.cli import cli

        cli()
    except EagleChatError as error:
        print(f"eagle-chat: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("eagle-chat: interrupted", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
