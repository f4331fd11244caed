"""A TCP proxy that misbehaves on demand: holds, drops or delays bytes, in one direction or both, or cuts the line."""

import queue
import socket
import threading
import time

UP = "up"  # client to server
DOWN = "down"  # server to client
BOTH = (UP, DOWN)
CHUNK_BYTES = 65536
QUEUE_CHUNKS = 1024


class _Direction:
    """How bytes of one direction are treated now; shared by all connections."""

    def __init__(self):
        self.changed = threading.Condition()
        self.held = False
        self.dropping = False
        self.delay_s = 0.0
        self.bytes = 0  # passed on so far
        self.flips = []  # numbers of bytes of which a bit flips when they are passed on

    def take(self, data):
        """Counts them before they go: whoever has an answer to them finds them counted."""
        bent = bytearray(data)
        for at in [each for each in self.flips if self.bytes <= each < self.bytes + len(data)]:
            bent[at - self.bytes] ^= 1
            self.flips.remove(at)
        self.bytes += len(data)
        return bytes(bent)

    def set(self, **values):
        with self.changed:
            for name, value in values.items():
                setattr(self, name, value)
            self.changed.notify_all()


class _Connection:
    """One client's connection and its twin to the server."""

    def __init__(self, proxy, client, server):
        self.sockets = (client, server)
        self.closed = threading.Event()
        self.threads = []
        for name, source, sink in ((UP, client, server), (DOWN, server, client)):
            chunks = queue.Queue(QUEUE_CHUNKS)
            direction = proxy.directions[name]
            for target in (
                lambda s=source, c=chunks, d=direction: self._read(s, c, d),
                lambda s=sink, c=chunks, d=direction: self._write(s, c, d),
            ):
                thread = threading.Thread(target=target, daemon=True)
                thread.start()
                self.threads.append(thread)

    def close(self):
        self.closed.set()
        for each in self.sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the peer was faster
            each.close()

    def _read(self, source, chunks, direction):
        data = b"x"
        while data and not self.closed.is_set():
            try:
                data = source.recv(CHUNK_BYTES)
            except OSError:
                data = b""
            self._patiently(lambda: chunks.put((time.monotonic() + direction.delay_s, data), timeout=0.2))

    def _patiently(self, operation):
        """Runs a queue operation that times out, again until it works or the connection is closed (then None)."""
        while not self.closed.is_set():
            try:
                return operation()
            except (queue.Full, queue.Empty):
                pass
        return None

    def _write(self, sink, chunks, direction):
        while not self.closed.is_set():
            due, data = self._patiently(lambda: chunks.get(timeout=0.2)) or (0.0, b"")
            self.closed.wait(max(0.0, due - time.monotonic()))
            with direction.changed:
                while direction.held and not self.closed.is_set():
                    direction.changed.wait(0.1)
                dropping = direction.dropping
                if not dropping and not self.closed.is_set():
                    data = direction.take(data)
            if not data or self.closed.is_set():
                break
            if dropping:
                continue
            try:
                sink.sendall(data)
            except OSError:
                break
        self.close()


class TcpProxy:
    """Listens on loopback and passes bytes on to a port of loopback."""

    def __init__(self, target_port, listen_port=0):
        self.directions = {UP: _Direction(), DOWN: _Direction()}
        self.closed = False
        self.accepted = 0
        self._target_port = target_port
        self._refusing = False
        self._connections = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", listen_port))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def hold(self, *directions):
        """Bytes wait in the proxy, in order, until `heal`."""
        self._set(directions, held=True)

    def drop(self, *directions):
        """Bytes vanish; the connections stay."""
        self._set(directions, dropping=True)

    def flip(self, direction, *numbers):
        """A bit of each of these bytes flips, counted over all connections as `passed_bytes` does."""
        self.directions[direction].flips += numbers

    def delay(self, seconds, *directions):
        self._set(directions, delay_s=seconds)

    def cut(self):
        """Closes all connections and refuses new ones until `heal`."""
        self._refusing = True
        self.disconnect()

    def disconnect(self):
        """Closes all connections; new ones are fine."""
        with self._lock:
            connections, self._connections = self._connections, []
        for connection in connections:
            connection.close()

    def heal(self):
        """Back to passing everything on; held bytes go first. Connections that lost bytes are closed."""
        lossy = any(direction.dropping for direction in self.directions.values())
        if lossy:
            self.disconnect()  # before anything passes that was to be lost
        self._set(BOTH, held=False, dropping=False, delay_s=0.0)
        self._refusing = False
        if lossy:
            self.disconnect()

    def passed_bytes(self, direction):
        return self.directions[direction].bytes

    def close(self):
        self.closed = True
        try:
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the accepting thread
        except OSError:
            pass
        self._listener.close()
        self._set(BOTH, held=False)
        self.disconnect()

    def _set(self, directions, **values):
        for name in directions or BOTH:
            self.directions[name].set(**values)

    def _accept(self):
        while not self.closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._target_port), timeout=5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.accepted += 1
            with self._lock:
                self._connections = [c for c in self._connections if not c.closed.is_set()]
                self._connections.append(_Connection(self, client, server))
