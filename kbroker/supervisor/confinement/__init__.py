"""Rights that a child process gives up before its main runs, so that a client who takes it over
gains little.

Runs in each child, right after its fork. The kernel enforces it: Landlock, seccomp, and no
capabilities. May be called by `supervisor.child`.
"""
