"""Source files whose proof is not at the mirrored path, and the test that is their proof.

A file belongs here when only the running whole shows that it works: what composes, what starts processes, what is a
table that other tests read. The test named must exist.
"""

from __future__ import annotations

PROVEN_BY: dict[str, str] = {
    "llmgw/__main__.py": "tests/house/test_import_sets.py",
}
