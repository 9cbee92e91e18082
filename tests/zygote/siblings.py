# SPDX-License-Identifier: Apache-2.0
# What two interpreters must not share, one line each.
import os
import random
import tempfile
import uuid

print("address", id(object()))
print("stack", open("/proc/self/stat").read().rpartition(")")[2].split()[25])
print("hash", hash("x"))
print("random", random.random())
print("uuid", uuid.uuid4())
print("name", next(tempfile._get_candidate_names()))
print("urandom", os.urandom(8).hex())
try:
    import ssl
except ImportError:
    pass
else:
    print("ssl", ssl.RAND_bytes(8).hex())
