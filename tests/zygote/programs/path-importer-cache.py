# SPDX-License-Identifier: Apache-2.0
import sys

print("\n".join(f"{k} {type(v).__name__}" for k, v in sorted(sys.path_importer_cache.items())))
print([getattr(h, "__name__", h) for h in sys.path_hooks], [getattr(f, "__name__", type(f).__name__) for f in sys.meta_path])
