"""The kernels of commands that work on files without a broker."""

from kbroker.cli.failures import CommandFailed


def use_kernels() -> None:
    """Take them from an image before the first one is imported: they come from numba otherwise,
    whose import takes seconds. Raises CommandFailed where neither is possible."""
    from kbroker.kernels import image, installed, packaged

    if not image.use() and not installed.has_compiler():
        raise CommandFailed(packaged.reason())
