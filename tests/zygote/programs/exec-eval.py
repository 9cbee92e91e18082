# SPDX-License-Identifier: Apache-2.0
ns = {}
exec("def f(): return 7", ns)
print(ns["f"](), eval("1 + 1"), compile("x", "<s>", "eval").co_filename)
try:
    exec("1 +", {})
except SyntaxError as e:
    print(e)
