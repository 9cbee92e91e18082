# SPDX-License-Identifier: Apache-2.0
import locale

print(locale.getlocale(), locale.getpreferredencoding(), locale.setlocale(locale.LC_ALL), locale.getencoding())
