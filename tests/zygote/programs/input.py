# stdin: first line\nsecond line\n
# SPDX-License-Identifier: Apache-2.0
print(input("? "), input())
try:
    input()
except EOFError as e:
    print("end:", e)
