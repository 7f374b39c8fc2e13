"""Images of the broker's state, for network processes: all of it, or the changes."""

from kbroker.config.acls import Acl
from kbroker.config.client_quotas import QuotaTable
from kbroker.control.broker import Broker
from kbroker.ipc.messages import AclDelta, Image, TopicImage


def next_image(broker: Broker, topics: tuple[TopicImage, ...] = (), deleted: tuple[str, ...] = ()) -> Image:
    """A delta."""
    broker.image_version += 1
    return _image(broker, False, topics, deleted)


def quota_image(broker: Broker, changed: QuotaTable) -> Image:
    """A delta with all quotas of the entities that have changed."""
    broker.image_version += 1
    return _image(broker, False, quotas=changed)


def acl_image(broker: Broker, added: tuple[Acl, ...], removed: tuple[Acl, ...]) -> Image:
    """A delta with the added and removed ACLs."""
    broker.image_version += 1
    return _image(broker, False, acls=AclDelta(added, removed))


def full_image(broker: Broker) -> Image:
    """Everything, for a network process that starts; includes what is being announced right now."""
    topics = {**broker.catalogue.topics, **broker.announcing}
    entries = tuple(broker.authorizer.acls) if broker.authorizer is not None else ()
    images = tuple(topic.image() for topic in topics.values())
    return _image(broker, True, images, (), broker.quotas, AclDelta(entries))


def _image(
    broker: Broker,
    full: bool,
    topics: tuple[TopicImage, ...] = (),
    deleted: tuple[str, ...] = (),
    quotas: QuotaTable | None = None,
    acls: AclDelta | None = None,
) -> Image:
    settings, features = broker.dynamic_settings(), dict(broker.features)
    version, epoch = broker.image_version, broker.features_epoch
    return Image(version, full, topics, deleted, settings, quotas, features, epoch, acls)
