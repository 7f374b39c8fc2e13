"""The row by which an API file registers."""

from enum import Enum

import msgspec

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages import request_class, response_class
from kbroker.protocol.schema import Struct


class Owner(Enum):
    """The process that serves an API."""

    CONTROL = "control"
    NETWORK = "network"


class FastPath(msgspec.Struct, frozen=True):
    """Compiled code that may answer a request before `handle` sees it, and with the same bytes.

    file: under kbroker/. answers: the requests that it takes; all others go to `handle`.
    """

    file: str
    answers: str


REPEATED = FastPath("net/local_answers/cached_answer_kernel.py", "repeated requests")
BY_TOPIC = FastPath("net/local_answers/topic_part_kernel.py", "other sets of topics it has seen")
COMMIT_CACHE = FastPath("control/groups/commit_cache/commit_kernel.py", "repeated requests of a member")


class Api(msgspec.Struct, frozen=True):
    """One API: key, the versions that are advertised, the process that serves them.

    accepted_from: lower versions are advertised but closed upon, as Kafka does for clients that
    read the range. fast_paths: what answers before `handle`; `tests/compat/test_fast_paths.py`
    compares both.
    """

    key: ApiKey
    min_version: int
    max_version: int
    owner: Owner = Owner.CONTROL
    accepted_from: int | None = None
    fast_paths: tuple[FastPath, ...] = ()

    @property
    def name(self) -> str:
        """Kafka's name in camel case, as in its documentation: ``CreateTopics``."""
        return "".join(word.capitalize() for word in self.key.name.split("_"))

    def accepts(self, version: int) -> bool:
        """Whether a request of this version is answered."""
        low = self.min_version if self.accepted_from is None else self.accepted_from
        return low <= version <= self.max_version

    @property
    def request(self) -> type[Struct]:
        """Class of the request, one shape for all versions."""
        return request_class(self.key)

    @property
    def response(self) -> type[Struct]:
        """Class of the response."""
        return response_class(self.key)
