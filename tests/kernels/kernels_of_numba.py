"""This machine's kernels as numba made them."""

import importlib

import pytest

from kbroker.kernels import jit, plain, warm
from kbroker.kernels.linking.object_image import CompiledKernel


def all_kernels() -> list[CompiledKernel]:
    """From numba's cache, sorted; skips the test where there are none."""
    if plain.ACTIVE:
        pytest.skip("nothing is compiled")
    modules = warm.modules()
    for name in modules:
        importlib.import_module(name)
    found = [warm.compiled(one) for one in jit.DECLARED if one.py_func.__module__ in modules]
    whole = [one for one in found if one is not None]
    if not whole or len(whole) < len(found):
        pytest.skip("`make kernels` compiles them")
    return sorted(whole, key=lambda one: (one.module, one.name))
