# env: BYTES=ü
# SPDX-License-Identifier: Apache-2.0
import os

print(os.environ["BYTES"], os.environb[b"BYTES"], os.fsencode(os.environ["BYTES"]))
