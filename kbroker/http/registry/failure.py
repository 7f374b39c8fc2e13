"""Errors of the registry's API: HTTP status, Confluent's error code, one line of text."""

from http import HTTPStatus


class Failure(Exception):
    """Ends a request with an error."""

    def __init__(self, status: HTTPStatus, code: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.code = code
        self.text = text

    @property
    def is_busy(self) -> bool:
        """Whether another attempt may succeed: this is no verdict about a schema."""
        return self.status is HTTPStatus.SERVICE_UNAVAILABLE or self.code == TIMED_OUT


def subject_not_found(subject: str) -> Failure:
    return Failure(HTTPStatus.NOT_FOUND, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: int | str) -> Failure:
    return Failure(HTTPStatus.NOT_FOUND, 40402, f"Version {version} not found.")


def schema_not_found(number: int | None = None) -> Failure:
    text = "Schema not found" if number is None else f"Schema {number} not found"
    return Failure(HTTPStatus.NOT_FOUND, 40403, text)


def subject_soft_deleted(subject: str) -> Failure:
    text = f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently"
    return Failure(HTTPStatus.NOT_FOUND, 40404, text)


def subject_not_soft_deleted(subject: str) -> Failure:
    text = f"Subject '{subject}' was not deleted first before being permanently deleted"
    return Failure(HTTPStatus.NOT_FOUND, 40405, text)


def version_soft_deleted(subject: str, version: int) -> Failure:
    text = f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete permanently"
    return Failure(HTTPStatus.NOT_FOUND, 40406, text)


def version_not_soft_deleted(subject: str, version: int) -> Failure:
    text = f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    return Failure(HTTPStatus.NOT_FOUND, 40407, text)


def no_subject_level(subject: str) -> Failure:
    text = f"Subject '{subject}' does not have subject-level compatibility configured"
    return Failure(HTTPStatus.NOT_FOUND, 40408, text)


def no_subject_mode(subject: str) -> Failure:
    text = f"Subject '{subject}' does not have subject-level mode configured"
    return Failure(HTTPStatus.NOT_FOUND, 40409, text)


def unprocessable(code: int, text: str) -> Failure:
    return Failure(HTTPStatus.UNPROCESSABLE_ENTITY, code, text)


def invalid_schema(text: str) -> Failure:
    return unprocessable(42201, text)


def invalid_version(given: str) -> Failure:
    text = (
        f"The specified version '{given}' is not a valid version id. Allowed values are between [1, 2^31-1] and "
        'the string "latest"'
    )
    return unprocessable(42202, text)


def operation_not_permitted(text: str) -> Failure:
    return unprocessable(42205, text)


def incompatible(subject: str, reasons: list[str]) -> Failure:
    details = ", ".join(reasons)
    what = "Schema being registered is incompatible with an earlier schema for subject"
    text = f'{what} "{subject}", details: [{details}]'
    return Failure(HTTPStatus.CONFLICT, 409, text)


UNAVAILABLE = 50003
"""Confluent's code for a request that another node would have to serve, which cannot be reached."""

TIMED_OUT = 50002
"""Confluent's code for an operation that has taken too long."""


def unavailable(text: str) -> Failure:
    return Failure(HTTPStatus.SERVICE_UNAVAILABLE, UNAVAILABLE, text)


def busy(text: str) -> Failure:
    return unavailable(f"{text}; try again")


def timed_out(text: str) -> Failure:
    return Failure(HTTPStatus.INTERNAL_SERVER_ERROR, TIMED_OUT, f"Operation timed out: {text}")


def store_failed(text: str) -> Failure:
    return Failure(HTTPStatus.INTERNAL_SERVER_ERROR, 50001, f"Error in the backend data store: {text}")
