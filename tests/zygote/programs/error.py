# SPDX-License-Identifier: Apache-2.0
1 / 0
