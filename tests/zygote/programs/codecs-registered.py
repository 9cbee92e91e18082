# SPDX-License-Identifier: Apache-2.0
import codecs

print(codecs.lookup("utf-8").name, codecs.lookup_error("surrogateescape").__name__, codecs.lookup("latin1").name)
