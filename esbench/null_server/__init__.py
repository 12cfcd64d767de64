"""A scripted null Elasticsearch: a server on a real socket that delays, stalls, fails, cuts and hangs on demand.

`script` says what it does; `launch` starts it in a process of its own; docs/reference/null-server.md explains.
"""

from esbench.null_server.launch import NullEngine, NullServer
from esbench.null_server.script import Script

__all__ = ["NullEngine", "NullServer", "Script"]
