"""Runs unit tests of Prometheus rules."""

import subprocess


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr
