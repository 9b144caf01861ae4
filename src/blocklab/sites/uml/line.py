"""A node's serial line: our end of a socketpair."""

from __future__ import annotations

import contextlib
import os
import socket
import threading

from blocklab.errors import NodeLost
from blocklab.sites.channel import Channel, Unreadable

# More under way would throttle the line, which then does not wake up again. It carries about 0.8 MB/s.
WINDOW = 2048
SEND_SECONDS = 10.0
WHY_SECONDS = 1.0


class SerialLine(Channel):
    """Speaks to the agent at the other end of ``end``; a reader thread takes what it says."""

    def __init__(self, node: str, end: socket.socket) -> None:
        super().__init__(node, window=WINDOW, patience=SEND_SECONDS)
        self._end = end
        self._reader = threading.Thread(target=self._read, args=(os.dup(end.fileno()),), daemon=True)
        self._reader.start()

    def _write(self, part: bytes) -> None:
        try:
            self._end.sendall(part)
        except OSError as error:
            # Who looks after the node will say what has become of it; that says more than a closed line.
            with self._lock:
                self._took.wait_for(lambda: self._lost is not None, WHY_SECONDS)
            raise self._lost or NodeLost(self.node, f"its control line is closed ({error})") from error

    def _read(self, fd: int) -> None:
        buffer = bytearray()
        # Of ``Unreadable`` everybody has been told.
        with contextlib.suppress(OSError, Unreadable):
            while data := os.read(fd, 1 << 18):
                buffer += data
                self._frames(buffer)
        os.close(fd)

    def close(self) -> None:
        """Close the line; the reader ends by itself."""
        with contextlib.suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)
        self._end.close()
        self._reader.join(2.0)
