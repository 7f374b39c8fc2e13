"""A search for inputs that is guided by coverage, and the inputs that it has found, as a corpus.

`python -m tests.fuzz.guided` runs it (`make fuzz-guided`). Kernels are plain Python over checked
memory there, so that they have coverage, and every access has bounds and a writer.
"""
