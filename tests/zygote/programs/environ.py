# env: HELLO=world
# env: EMPTY=
# env: WITH_EQUALS=a=b=c
# SPDX-License-Identifier: Apache-2.0
import os

print("\n".join(f"{k}={v}" for k, v in os.environ.items()))
print(os.environb[b"HELLO"], os.getenv("NOT_SET"), os.environ.get("PYTHONPATH"))
