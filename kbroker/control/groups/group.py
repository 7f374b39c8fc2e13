"""The base of groups of every type."""

from abc import ABC, abstractmethod
from collections.abc import Collection
from functools import cached_property
from typing import ClassVar

from kbroker.config.java_hash import string_hash
from kbroker.control.coordinator.machine import Record


class Group(ABC):
    """A group of any type. Runs in: control. Owner: the GroupTable."""

    TYPE: ClassVar[str]
    """Kafka's name of the type, in lower case."""

    EXPIRES: ClassVar[bool] = True
    """Whether it is deleted once it has neither members nor offsets."""

    group_id: str

    @cached_property
    def id_hash(self) -> int:
        """Java's hash of the group id: by it clients see many groups in order, again and again."""
        return string_hash(self.group_id)

    @property
    @abstractmethod
    def state_name(self) -> str:
        """The state as clients see it."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the group has no members."""

    @property
    @abstractmethod
    def listed_protocol_type(self) -> str:
        """The protocol type that ListGroups shows."""

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic: its offsets then neither expire nor may be deleted."""

    def topics_read(self) -> Collection[str]:
        """Topics that the members read, if they are known."""
        return ()

    @abstractmethod
    def validate_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation_or_epoch: int,
        transactional: bool,
        api_version: int,
    ) -> None:
        """Check that the sender may commit. Raises KafkaError."""

    @abstractmethod
    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Check that the sender may read offsets. Raises KafkaError."""

    @abstractmethod
    def validate_offset_delete(self) -> None:
        """Check that offsets may be deleted now. Raises KafkaError."""

    @abstractmethod
    def validate_delete(self) -> None:
        """Check that the group may be deleted now. Raises KafkaError."""

    @abstractmethod
    def expiry_base_ms(self, commit_timestamp: int) -> int | None:
        """The time from which the retention of an offset counts; None while nothing expires."""

    @abstractmethod
    def tombstones(self) -> list[Record]:
        """The tombstones of the group, without those of its offsets."""
