"""`python -m esbench` is `esbench`."""

from esbench.cli.main import main

main()
