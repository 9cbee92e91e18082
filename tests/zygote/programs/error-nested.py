# SPDX-License-Identifier: Apache-2.0
def a():
    b()

def b():
    return {}["missing"]

a()
