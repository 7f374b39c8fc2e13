"""UpdateFeatures (key 57), v0-2: raise or lower the feature levels in force (KIP-584, KIP-778).

v1 upgrade type and validate only; v2 no results per feature. A level is stored and shown by
ApiVersions at once.
"""

from kbroker.api.context import RequestContext
from kbroker.api.later import running
from kbroker.api.row import Api
from kbroker.api.versions import VERSIONS
from kbroker.control.changes.config_change import share_min_isr
from kbroker.control.images import next_image
from kbroker.control.metadata.eligible_leaders import FEATURE as ELIGIBLE_LEADERS
from kbroker.control.metadata.features import check_update, finalized
from kbroker.control.store.change import Change
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import KafkaError
from kbroker.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kbroker.protocol.slices import Table

API = Api(ApiKey.UPDATE_FEATURES, 0, 2)


@running
async def handle(ctx: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Change all levels, or none if one is refused."""
    broker = ctx.broker
    async with broker.changing:
        updates = Table((update.feature, update) for update in request.feature_updates)
        error = _first_error(ctx, updates)
        if error is None and not request.validate_only:
            levels = {name: update.max_version_level for name, update in updates.items()}
            if levels:
                await broker.in_store(lambda store: store.apply(Change(features=levels)))
                broker.features |= levels
                broker.features_epoch += 1
                await broker.links.announce(next_image(broker))
                if levels.get(ELIGIBLE_LEADERS, 0) > 0:
                    await share_min_isr(broker)
        updates.clear()
    if error is not None:
        message = (
            f"The update failed for all features since the following feature had an error: {error.message}"
        )
        return UpdateFeaturesResponse(error_code=error.code, error_message=message)
    results = [UpdatableFeatureResult(update.feature, 0, "NONE") for update in request.feature_updates]
    return UpdateFeaturesResponse(error_message=None, results=results if ctx.version < 2 else [])


def refuse(request: UpdateFeaturesRequest, error: KafkaError, version: int) -> UpdateFeaturesResponse:
    """The request failed as a whole."""
    return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)


def _first_error(ctx: RequestContext, updates: Table[str, FeatureUpdateKey]) -> KafkaError | None:
    """The error of the first update that is refused; of several updates of a feature the last one
    counts. Kafka's controller ignores v0's allow_downgrade: each update of v0 is an upgrade."""
    current = finalized(ctx.broker.features, VERSIONS)
    for name, update in updates.items():
        try:
            level, kind = update.max_version_level, update.upgrade_type
            check_update(name, level, kind, current, VERSIONS, ctx.broker.node_id)
        except KafkaError as error:
            return error
    return None
