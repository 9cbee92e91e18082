# SPDX-License-Identifier: Apache-2.0
assert 1 == 2, "not equal"
