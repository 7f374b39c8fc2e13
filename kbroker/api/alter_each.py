"""Shared by AlterConfigs and IncrementalAlterConfigs: each resource once, each with its own
result."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import Repeated


class Resource(Protocol):
    """A resource of AlterConfigs or IncrementalAlterConfigs."""

    resource_type: int
    resource_name: str


R = TypeVar("R", bound=Resource)
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)


class ResourceResult(Protocol[A_co]):
    """The class of a resource's result in the answer."""

    def __call__(self, code: int, message: str | None, kind: int, name: str, /) -> A_co: ...


async def alter_each(
    resources: Sequence[R], alter: Callable[[R], Awaitable[None]], answer: ResourceResult[A]
) -> list[A]:
    """Change each resource. A resource that is named twice is not changed."""
    repeated = Repeated((resource.resource_type, resource.resource_name) for resource in resources)
    answers = []
    for resource in resources:
        kind, name = resource.resource_type, resource.resource_name
        try:
            if (kind, name) in repeated:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            await alter(resource)
            answers.append(answer(ErrorCode.NONE, None, kind, name))
        except KafkaError as refused:
            answers.append(answer(refused.code, refused.message, kind, name))
    repeated.clear()
    return answers


def refuse_each(resources: Sequence[R], answer: ResourceResult[A], error: KafkaError) -> list[A]:
    """The request failed as a whole: every resource carries the error."""
    return [
        answer(error.code, error.message, resource.resource_type, resource.resource_name)
        for resource in resources
    ]
