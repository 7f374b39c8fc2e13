"""`python -m kbroker` is the same program as the `kbroker` command."""

from kbroker.cli.app import main

if __name__ == "__main__":
    main()
