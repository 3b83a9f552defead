"""`python -m llmgw` and the zipapp's entry: argv to a command; only that command's modules are imported."""

import sys


def main() -> None:
    """Run the command line and exit with its status."""
    from llmgw.cli.main import main as run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
