# SPDX-License-Identifier: Apache-2.0
raise ValueError("ünï 漢\udc80")
