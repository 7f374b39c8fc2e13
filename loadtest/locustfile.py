"""The file that Locust loads: the users of the run that LOADTEST_RUN names."""

from loadtest.users import user_classes

globals().update(user_classes())
