# SPDX-License-Identifier: Apache-2.0
raise ExceptionGroup("several", [ValueError(1), TypeError(2), ExceptionGroup("inner", [KeyError("k")])])
