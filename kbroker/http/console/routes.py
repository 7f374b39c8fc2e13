"""The table of the API: dispatch, checks and the OpenAPI document come from it."""

import re
from collections.abc import Mapping

from kbroker.http.console.changes import access as change_access
from kbroker.http.console.changes import groups as change_groups
from kbroker.http.console.changes import topics as change_topics
from kbroker.http.console.paging import PAGE
from kbroker.http.console.request import Route
from kbroker.http.console.schema import INT32, TOPIC_NAME, Parameter
from kbroker.http.console.views import (
    access,
    clients,
    groups,
    host,
    log_dirs,
    messages,
    overview,
    reports,
    settings,
    topics,
)
from kbroker.http.console.views import transactions as transaction_views

SEARCH = Parameter("search", "A text that the name contains.")
TOPIC = (Parameter("topic", "Name of the topic.", required=True, pattern=TOPIC_NAME),)
GROUP = (Parameter("group", "Id of the group.", required=True, high=1000),)
USER = (Parameter("user", "Name of the user.", required=True),)

REPORT = (Parameter("report", "Name of the report.", required=True, high=1000),)

# fmt: off
ROUTES: tuple[Route, ...] = (
    Route("/api/overview", "The broker, its last sample, and earlier samples.", overview.overview, overview.OVERVIEW),
    Route("/api/topics", "Topics with sizes and rates.", topics.topics, topics.TOPICS, tag="topics", query=(
        SEARCH, *PAGE,
        Parameter("sort", "Order of the rows.", default="name", choices=tuple(topics.SORTS)),
        Parameter("internal", "Also list internal topics.", "boolean", False))),
    Route("/api/topics", "Create a topic.", change_topics.create, change_topics.CREATED, tag="topics",
          body=change_topics.CREATE),
    Route("/api/topics/{topic}", "A topic with partitions and settings.", topics.topic, topics.TOPIC, tag="topics",
          in_path=TOPIC),
    Route("/api/topics/{topic}/messages", "Messages, ordered by time.", messages.messages, messages.MESSAGES,
          tag="topics", in_path=TOPIC, query=messages.QUERY),
    Route("/api/topics/{topic}/partitions", "Add partitions.", change_topics.grow, change_topics.CHANGED, tag="topics",
          in_path=TOPIC, body=change_topics.GROW),
    Route("/api/topics/{topic}/settings", "Alter settings of a topic.", change_topics.alter, change_topics.CHANGED,
          tag="topics", in_path=TOPIC, body=change_topics.ALTER),
    Route("/api/topics/{topic}/delete", "Delete a topic.", change_topics.delete, change_topics.CHANGED, tag="topics",
          in_path=TOPIC, body=change_topics.REMOVE),
    Route("/api/groups", "Groups of all kinds, with their lag.", groups.groups, groups.GROUPS, tag="groups", query=(
        SEARCH, *PAGE,
        Parameter("kind", "Only groups of this kind.", choices=groups.KINDS),
        Parameter("topic", "Only groups that read this topic, with their lag there.", pattern=TOPIC_NAME),
        Parameter("sort", "Order of the rows.", default="lag", choices=("lag", "name")))),
    Route("/api/groups/{group}", "A group with its members, committed offsets and lag.", groups.group, groups.GROUP,
          tag="groups", in_path=GROUP),
    Route("/api/groups/{group}/reset", "Reset committed offsets, or preview the reset.", change_groups.reset,
          change_groups.MOVES, tag="groups", in_path=GROUP, body=change_groups.RESET),
    Route("/api/groups/{group}/delete", "Delete a group.", change_groups.delete, change_groups.DELETED, tag="groups",
          in_path=GROUP, body=change_groups.REMOVE),
    Route("/api/transactions", "Transactional ids and their state.", transaction_views.transactions,
          transaction_views.TRANSACTIONS, query=(SEARCH, *PAGE)),
    Route("/api/clients", "Connected clients, those with the most bytes per second first, and queued bytes by address.",
          clients.clients, clients.CLIENTS, query=(clients.SEARCH, *PAGE)),
    Route("/api/quotas", "Client quotas.", access.quotas, access.QUOTAS, tag="security", query=PAGE),
    Route("/api/quotas", "Set and remove quotas.", change_access.alter_quotas, change_access.CHANGED_QUOTAS,
          tag="security", body=change_access.QUOTAS),
    Route("/api/users", "Names of SCRAM users.", access.users, access.USERS, tag="security", query=PAGE),
    Route("/api/users", "Add a SCRAM user, or set its password.", change_access.put_user,
          change_access.CHANGED_USER, tag="security", body=change_access.USER),
    Route("/api/users/{user}/delete", "Delete a SCRAM user.", change_access.delete_user,
          change_access.CHANGED_USER, tag="security", in_path=USER, body=change_access.REMOVE_USER),
    Route("/api/acls", "ACLs.", access.acls, access.ACLS, tag="security", query=PAGE),
    Route("/api/acls", "Create an ACL.", change_access.create_acl, change_access.CHANGED_ACL, tag="security",
          body=change_access.ACL_FIELDS),
    Route("/api/acls/delete", "Delete an ACL.", change_access.delete_acl, change_access.CHANGED_ACL,
          tag="security", body=change_access.ACL_FIELDS),
    Route("/api/log-dirs", "Log dirs, their largest partitions and their file systems.", log_dirs.log_dirs,
          log_dirs.LOG_DIRS),
    Route("/api/host", "The tuner's findings about the host, the settings and the running broker.", host.host,
          host.HOST),
    Route("/api/reports", "Reports in the folder of kbroker.console.reports.dir.", reports.reports, reports.REPORTS,
          query=PAGE),
    Route("/api/reports/{report}", "A report: its tables, and its text from an offset on.", reports.report,
          reports.REPORT, in_path=REPORT, query=(
              Parameter("offset", "Number of characters of the text to skip.", "integer", 0, high=INT32),)),
    Route("/api/settings", "Settings of the broker.", settings.broker_settings, settings.SETTINGS),
    Route("/api/settings", "Alter dynamic settings of the broker.", change_topics.alter_broker, change_topics.CHANGED,
          body=change_topics.ALTER),
)
# fmt: on
_NAME = re.compile(r"\{[a-z]+\}")


def _pattern(path: str) -> re.Pattern[str]:
    names = [name.strip("{}") for name in _NAME.findall(path)]
    text = re.escape(path)
    for name in names:
        text = text.replace(re.escape("{" + name + "}"), f"(?P<{name}>[^/]+)")
    return re.compile(text)


_PATTERNS = [(_pattern(route.path), route) for route in ROUTES]


def find(path: str) -> tuple[dict[str, Route], Mapping[str, str]]:
    """The routes of a path by method, and its raw parameters; empty if no route matches."""
    found: dict[str, Route] = {}
    names: Mapping[str, str] = {}
    for pattern, route in _PATTERNS:
        if match := pattern.fullmatch(path):
            found[route.method] = route
            names = match.groupdict()
    return found, names
