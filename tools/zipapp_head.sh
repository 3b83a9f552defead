#!/bin/sh
# llmgw: this file is a program for CPython 3.11 to 3.13 with all it needs inside. These lines only find an
# interpreter; the program's first lines refuse another version, or look for a better one.
# -I keeps variables and folders of the one who calls out of what is imported.
for python in python3 python3.13 python3.12 python3.11; do
    command -v "$python" >/dev/null 2>&1 && exec "$python" -I "$0" "$@"
done
echo "llmgw: there is no python3 on PATH: install CPython 3.11, 3.12 or 3.13 (Debian: python3) and start again" >&2
exit 1
