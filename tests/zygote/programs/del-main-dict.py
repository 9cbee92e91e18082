# SPDX-License-Identifier: Apache-2.0
keep = [1]
globals().clear()
