# SPDX-License-Identifier: Apache-2.0
raise RuntimeError("line one\nline two")
