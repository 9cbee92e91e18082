# SPDX-License-Identifier: Apache-2.0


def leaver():
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
