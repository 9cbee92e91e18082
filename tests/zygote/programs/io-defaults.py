# SPDX-License-Identifier: Apache-2.0
import io, sys

print(io.DEFAULT_BUFFER_SIZE, io.text_encoding(None), open("/tmp/e", "w").encoding)
print(sys.stdout.buffer.raw.fileno() if hasattr(sys.stdout.buffer, "raw") else sys.stdout.buffer.fileno())
