# SPDX-License-Identifier: Apache-2.0
print(copyright is not None, repr(exit), repr(license)[:40], callable(help))
