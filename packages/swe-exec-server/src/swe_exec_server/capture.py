"""Keep the beginning and the end of a flood in bounded memory: any number of bytes in, at most about `limit` kept.

The count of all bytes is exact, the result begins with the true head and ends with the true tail, and what was left
out between them is said in one line.
"""


class HeadTail:
    """Collects bytes; keeps all of them up to `limit`, else the first half and the last half of `limit`.

    Memory stays under three times `limit`, whatever is fed.
    """

    def __init__(self, limit: int) -> None:
        if limit < 0:
            raise ValueError(f"the number of bytes to keep must not be negative: {limit}")
        self._head_size = limit // 2
        self._tail_size = limit - self._head_size
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take the next bytes of the stream."""
        view = memoryview(data)
        self._total += len(view)
        room = self._head_size - len(self._head)
        if room > 0:
            self._head += view[:room]
            view = view[room:]
        if len(view) >= self._tail_size:
            self._tail = bytearray(view[len(view) - self._tail_size :])
            return
        self._tail += view
        # Trimmed only at twice the size, so that each byte is moved about once.
        if len(self._tail) > 2 * self._tail_size:
            del self._tail[: len(self._tail) - self._tail_size]

    @property
    def total(self) -> int:
        """Bytes fed so far."""
        return self._total

    @property
    def left_out(self) -> int:
        """Bytes that `result` does not hold."""
        return max(0, self._total - self._head_size - self._tail_size)

    @property
    def truncated(self) -> bool:
        return self.left_out > 0

    def result(self) -> bytes:
        """All bytes, or head, a line that says how many are missing, and tail."""
        if not self.truncated:
            return bytes(self._head + self._tail)
        tail = self._tail[len(self._tail) - self._tail_size :]
        return b"%b\n[... %d bytes left out ...]\n%b" % (bytes(self._head), self.left_out, bytes(tail))
