# SPDX-License-Identifier: Apache-2.0
print("hello", "world", sep=", ", end="!\n")
