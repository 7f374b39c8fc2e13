"""The list of APIs, from which dispatch, ApiVersions and docs/apis.md derive."""

import logging
import time
from collections.abc import Mapping
from functools import partial
from types import ModuleType

from kbroker.api import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_share_group_offsets,
    alter_user_scram_credentials,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_delegation_token,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_share_group_offsets,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    expire_delegation_token,
    fetch,
    find_coordinator,
    get_telemetry_subscriptions,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    push_telemetry,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    streams_group_describe,
    streams_group_heartbeat,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    update_features,
    write_txn_markers,
)
from kbroker.api.audit import audit
from kbroker.api.authorization.table import guard_of
from kbroker.api.config_results import ConfigResults
from kbroker.api.context import RequestContext
from kbroker.api.error_counts import ErrorCounts
from kbroker.api.later import Answer, then
from kbroker.api.rebalance_requests import RebalanceRequests
from kbroker.api.row import Api, Owner
from kbroker.api.version_answers import unsupported
from kbroker.control.coordinator.machine import Deferred
from kbroker.control.services import Services
from kbroker.ipc.messages import ClientRequest
from kbroker.net.rate_limited_log import RateLimitedLog
from kbroker.protocol.codec import decode
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.frame import encode_long_response, encode_response
from kbroker.protocol.long_frame import MAX_SLICED_BYTES, LongFrame, TooLarge
from kbroker.protocol.schema import ProtocolError, Struct
from kbroker.protocol.slices import is_sliced, release

log = logging.getLogger(__name__)

MODULES: tuple[ModuleType, ...] = (
    produce,
    fetch,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    find_coordinator,
    join_group,
    heartbeat,
    leave_group,
    sync_group,
    describe_groups,
    list_groups,
    sasl_handshake,
    api_versions,
    create_topics,
    delete_topics,
    delete_records,
    init_producer_id,
    offset_for_leader_epoch,
    add_partitions_to_txn,
    add_offsets_to_txn,
    end_txn,
    write_txn_markers,
    txn_offset_commit,
    describe_acls,
    create_acls,
    delete_acls,
    describe_configs,
    alter_configs,
    alter_replica_log_dirs,
    describe_log_dirs,
    sasl_authenticate,
    create_partitions,
    create_delegation_token,
    renew_delegation_token,
    expire_delegation_token,
    describe_delegation_token,
    delete_groups,
    elect_leaders,
    incremental_alter_configs,
    alter_partition_reassignments,
    list_partition_reassignments,
    offset_delete,
    describe_client_quotas,
    alter_client_quotas,
    describe_user_scram_credentials,
    alter_user_scram_credentials,
    describe_quorum,
    update_features,
    describe_cluster,
    describe_producers,
    unregister_broker,
    describe_transactions,
    list_transactions,
    consumer_group_heartbeat,
    consumer_group_describe,
    get_telemetry_subscriptions,
    push_telemetry,
    list_config_resources,
    describe_topic_partitions,
    share_group_heartbeat,
    share_group_describe,
    share_fetch,
    share_acknowledge,
    streams_group_heartbeat,
    streams_group_describe,
    describe_share_group_offsets,
    alter_share_group_offsets,
    delete_share_group_offsets,
)
"""Every API file. Each has API; those of control also have handle(ctx, request), which returns an
`Answer`, and refuse(request, error, version)."""

APIS: Mapping[int, Api] = {module.API.key: module.API for module in MODULES}
_HANDLERS: Mapping[int, ModuleType] = {module.API.key: module for module in MODULES}

Frame = bytes | LongFrame | None
"""A whole response frame, or None: close the connection without an answer."""


class Dispatch:
    """Answers requests in control. Owner: the process's main."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._configs = ConfigResults(services.broker)
        self._counts = ErrorCounts(services.broker.metrics)
        self._log = RateLimitedLog(log, time.monotonic)
        RebalanceRequests(services, self._counts, self.encoded).register()

    def _warn(self, client: ClientRequest, what: str) -> None:
        self._log("%s:%d %s; closed", client.client_host, client.client_port, what)

    def __call__(self, client: ClientRequest) -> Frame | Deferred:
        """Answer one request in the control process; returns a Deferred if the answer comes
        later."""
        api = APIS.get(client.api_key)
        if api is None or api.owner is not Owner.CONTROL or not api.accepts(client.api_version):
            if client.api_key == api_versions.API.key:
                return unsupported(client)
            self._warn(
                client, f"asked for API {client.api_key} version {client.api_version}, which is not served"
            )
            return None
        try:
            request, _ = decode(
                api.request, client.api_version, client.body
            )  # trailing bytes are legal: librdkafka sends some
        except ProtocolError as error:
            self._warn(client, f"sent a bad {api.name}: {error}")
            return None
        module = _HANDLERS[client.api_key]
        refused = partial(_refused, module, client, request)
        answer: Answer
        try:
            version = self._services.broker.cached_answers.topics
            ctx = RequestContext(self._services, self._configs, client, topics_version=version)
            guard = guard_of(self._services.broker, client)
            answer = module.handle(ctx, request) if guard is None else guard(ctx, request, module.handle)
        except KafkaError as error:
            answer = refused(error)
        return then(answer, partial(self._frame, module, client, request), refused)

    def _frame(
        self, module: ModuleType, client: ClientRequest, request: Struct, response: Struct | bytes | None
    ) -> Frame:
        if isinstance(response, Struct):
            return self.encoded(module, client, response, request)
        if response is not None:
            self._counts.count(client, response)
        if is_sliced():
            release(request)
        return response

    def encoded(self, module: ModuleType, client: ClientRequest, response: Struct, request: Struct) -> Frame:
        """The framed answer. In slices both structs are emptied afterwards. A too large answer
        closes the connection.

        A text that cannot be encoded turns it into UNKNOWN_SERVER_ERROR.
        """
        try:
            try:
                frame = _framed(client, response)
            except ProtocolError as error:
                log.warning("the answer to API %d cannot be written: %s", client.api_key, error)
                response = module.refuse(
                    request, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR), client.api_version
                )
                frame = _framed(client, response)
            refused = self._counts.count(client, response)
            audit(self._services.audit, client, request, response, refused)
            return frame
        except TooLarge:
            self._warn(
                client, f"asked API {client.api_key} for an answer of more than {MAX_SLICED_BYTES} bytes"
            )
        except ProtocolError as error:
            self._warn(client, f"asked API {client.api_key} for something that no answer can hold: {error}")
        finally:
            if is_sliced():
                release(response)
                release(request)
        return None


def _refused(module: ModuleType, client: ClientRequest, request: Struct, error: KafkaError) -> Struct:
    """The answer to a request that fails as a whole, in the form of its API."""
    error.__traceback__ = None  # its stack frames keep the request alive
    response: Struct = module.refuse(request, error, client.api_version)
    return response


def _framed(client: ClientRequest, response: Struct) -> bytes | LongFrame:
    encoded = encode_long_response if is_sliced() else encode_response
    return encoded(client.api_key, client.api_version, client.correlation_id, response)
