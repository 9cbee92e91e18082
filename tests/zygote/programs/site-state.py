# SPDX-License-Identifier: Apache-2.0
import site, sys

print(site.ENABLE_USER_SITE, site.USER_SITE, site.USER_BASE, site.getsitepackages())
print("sitecustomize" in sys.modules, "usercustomize" in sys.modules)
