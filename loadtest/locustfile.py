"""The file that Locust loads: the users of the run that LOADTEST_RUN names."""

import sys
from pathlib import Path

# Locust puts its own folder and the current one first, where a user's loadtest.py may be.
sys.path.insert(0, str(Path(__file__).parents[1]))

from loadtest.users import user_classes

globals().update(user_classes())
