"""A real HTTP server on loopback that answers by script: statuses, resets, silence, drops of one byte."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    status: int
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    how: str = "answer"  # answer | reset | close | drip | silent

    @classmethod
    def reset(cls) -> Answer:
        return cls(0, how="reset")

    @classmethod
    def close(cls) -> Answer:
        return cls(0, how="close")

    @classmethod
    def drip(cls) -> Answer:
        return cls(200, how="drip")

    @classmethod
    def silent(cls) -> Answer:
        return cls(0, how="silent")


class ScriptedServer:
    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self._scripts: dict[str, list[Answer]] = {}
        self._forever = Answer(200)
        self._judge: Callable[[bytes], Answer] | None = None
        self._over = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                owner.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                owner._answer(self, owner._next(body))

            def log_message(self, *args: Any) -> None:
                return None

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                return None  # a client that hangs up is meant here

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(poll_interval=0.02), daemon=True)
        self._thread.start()

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}{path}"

    def script(self, action: str, *answers: Answer) -> None:
        self._scripts[action] = list(answers)

    def script_forever(self, answer: Answer) -> None:
        self._forever, self._judge = answer, None

    def judge_with(self, judge: Callable[[bytes], Answer]) -> None:
        self._judge = judge

    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, _, body in self.requests]

    def stop(self) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _next(self, body: bytes) -> Answer:
        try:
            action = json.loads(body).get("event_action", "")
        except (ValueError, AttributeError):
            action = ""
        waiting = self._scripts.get(action) or self._scripts.get("*")
        if waiting:
            return waiting.pop(0)
        return self._judge(body) if self._judge else self._forever

    def _answer(self, handler: BaseHTTPRequestHandler, answer: Answer) -> None:
        handler.close_connection = True
        if answer.how == "reset":
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            handler.connection.close()
        elif answer.how == "drip":
            handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while not self._over.wait(0.05):
                handler.wfile.write(b"X")
        elif answer.how == "silent":
            self._over.wait(30)
        elif answer.how == "answer":
            body = answer.body.encode()
            handler.send_response(answer.status)
            for name, value in answer.headers.items():
                handler.send_header(name, value)
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)
