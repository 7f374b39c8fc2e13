"""`python -m kbroker` is the same program as the `kbroker` command."""

import os
import sys

PACKAGES = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def forget_current_folder() -> None:
    """Python looks for modules in the current folder first: a user's loadtest.py would be imported
    instead of the package. A source tree stays: it has the packages. Uses only modules that are
    loaded when Python starts."""
    try:
        here = os.getcwd()
    except OSError:  # it was deleted: then Python has not added it
        return
    if not sys.flags.safe_path and sys.path[:1] == [here] != [PACKAGES]:
        del sys.path[0]


if __name__ == "__main__":
    forget_current_folder()
    from kbroker.cli.app import main

    main()
