"""DescribeConfigs (key 32), v1-4: settings of topics, brokers, loggers, groups and client metrics subscriptions.

v1 synonyms and sources in place of "is default" (v0 is gone since Kafka 4.0); v3 documentation and types; v4 flexible.
Null or empty keys ask for all settings. Sensitive values are null.
"""

from kbroker.api.config_entries import entries_of
from kbroker.api.context import RequestContext
from kbroker.api.row import Api
from kbroker.config.describe import Entry
from kbroker.config.setting import ConfigError
from kbroker.control.config_resource import NAMES
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

API = Api(ApiKey.DESCRIBE_CONFIGS, 1, 4)


def handle(ctx: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """One result per resource."""
    for resource in request.resources:
        if resource.resource_type not in NAMES:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
    return DescribeConfigsResponse(
        results=[_result(ctx, request, resource) for resource in request.resources]
    )


def refuse(request: DescribeConfigsRequest, error: KafkaError, version: int) -> DescribeConfigsResponse:
    """The request failed as a whole: every resource carries the error."""
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(error.code, error.message, resource.resource_type, resource.resource_name)
            for resource in request.resources
        ]
    )


def _result(
    ctx: RequestContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    kind, name = resource.resource_type, resource.resource_name
    try:
        entries = entries_of(ctx.broker, kind, name, resource.configuration_keys)
    except ConfigError as error:
        return DescribeConfigsResult(ErrorCode.INVALID_CONFIG, str(error), kind, name)
    except KafkaError as error:
        message = "" if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else error.message
        return DescribeConfigsResult(error.code, message, kind, name)
    synonyms, texts = request.include_synonyms, request.include_documentation
    configs = [_config(entry, synonyms, texts) for entry in entries]
    return DescribeConfigsResult(ErrorCode.NONE, "", kind, name, configs)


def _config(entry: Entry, synonyms: bool, documentation: bool) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        entry.name,
        entry.value,
        entry.read_only,
        entry.source,
        entry.sensitive,
        [DescribeConfigsSynonym(s.name, s.value, s.source) for s in entry.synonyms] if synonyms else [],
        entry.type,
        entry.documentation if documentation else None,
    )
