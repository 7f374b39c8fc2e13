"""What a connection may do, as words of rows: its own row (AC_*), and that of its principal and host (GR_*).

Without an authorizer, and for super users, CN_ACCESS is 0: everything is allowed. Written by
`net.security.access`, read by kernels.
"""

CN_ACCESS = 18  # of a connection: address of its row

ACCESS_WORDS = 4
AC_GRANT = 0  # address of the row of its principal and host
AC_ID = 1  # the transactional id that was looked at last: address, bytes, and whether it may be used
AC_ID_BYTES = 2
AC_ID_ALLOWED = 3

GRANT_WORDS = 2
GR_TOPICS = 0  # address of a byte for each row of the topic table: MAY_* bits
GR_PRODUCER_IDS = 1  # 1: may write without a transactional id

MAY_WRITE = 1
MAY_READ = 2
MAY_DESCRIBE = 4
