# SPDX-License-Identifier: Apache-2.0
# suite.py MODULE: runs a module of CPython's own tests and prints what came of each test, one line each, sorted.
import io
import sys
import unittest

import test.support

test.support.verbose = False
test.support.use_resources = []


class Verdicts(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.lines = []

    def say(self, test, verdict):
        self.lines.append(f"{test.id()} {verdict}")

    def addSuccess(self, test):
        self.say(test, "ok")

    def addFailure(self, test, err):
        self.say(test, "fail")

    def addError(self, test, err):
        self.say(test, "error")

    def addSkip(self, test, reason):
        self.say(test, "skip")

    def addExpectedFailure(self, test, err):
        self.say(test, "expected")

    def addUnexpectedSuccess(self, test):
        self.say(test, "unexpected")

    def addSubTest(self, test, subtest, err):
        if err:
            self.say(test, "subtest")


result = Verdicts()
out, err = sys.stdout, sys.stderr
module = __import__("test." + sys.argv[1], fromlist=["*"])
if len(sys.argv) == 2:  # what tests print on the way is theirs
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
unittest.defaultTestLoader.loadTestsFromModule(module).run(result)
sys.stdout, sys.stderr = out, err
print("\n".join(sorted(set(result.lines))))
print(sys.argv[1], result.testsRun)
