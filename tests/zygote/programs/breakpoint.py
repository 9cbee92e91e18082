# SPDX-License-Identifier: Apache-2.0
breakpoint()
print("after")
