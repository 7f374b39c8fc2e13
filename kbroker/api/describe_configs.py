"""DescribeConfigs (key 32), v1-4: settings of topics, brokers, loggers, groups and client metrics
subscriptions.

v1 synonyms and sources in place of "is default" (v0 was removed in Kafka 4.0); v3 documentation and
types; v4 flexible. Null or empty keys ask for all settings. Sensitive values are null.
"""

from collections.abc import Hashable, Iterable

from kbroker.api.cached_answers import cached_answers
from kbroker.api.config_entries import check, entries_of
from kbroker.api.config_results import MAX_KEYS, Listed, keys_of, shown
from kbroker.api.context import RequestContext
from kbroker.api.row import REPEATED, Api
from kbroker.config.describe import Keys
from kbroker.config.setting import ConfigError
from kbroker.control.metadata.config_resource import BROKER_LOGGER, NAMES
from kbroker.ipc.cached_answers import CachedAnswer
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kbroker.protocol.slices import Names, Parts, distinct, emptied, paced

API = Api(ApiKey.DESCRIBE_CONFIGS, 1, 4, fast_paths=(REPEATED,))
MAX_REPEATED = 100
"""Maximum of results of a request for further keys of resources that already have a result."""


def handle(ctx: RequestContext, request: DescribeConfigsRequest) -> CachedAnswer | DescribeConfigsResponse:
    """One result per resource and set of keys, even if they are named several times."""
    for resource in request.resources:
        if resource.resource_type not in NAMES:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
    named = _named(request.resources)
    levels: Listed = []  # of loggers: they change without a notification
    response = DescribeConfigsResponse(results=[_result(ctx, request, each, levels) for each in paced(named)])
    has_levels = any(each.resource_type == BROKER_LOGGER for each in paced(named))
    emptied(named)
    return response if has_levels else cached_answers(ctx, response)


def _named(resources: Iterable[DescribeConfigsResource]) -> list[DescribeConfigsResource]:
    """The resources to describe. Apache Kafka answers every entry of a request: here repetitions
    are left out, and further keys of a resource after MAX_REPEATED of them, so that a small request
    has no huge answer."""
    seen, named, repeated = Parts(set[Hashable]), [], 0
    for each in distinct(resources, key=_with_keys):
        resource = each.resource_type, each.resource_name
        some = seen.of(resource)
        repeated += resource in some
        if resource not in some or repeated <= MAX_REPEATED:
            some.add(resource)
            named.append(each)
    seen.clear()
    return named


def _with_keys(resource: DescribeConfigsResource) -> Hashable:
    """The resource and a hash of its keys: their sets would need gigabytes for a large request. No
    resource has more settings than MAX_KEYS."""
    keys = resource.configuration_keys or ()
    return resource.resource_type, resource.resource_name, len(keys) <= MAX_KEYS and hash(frozenset(keys))


def refuse(request: DescribeConfigsRequest, error: KafkaError, version: int) -> DescribeConfigsResponse:
    """The request failed as a whole: every resource carries the error."""
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(error.code, error.message, resource.resource_type, resource.resource_name)
            for resource in request.resources
        ]
    )


def _result(
    ctx: RequestContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource, levels: Listed
) -> DescribeConfigsResult:
    keys = keys_of(resource.configuration_keys)
    try:
        return _described(ctx, request, resource, keys, levels)
    finally:
        if isinstance(keys, Names):
            keys.clear()


def _described(
    ctx: RequestContext,
    request: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
    keys: Keys,
    levels: Listed,
) -> DescribeConfigsResult:
    kind, name = resource.resource_type, resource.resource_name
    synonyms, texts = request.include_synonyms, request.include_documentation
    try:
        own_name = check(ctx.broker, kind, name)
        if kind == BROKER_LOGGER:
            if not levels:
                entries = entries_of(ctx.broker, kind, own_name, None)
                levels += [shown(entry, synonyms, texts) for entry in entries]
            configs = [each for each in levels if each.name in keys] if keys else levels
        else:
            configs = ctx.configs.get(kind, own_name, keys, synonyms, texts)
    except ConfigError as error:
        return DescribeConfigsResult(ErrorCode.INVALID_CONFIG, str(error), kind, name)
    except KafkaError as error:
        message = "" if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else error.message
        return DescribeConfigsResult(error.code, message, kind, name)
    return DescribeConfigsResult(ErrorCode.NONE, "", kind, name, configs)
