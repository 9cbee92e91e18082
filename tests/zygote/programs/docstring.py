# SPDX-License-Identifier: Apache-2.0
"""Says what it is."""
print(__doc__)
