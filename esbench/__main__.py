"""The program `esbench`, and what -m runs: Ctrl-C prints no traceback, as until a command runs it ends the process."""

import _signal  # type: ignore[import-not-found]  # built in: before `signal`, which takes 5 ms

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

from esbench.cli.main import main

if __name__ == "__main__":
    main()
