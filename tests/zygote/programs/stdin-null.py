# SPDX-License-Identifier: Apache-2.0
import sys

print(repr(sys.stdin.read()), sys.stdin.seekable(), sys.stdin.readable(), sys.stdin.buffer.raw.name, sys.stdin.buffer.raw.closefd, sys.stdin.buffer.raw.mode)
