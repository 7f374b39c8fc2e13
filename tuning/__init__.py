"""Sizes and checks a host for one strong node: facts of the host, knobs with reasons,
micro-benchmarks, a sizing model.

It reads and proposes. Only `verify` changes the host, for its turns, with permission.
"""
