# SPDX-License-Identifier: Apache-2.0
# -*- coding: no-such-encoding -*-
print(1)
