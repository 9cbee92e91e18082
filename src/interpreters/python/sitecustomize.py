# SPDX-License-Identifier: Apache-2.0
"""Stops an interpreter just before it opens its program, until there is one (lib/zygote.h).

The site module imports this as its last step but one. When it returns, the interpreter goes on to usercustomize and to the program, which must find
everything as if it had been started that moment: nothing may stay that a fresh interpreter does not have. So no module is left that the start-up itself
has not loaded, and what is defined here goes away with this module; all but _leaver(), which waits for the end of the program.
"""


def _leaver():
    """A callback for the very end that ends the process, if nobody can tell the difference.

    To take an interpreter apart takes two milliseconds, ten times as long as a small program runs, and changes nothing that anybody sees unless something
    is called meanwhile: destructors, generators that are left, callbacks of weak references, files that have to be flushed. So it is done in the ordinary
    way, unless the program has ended without an exception, and all that it has made is of sorts that are silent. What it has made is what the garbage
    collector has not looked at for a second time.

    Returns what to call with the source of the program. Where that names what could see the callback itself (functions that trace others, say), or imports
    other modules than the plain ones below, there is no callback.
    """
    import atexit
    import gc
    import posix
    import sys
    from _thread import _count
    from _weakref import ReferenceType as reference

    plain = frozenset(
        b"sys os math cmath time json re random string datetime collections itertools functools operator statistics decimal fractions numbers"
        b" textwrap typing dataclasses enum copy bisect heapq hashlib base64 binascii struct pathlib pprint io abc types unicodedata calendar".split()
    )
    telling = (b"trace", b"profile", b"monitor", b"audit", b"atexit", b"__cached__", b"__del__", b"__import__", b"breakpoint")
    modules = frozenset(name.decode() for name in plain) | {"__main__", "_frozen_importlib", "_frozen_importlib_external", "importlib.machinery"}
    silent = {
        "builtins": "function builtin_function_or_method method dict list tuple set frozenset cell staticmethod classmethod property module mappingproxy"
        " type slice getset_descriptor member_descriptor method_descriptor wrapper_descriptor classmethod_descriptor method-wrapper object super enumerate zip"
        " map filter reversed dict_keys dict_values dict_items int str float bool bytes bytearray complex Exception BaseException ValueError KeyError"
        " TypeError IndexError".split(),
        "types": ["GenericAlias", "UnionType", "SimpleNamespace"],
        "functools": ["_lru_cache_wrapper", "partial"],
        "collections": ["deque", "defaultdict", "OrderedDict"],
        "operator": ["itemgetter", "attrgetter"],
        "_random": ["Random"],
        "_abc": ["_abc_data"],
        "_json": ["Scanner", "Encoder"],
        "_struct": ["Struct"],
    }

    def is_silent(kind):
        for base in kind.__mro__:
            if base.__qualname__ in silent.get(base.__module__, ()):
                continue
            if base.__module__ not in modules or "__del__" in base.__dict__:
                return False
        return True

    def all_silent(objects):
        for kind in set(map(type, objects)):
            if kind is reference:
                if not all(o.__callback__ is None or o.__callback__.__name__ == "_destroy" for o in objects if type(o) is reference):
                    return False
            elif not is_silent(kind):
                return False
        return not any("__del__" in o.__dict__ for o in objects if isinstance(o, type))

    def passes():
        return [generation["collections"] for generation in gc.get_stats()[1:]]

    def leave():
        try:
            main = sys.modules["__main__"].__dict__
            # only a program that was run to its end has lost these (pythonrun.c)
            done = "__file__" not in main and "__cached__" not in main and main["__name__"] == "__main__" and not hasattr(sys, "last_value")
            same = sys.stdout is sys.__stdout__ is stdout and sys.stderr is sys.__stderr__ is stderr
            if not done or not same or _count() or sys._getframe().f_back or passes() != looked or gc.garbage or gc.get_freeze_count():
                return
            if not all_silent(gc.get_objects(0) + gc.get_objects(1)):
                return
            stdout.flush()
            stderr.flush()
        except BaseException:
            return
        posix._exit(0)

    def is_plain(source):
        if any(word in source for word in telling):
            return False
        left = source.count(b"import")
        for line in source.replace(b";", b"\n").split(b"\n") if left else ():
            words = line.replace(b",", b" , ").split()
            if not words or words[0] not in (b"import", b"from"):
                continue
            names = words[1:2]
            if words[0] == b"import":
                names += [words[i + 1] for i in range(2, len(words) - 1) if words[i] == b","]
            if not plain.issuperset(name.partition(b".")[0] for name in names):
                return False
            left -= line.count(b"import")
        return left == 0

    def arm(source):
        if is_plain(source) and not atexit._ncallbacks():
            atexit.register(leave)


    stdout, stderr = sys.stdout, sys.stderr
    gc.collect()
    looked = passes()
    return arm


def _wait():
    import _io
    import os
    import posix
    import sys

    channel = 3  # PARKED_FD of sandbox/command.h
    here = __file__.rpartition("/")[0]
    program = sys.argv[0]

    def preload():
        fd = posix.open(here + "/preload", posix.O_RDONLY | posix.O_CLOEXEC)
        names = posix.read(fd, 65536).decode().split()
        posix.close(fd)
        for name in names:
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
        try:
            return _leaver()
        finally:
            for name in set(sys.modules) - loaded:
                del sys.modules[name]

    def set_environment(items):
        data = os.environ._data
        # the library sees to it that LC_* are what they were; so one that is not among the items was set by the interpreter itself (PEP 538)
        coerced = data.get(b"LC_CTYPE")
        for name in list(data):
            posix.unsetenv(name)
        data.clear()
        for item in items:
            name, _, value = item.partition(b"=")
            posix.putenv(name, value)
            data[name] = value
        if coerced is not None and b"LC_CTYPE" not in data:
            posix.putenv(b"LC_CTYPE", coerced)
            data[b"LC_CTYPE"] = coerced

    def arm(leaver):
        fd = posix.open(program, posix.O_RDONLY | posix.O_CLOEXEC)
        source = posix.read(fd, 16384)
        posix.close(fd)
        if len(source) < 16384:
            leaver(source)

    preload()
    forget_hook()
    look_around()
    null, empty = make_empty_stdin()
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
    if leaver:
        arm(leaver)


_wait()
del _wait, _leaver
import sitecustomize  # the one that a fresh interpreter would have found here, if there is one
