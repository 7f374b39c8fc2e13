"""Offloads of a network interface, asked of the driver (ioctl SIOCETHTOOL, which reading needs no
privilege for)."""

import ctypes
import fcntl
import socket

SIOCETHTOOL = 0x8946
ASK = {"tx-checksum": 0x16, "scatter-gather": 0x18, "tso": 0x1E, "gso": 0x23, "gro": 0x2B}


class _Value(ctypes.Structure):
    """struct ethtool_value."""

    _fields_ = (("command", ctypes.c_uint32), ("data", ctypes.c_uint32))


class _Request(ctypes.Structure):
    """struct ifreq with a pointer."""

    _fields_ = (("name", ctypes.c_char * 16), ("data", ctypes.c_void_p), ("rest", ctypes.c_char * 16))


def offloads_of(name: str) -> dict[str, bool]:
    """The offloads that are on; empty where the driver or the system does not say."""
    found: dict[str, bool] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for offload, command in ASK.items():
            value = _Value(command, 0)
            request = _Request(name.encode()[:15], ctypes.addressof(value))
            try:
                fcntl.ioctl(asking, SIOCETHTOOL, request)
            except OSError:
                continue
            found[offload] = bool(value.data)
    return found
