"""The first lines that run in the zipapp, before anything is unpacked; packed as `_start.py`.

shiv's bootstrap obeys ten environment variables (one of them opens an interpreter, another runs a module of the
caller's choice) and imports whatever it finds in its cache. So what it may see is settled here: only SHIV_ROOT passes,
and a cache that somebody else could have filled is refused. Written so that any Python 3 can read it, because the one
that starts it may be too old.

shiv unpacks, at the first start. A later one finds the folder by itself and is spared shiv's imports and its second
reading of the archive's directory: together half of what a command costs before its own first line.
"""

import os
import stat
import sys

MACHINE = "@MACHINE@"
BUILD = "@BUILD@"
OLDEST, NEWEST = (3, 11), (3, 13)
READABLE_BY_ALL = 0o022
"""The umask of unpacking: root's engines run as another account, which starts this file again."""


def start():
    """Check interpreter, processor and cache, unpack where nothing is unpacked yet, and run the program."""
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        _start_with_another()
    if os.uname().machine != MACHINE:
        sys.exit(
            f"llmgw: this file is for {MACHINE} and the machine is {os.uname().machine}: take the file made for it"
        )
    root = os.path.abspath(os.environ.get("SHIV_ROOT") or _own_cache())
    for name in [name for name in os.environ if name.startswith("SHIV_")]:
        del os.environ[name]
    _refuse_foreign(root)
    os.environ["SHIV_ROOT"] = root
    # Python keeps compiled files among those unpacked. Under a caller's umask of 0 anybody could have replaced them.
    os.umask(os.umask(READABLE_BY_ALL) | READABLE_BY_ALL)
    packages = os.path.join(root, f"{os.path.basename(os.path.realpath(sys.argv[0]))}_{BUILD}", "site-packages")
    if not os.path.isdir(packages):
        _unpack(root, packages)
    _put_before_others(packages)
    from llmgw.__main__ import main

    main()


def _unpack(root, packages):
    """Let shiv unpack; whoever starts at the same moment waits for its lock and finds the folder complete."""
    import zipfile

    import _bootstrap

    before = os.umask(READABLE_BY_ALL)
    try:
        with zipfile.ZipFile(sys.argv[0]) as archive:
            _bootstrap.extract_site_packages(archive, _bootstrap.Path(packages).parent)
    except OSError as error:
        sys.exit(f"llmgw: it could not be unpacked in {root}: {error}; set SHIV_ROOT to a folder with room")
    finally:
        os.umask(before)


def _put_before_others(packages):
    """Import the program's own libraries before those of the interpreter it happens to run on."""
    kinds = ("site-packages", "dist-packages")
    others = [index for index, path in enumerate(sys.path) if os.path.basename(path) in kinds]
    sys.path.insert(others[0] if others else len(sys.path), packages)


def _start_with_another():
    """Replace this process with one of a version that the file carries, when PATH has one."""
    import subprocess

    for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
        python = f"python3.{minor}"
        try:
            works = subprocess.call([python, "-I", "-c", "pass"], stderr=subprocess.DEVNULL) == 0
        except OSError:
            continue
        if works:
            os.execvp(python, [python, "-I", *sys.argv])
    sys.exit(
        f"llmgw: it runs on CPython 3.11, 3.12 or 3.13, this is {sys.version_info[0]}.{sys.version_info[1]} and PATH "
        "has none of them: install one (Debian: python3)"
    )


def _own_cache():
    """Return where to unpack: a cache folder of the user's, or a folder of theirs in /tmp when that cannot be made.

    Root's is not below its home: engines run as an account that cannot enter it, and some start this file again.
    """
    uid = os.geteuid()
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):
        cache = "/var/cache" if uid == 0 else os.path.join(os.path.expanduser("~"), ".cache")
    for root in (os.path.join(cache, "llmgw"), f"/tmp/llmgw-{uid}"):
        # An account without a home, and a home that is a relative path, would make a folder wherever it stands.
        if not os.path.isabs(root):
            continue
        try:
            _make_folder(root)
        except OSError:
            continue
        if os.access(root, os.W_OK):
            return root
    sys.exit(
        f"llmgw: there is nowhere to unpack: neither {cache} nor /tmp can be written; set SHIV_ROOT to a folder "
        "that can"
    )


def _refuse_foreign(root):
    """Refuse a cache whose code another user could have put there. Root trusts only root."""
    trusted = {0, os.geteuid()}
    try:
        folders = [root] + [entry.path for entry in os.scandir(root) if not entry.name.startswith(".")]
    except FileNotFoundError:
        try:
            _make_folder(root)
        except OSError as error:
            sys.exit(f"llmgw: {root} cannot be made: {error.strerror}; set SHIV_ROOT to a folder that can")
        return
    except OSError as error:
        sys.exit(
            f"llmgw: the unpacked program in {root} cannot be read by user {os.geteuid()}: {error.strerror}; set "
            "SHIV_ROOT to a folder that can"
        )
    for folder in folders:
        try:
            found = os.lstat(folder)
        except FileNotFoundError:
            # Another first start has finished unpacking since, which renames its folder.
            continue
        if found.st_uid not in trusted or (found.st_mode & stat.S_IWOTH and not stat.S_ISLNK(found.st_mode)):
            sys.exit(
                f"llmgw: {folder} belongs to user {found.st_uid} with mode {stat.S_IMODE(found.st_mode):o}, so somebody "
                "else may have changed the program unpacked there: remove it, or set SHIV_ROOT to a folder of your own"
            )


def _make_folder(root):
    """Make a cache folder: root's open to every account's reading, another's closed."""
    before = os.umask(READABLE_BY_ALL)
    try:
        os.makedirs(root, 0o755 if os.geteuid() == 0 else 0o700, exist_ok=True)
    finally:
        os.umask(before)
