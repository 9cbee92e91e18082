# SPDX-License-Identifier: Apache-2.0
def f():
return 1
