"""The ACL matrix has all operations, and its record all of its users."""

import json

from kbroker.config import acls
from tests.compat.acl_answers import RECORDED
from tests.compat.acl_matrix import OPERATIONS, grants


def test_each_operation_that_a_kind_of_resource_has_is_granted() -> None:
    assert {kind: set(one) for kind, one in OPERATIONS.items()} == {
        kind: set(one) for kind, one in acls.SUPPORTED.items()
    }


def test_apache_kafkas_answers_to_all_users_are_recorded() -> None:
    assert json.loads(RECORDED.read_text())["users"] == [grant.user for grant in grants()]
