# SPDX-License-Identifier: Apache-2.0
import unittest

class T(unittest.TestCase):
    def test_good(self):
        self.assertEqual(1, 1)

    def test_bad(self):
        self.assertEqual(1, 2)

if __name__ == "__main__":
    try:
        unittest.main(argv=["x", "-v"], testRunner=lambda **k: unittest.TextTestRunner(stream=open("/dev/null", "w")), exit=False)
    finally:
        r = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(T).run(r)
        print(r.testsRun, len(r.failures), r.failures[0][1])
