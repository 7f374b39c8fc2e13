"""Links the object files of kernels into one file that processes map and share, without a compiler
or linker on the machine."""
