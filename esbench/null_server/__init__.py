"""A scripted null Elasticsearch: a server on a real socket that delays, stalls, fails, cuts and hangs on demand.

`script` defines what it does; `launch` starts it as a separate process; docs/reference/null-server.md explains it.
"""

from esbench.null_server.launch import NullServer
from esbench.null_server.script import ServerScript

__all__ = ["NullServer", "ServerScript"]
