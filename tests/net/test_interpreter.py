"""The settings are the process's own, so they are looked at in a process of their own."""

import subprocess
import sys

LOOK = """
import gc, sys
from llmgw.net.interpreter import GC_THRESHOLDS, tune_for_serving
tune_for_serving()
assert gc.get_threshold() == GC_THRESHOLDS and gc.isenabled()
assert gc.get_freeze_count() > 1000, "what was imported is walked again"
assert abs(sys.getswitchinterval() - 0.0005) < 1e-6
"""


def test_a_serving_process_walks_its_objects_rarely_and_hands_over_quickly() -> None:
    subprocess.run([sys.executable, "-c", LOOK], check=True)
