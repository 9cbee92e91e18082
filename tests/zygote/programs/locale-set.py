# SPDX-License-Identifier: Apache-2.0
import locale

print(locale.setlocale(locale.LC_ALL, ""), locale.localeconv()["decimal_point"])
