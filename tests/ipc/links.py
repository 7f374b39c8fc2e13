"""Control's side of links, for doubles of control in threads."""

import select
import socket

from kbroker.ipc import connecting


def next_link(listener: socket.socket) -> socket.socket:
    """Wait for the next process that wants a link. OSError when the listener is closed
    meanwhile."""
    while (end := listener.fileno()) >= 0:
        poll = select.poll()
        poll.register(end, select.POLLIN)
        poll.poll(50)
        try:
            link = connecting.accept(listener)
        except EOFError as error:
            raise OSError("nobody can connect any more") from error
        if link is not None:
            return link
    raise OSError("the listener is closed")
