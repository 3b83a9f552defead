"""`build.py bench`: being written."""

import argparse
from pathlib import Path


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `bench` takes."""


def run(python: Path, options: argparse.Namespace) -> int:
    """Run it."""
    return 1
