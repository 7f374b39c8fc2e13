"""Odd records in the coordinators' logs: each is left out, the rest is loaded and served."""

import pytest

from tests.fuzz.campaign import MARKS, Round, campaign
from tests.fuzz.odd_logs import groups_round, share_round, transactions_round

pytestmark = MARKS


@pytest.mark.parametrize(
    "one", [groups_round, transactions_round, share_round], ids=["groups", "transactions", "shares"]
)
def test_a_log_with_odd_records_is_loaded_and_served(one: Round) -> None:
    campaign(one, 0.05)
