"""A server of files on this machine that fails as servers do, when it is told to."""

from __future__ import annotations

import socket
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar


class FileServer:
    """Serves `files` (path → bytes). `faults` (path → names, in order) are what its next answers do wrong.

    `asked` has the path of each request.
    """

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files, self.faults = files, defaultdict[str, list[str]](list)
        self.asked: list[str] = []
        self.go_on = threading.Event()  # what "waits" waits for
        self.address = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """One answer, with the next fault of its path."""
        self.asked.append(handler.path)
        fault = self.faults[handler.path].pop(0) if self.faults[handler.path] else ""
        content, headers = self.files.get(handler.path, b""), dict[str, str]()
        fault = "404" if handler.path not in self.files else fault
        if fault[:3] in ("403", "404", "429", "503"):
            return self.send(handler, int(fault[:3]), b"no", {"Retry-After": "0"} if "soon" in fault else {})
        if fault in ("moved", "in circles"):
            self.faults[handler.path] += ["in circles"] * (fault == "in circles")
            return self.send(handler, 302, b"", {"Location": f"{self.address}{handler.path}"})
        content = {"other content": content[::-1], "longer": content + b"!"}.get(fault, content)
        headers |= {"Content-Encoding": "gzip"} if fault == "packed" else {}
        return self.send(handler, 200, content, headers, fault)

    def send(
        self, handler: BaseHTTPRequestHandler, status: int, content: bytes, headers: dict[str, str], fault: str = ""
    ) -> None:
        """Send it, or less than it."""
        handler.send_response(status)
        if fault not in ("unsaid end", "unsaid and longer"):
            handler.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.close_connection = True
        if fault in ("cut", "unsaid end", "hangs"):
            content = content[: len(content) // 2]
        if fault == "cut at once":
            content = b""
        if fault == "unsaid and longer":
            content += b"and more"
        if fault == "waits":
            self.go_on.wait(30.0)
        step = max(1, len(content) // 20) if fault == "slow" else max(1, len(content))
        for begin in range(0, len(content), step):
            handler.wfile.write(content[begin : begin + step])
            handler.wfile.flush()
            time.sleep(0.01 if fault == "slow" else 0)
        if fault == "hangs":
            time.sleep(1.0)
        if fault in ("cut", "cut at once"):
            handler.connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def served(files: dict[str, bytes]) -> Iterator[FileServer]:
    """A server of these files for the block."""
    server = FileServer(files)

    class Handler(BaseHTTPRequestHandler):
        protocol_version: ClassVar[str] = "HTTP/1.1"

        def do_GET(self) -> None:
            server.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True).start()
    server.address = f"http://127.0.0.1:{listening.server_port}"
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
