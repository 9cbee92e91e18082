# SPDX-License-Identifier: Apache-2.0
async def f():
    pass

x = f()
print("end")
