# SPDX-License-Identifier: Apache-2.0
prnt(1)
