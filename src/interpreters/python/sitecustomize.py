# SPDX-License-Identifier: Apache-2.0
"""Stops an interpreter just before it opens its program, until there is one (lib/zygote.h).

The site module imports this as its last step but one. When it returns, the interpreter goes on to usercustomize and to the program, which must find
everything as if it had been started that moment: nothing may stay that a fresh interpreter does not have. So no module is left that the start-up itself
has not loaded, and what is defined here goes away with this module; all but what leave.py leaves, which waits for the end of the program.
"""


def _wait():
    import _io
    import os
    import posix
    import sys

    channel = 3  # PARKED_FD of sandbox/command.h
    here = __file__.rpartition("/")[0]
    program = sys.argv[0]

    def read(path):
        fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
        data = posix.read(fd, 65536)
        posix.close(fd)
        return data

    def preload():
        for name in read(here + "/preload").decode().split():
            try:
                __import__(name)
            except Exception:  # the program that needs it will see why
                pass

    def forget_hook():
        sys.path[:] = [p for p in sys.path if p != here]
        for path in [p for p in sys.path_importer_cache if p.startswith(here)]:
            del sys.path_importer_cache[path]
        sys.modules.pop("sitecustomize", None)

    def look_around():
        """What a search for a module that does not exist leaves: the listings of the directories, which take longest."""
        for entry in sys.path:
            finder = sys.path_importer_cache.get(entry)
            if finder is None:
                for hook in sys.path_hooks:
                    try:
                        finder = sys.path_importer_cache[entry] = hook(entry)
                        break
                    except ImportError:
                        continue
            if finder is not None:
                finder.find_spec("sitecustomize")

    def make_empty_stdin():
        """What there is without a pipe, made as create_stdio() of pylifecycle.c makes it."""
        pipe = posix.dup(0)
        null = posix.open("/dev/null", posix.O_RDONLY)
        posix.dup2(null, 0)
        old = sys.stdin
        buffer = _io.open(0, "rb", -1, None, None, None, False)
        buffer.raw.name = "<stdin>"
        text = _io.TextIOWrapper(buffer, old.encoding, old.errors, "\n", old.line_buffering, old.write_through)
        text.mode = "r"
        posix.dup2(pipe, 0)
        posix.close(pipe)
        return null, text

    def make_leaver():
        """Where it is known how interpreters end, and nothing else wants to know of it."""
        known = {"PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONIOENCODING", "PYTHONUTF8"}
        if not (3, 11) <= sys.version_info < (3, 13) or any(n.startswith("PYTHON") and n not in known for n in os.environ):
            return None
        loaded = set(sys.modules)
        names = {}
        try:
            # apart, since to compile less at a time leaves less memory behind
            exec(compile(read(here + "/leave.py"), "leave.py", "exec"), names)
            return names["leaver"]()
        finally:
            for name in set(sys.modules) - loaded:
                del sys.modules[name]

    def expect_environment():
        """It is likely to be what it is now, without the hook; then there is nothing to do."""
        data = os.environ._data
        path = data[b"PYTHONPATH"].partition(b":")[2]
        data[b"PYTHONPATH"] = path
        posix.putenv(b"PYTHONPATH", path)
        return [name + b"=" + value for name, value in data.items()]

    def set_environment(items):
        data = os.environ._data
        # the library sees to it that LC_* are what they were; so one that is not among the items was set by the interpreter itself (PEP 538)
        coerced = data.get(b"LC_CTYPE")
        if coerced is not None and not any(item.startswith(b"LC_CTYPE=") for item in items):
            items.append(b"LC_CTYPE=" + coerced)
        if items == expected:
            return
        for name in list(data):
            posix.unsetenv(name)
        data.clear()
        for item in items:
            name, _, value = item.partition(b"=")
            posix.putenv(name, value)
            data[name] = value

    def find_customs():
        """Which of the modules that a start-up looks for may be there: an import would look in the same directories, as they are listed."""
        found = set()
        for entry in sys.path:
            finder = sys.path_importer_cache.get(entry, False)
            if finder is None:
                continue
            try:
                if type(finder) is not finders or finder._path_mtime != posix.stat(finder.path).st_mtime:
                    return customs
            except Exception:
                return customs
            for name in customs & finder._path_cache:
                if os.path.exists(finder.path + "/" + name):
                    found.add(name)
        return found

    def skip_search():
        """For usercustomize, which the interpreter would look for when we are gone."""
        site = sys.modules.get("site")
        if site and site.ENABLE_USER_SITE:
            search = site.execusercustomize

            def nothing():
                site.execusercustomize = search

            site.execusercustomize = nothing

    def look_at_program():
        source = read(program)
        if len(source) > 16384:
            return
        if b"PK\5\6" not in source:  # no archive: what the import system would have come to
            sys.path_importer_cache.setdefault(program, None)
        if leaver:
            leaver(source)

    preload()
    forget_hook()
    look_around()
    null, empty = make_empty_stdin()
    library = sys.path_importer_cache.get(os.path.dirname(os.__file__))
    finders, suffixes = type(library), [suffix for suffix, _ in getattr(library, "_loaders", ())]
    customs = {name + suffix for name in ("sitecustomize", "usercustomize") for suffix in ["", *suffixes]}
    expected = expect_environment()
    leaver = make_leaver()
    posix.write(channel, b"\0")
    message = posix.read(channel, 1 << 16)
    if not message:
        posix._exit(0)
    posix.close(channel)
    stdin, cwd, count, *rest = message[:-1].split(b"\0")
    if stdin == b"null":
        posix.dup2(null, 0)
        sys.stdin = sys.__stdin__ = empty
    posix.close(null)
    encoding, errors = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
    arguments = [argument.decode(encoding, errors) for argument in rest[: int(count)]]
    sys.argv += arguments
    sys.orig_argv += arguments
    set_environment(rest[int(count) :])
    posix.chdir(cwd)
    look_at_program()
    found = find_customs()
    if not any(name.startswith("user") for name in found):
        skip_search()
    return not any(name.startswith("site") for name in found)


if _wait():
    raise ModuleNotFoundError("No module named 'sitecustomize'", name="sitecustomize")
del _wait
import sitecustomize  # the one that a fresh interpreter would have found here, if there is one
