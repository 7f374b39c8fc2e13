"""The generator's model of a message: one shape over all versions, independent of where it was read
from."""

from dataclasses import dataclass, field

Versions = tuple[int, int]


@dataclass
class FieldShape:
    """One field. `type` is a wire type or a struct name, both possibly behind "[]"."""

    name: str
    type: str
    versions: Versions
    default: object
    nullable: Versions | None = None
    tag: int | None = None
    tagged: Versions | None = None
    legacy: bool = False

    @property
    def is_array(self) -> bool:
        return self.type.startswith("[]")

    @property
    def element(self) -> str:
        return self.type.removeprefix("[]")

    @property
    def is_struct(self) -> bool:
        return self.element[0].isupper()


@dataclass
class StructShape:
    name: str
    versions: Versions
    fields: list[FieldShape] = field(default_factory=list)


@dataclass
class MessageShape:
    """A message: its root struct last, and before it the structs it uses, innermost first."""

    name: str
    kind: str
    """request, response, header, data, coordinator-key or coordinator-value"""
    api_key: int | None
    versions: Versions
    flexible: int | None
    structs: list[StructShape]

    @property
    def root(self) -> StructShape:
        return self.structs[-1]


def implicit_default(type_: str, nullable: bool = False) -> object:
    """Kafka's default of a field that states none."""
    if type_.startswith("[]"):
        return ()
    if type_[0].isupper():
        return None if nullable else "new"
    if type_ == "bool":
        return False
    if type_ == "string":
        return ""
    if type_ == "records":
        return None if nullable else b""
    if type_ == "bytes":
        return b""
    if type_ == "uuid":
        return bytes(16)
    return 0.0 if type_ == "float64" else 0
