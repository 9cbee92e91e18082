# SPDX-License-Identifier: Apache-2.0
# -*- coding: latin-1 -*-
print(ascii("é"))
