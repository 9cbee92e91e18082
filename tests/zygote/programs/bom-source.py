# SPDX-License-Identifier: Apache-2.0
print("with a byte order mark", __file__)
