"""Real servers, real data and a proxy that fails on command: for Penstock's own tests."""

from penstock_testkit import tpch
from penstock_testkit.proxy import TcpProxy
from penstock_testkit.servers import ExternalServer, PostgresServer, Server, ServerError

__all__ = ["ExternalServer", "PostgresServer", "Server", "ServerError", "TcpProxy", "tpch"]
