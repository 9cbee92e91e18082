# args: --count 3 file.txt
# SPDX-License-Identifier: Apache-2.0
import argparse

p = argparse.ArgumentParser()
p.add_argument("--count", type=int)
p.add_argument("name")
print(p.prog, p.parse_args())
