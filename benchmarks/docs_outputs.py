"""Outputs that pages paste, made again on real nodes: `make docs-outputs`, or `make docs-outputs PAGES=docs/duels.md`.

A block is made again if the line above it is `<!-- output -->`. Each line of it that begins with `$ ` is run by a shell
in the checkout, with a new home for each page, so that `last` means what the page has raced before; what the command
prints on stdout takes the place of the lines below it. `<!-- output, first 20 lines -->` keeps the beginning.
`<!-- output of: COMMAND -->` is for a block that does not show its command.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
COLUMNS = "90"
PASSED = (0, 3, 4)  # 3, 4: a condition of --fail-on
CUT = "[...]"
_BLOCK = re.compile(
    r"(?P<mark><!-- output(?: of: (?P<command>.+?))?(?:, first (?P<lines>\d+) lines)? -->\n)"
    r"(?P<fence>```\w*\n)(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class FailedCommandError(Exception):
    """A command of a page ended with another exit code than those that a page may show."""


@dataclass(frozen=True)
class Shell:
    """Runs the commands of a page, with races of their own in `home`."""

    home: Path

    def output(self, command: str) -> str:
        """Run a command line, whose progress goes to stderr, and return what it printed. Raises FailedCommandError."""
        print(f"$ {command}", file=sys.stderr)
        environment = os.environ | {
            "ESBENCH_HOME": str(self.home),
            "COLUMNS": COLUMNS,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        done = subprocess.run(
            command, shell=True, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False
        )
        if done.returncode not in PASSED:
            raise FailedCommandError(f"exit code {done.returncode}: {command}")
        return done.stdout.strip("\n") + "\n"


def typed(body: str) -> Iterator[str]:
    """Yield the commands of a block, each with the lines that it goes on over."""
    lines = iter(body.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = [line.removeprefix("$ ")]
            while command[-1].endswith("\\"):
                command.append(next(lines))
            yield "\n".join(command)


def beginning(output: str, lines: str | None) -> str:
    """Return the first lines of an output, and a mark that there are more; all of it if `lines` is None."""
    kept = output.splitlines(keepends=True)
    if lines is None or len(kept) <= int(lines):
        return output
    return "".join(kept[: int(lines)]) + f"{CUT}\n"


def made_again(block: re.Match[str], shell: Shell) -> str:
    """Return a block with what its commands print now."""
    if commands := list(typed(block["body"])):
        body = "".join(f"$ {each}\n{beginning(shell.output(each), block['lines'])}" for each in commands)
    elif block["command"]:
        body = beginning(shell.output(block["command"]), block["lines"])
    else:
        raise FailedCommandError(f"a block has no command: {block['body'][:60]}")
    return f"{block['mark']}{block['fence']}{body}```"


def make_again(page: Path, cache: Path) -> None:
    """Rewrite the blocks of a page; the home of its races shares `cache`, so that nothing is downloaded twice."""
    text = page.read_text()
    if not _BLOCK.search(text):
        return
    with tempfile.TemporaryDirectory() as folder:
        cache.mkdir(parents=True, exist_ok=True)
        (Path(folder) / "cache").symlink_to(cache)
        shell = Shell(Path(folder))
        page.write_text(_BLOCK.sub(lambda block: made_again(block, shell), text))


def main() -> int:
    pages = [Path(each).resolve() for each in sys.argv[1:]]
    home = Path(os.environ.get("ESBENCH_HOME") or Path.home() / ".esbench")
    try:
        for page in pages or sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
            make_again(page, home / "cache")
    except FailedCommandError as error:
        print(f"docs_outputs: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
