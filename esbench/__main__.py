#!/usr/bin/env python3
"""The program `esbench`, and what -m runs: Ctrl-C prints no traceback.

It is installed as it is: a console script would import `re` before this sets the handler. Until a command runs there is
nothing to clean up, and Ctrl-C ends the process.
"""

import _signal  # type: ignore[import-not-found]  # built in: before `signal`, which takes 5 ms

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

from esbench.cli.main import main

if __name__ == "__main__":
    main()
