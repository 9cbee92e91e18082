# SPDX-License-Identifier: Apache-2.0
x: int = 1
y: "undefined"
print(__annotations__)
