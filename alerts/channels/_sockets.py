"""A `requests` session whose sockets can be shut from outside, so that no server holds an attempt for ever."""

from __future__ import annotations

import socket
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from alerts._hang_up import opened


class _Connection(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        one = super()._new_conn()
        opened(one)
        return one


class _TlsConnection(HTTPSConnection):
    def _new_conn(self) -> socket.socket:
        one = super()._new_conn()
        opened(one)
        return one

    def connect(self) -> None:
        super().connect()
        opened(self.sock)


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class _Adapter(HTTPAdapter):
    """Never retries by itself: the outbox counts attempts."""

    def __init__(self) -> None:
        super().__init__(max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}


def new_session() -> requests.Session:
    session = requests.Session()
    session.mount("http://", _Adapter())
    session.mount("https://", _Adapter())
    return session
