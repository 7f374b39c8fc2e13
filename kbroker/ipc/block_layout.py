"""The head of a message in a block, see `block.py`."""

from kbroker.kernels.row import Struct, field


class MessageHead(Struct, writer="network (requests), control (answers)", shared="network and control"):
    """The head of a request or an answer in a block."""

    CALL_ROW_BITS = 24  # the low bits of a call: the connection's row

    MESSAGE_BYTES = field("int64", "bytes", "of the whole message, this head and padding included")
    CALL = field("int64", "number", "the request that is answered; 0: no client waits for an answer any more")
    PEER_BYTES = field("int32", "bytes", "of a request: of the peer. Of an answer: its status")
    FRAME_BYTES = field("int32", "bytes", "of the frame")
    STATUS = PEER_BYTES
