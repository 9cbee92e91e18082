# SPDX-License-Identifier: Apache-2.0
print("no newline at the end", end="")
