"""Cipher suites by the names of RFCs and Java, as OpenSSL has them."""

import pytest

from kbroker.config.tls_ciphers import ALWAYS_TLS13, openssl_name, split


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_128_CBC_SHA", "DHE-RSA-AES128-SHA"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256"),
        ("TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CCM", "ECDHE-ECDSA-AES128-CCM"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_CCM_8", "ECDHE-ECDSA-AES256-CCM8"),
        ("TLS_RSA_WITH_3DES_EDE_CBC_SHA", None),
        ("TLS_AES_128_GCM_SHA256", None),
        ("ECDHE-RSA-AES128-GCM-SHA256", None),
        ("xTLS_RSA_WITH_AES_256_CBC_SHA", None),
    ],
)
def test_a_suite_has_the_name_that_openssl_gives_it(suite: str, name: str | None) -> None:
    assert openssl_name(suite) == name


def test_suites_of_tls_1_3_are_apart_and_others_keep_their_order() -> None:
    newest = "TLS_AES_256_GCM_SHA384"
    given = ["TLS_RSA_WITH_AES_256_CBC_SHA", newest, "TLS_NONE", "TLS_RSA_WITH_AES_128_CBC_SHA", "x"]
    assert split(given) == (frozenset((newest,)), ["AES256-SHA", "AES128-SHA"], ["TLS_NONE", "x"])
    assert split(ALWAYS_TLS13) == (ALWAYS_TLS13, [], [])
    assert split([]) == (frozenset(), [], [])
