# SPDX-License-Identifier: Apache-2.0
import os

os.makedirs("/tmp/ü/漢")
open("/tmp/ü/漢/🙂.txt", "w", encoding="utf-8").write("ok")
print(os.listdir("/tmp/ü"), os.listdir(b"/tmp/\xc3\xbc"), open("/tmp/ü/漢/🙂.txt").read())
open(b"/tmp/\xff", "w").close()
print(sorted(ascii(n) for n in os.listdir("/tmp")))
