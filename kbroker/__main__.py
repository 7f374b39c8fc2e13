"""`python -m kbroker` is the same program as the `kbroker` command."""

import sys
from pathlib import Path

PACKAGES = Path(__file__).resolve().parent.parent


def forget_current_folder() -> None:
    """Python looks for modules in the current folder first: a user's loadtest.py would be imported
    instead of the package. A source tree stays: it has the packages."""
    if not sys.flags.safe_path and sys.path[:1] == [str(Path.cwd())] != [str(PACKAGES)]:
        del sys.path[0]


if __name__ == "__main__":
    forget_current_folder()
    from kbroker.cli.app import main

    main()
