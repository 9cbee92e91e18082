# SPDX-License-Identifier: Apache-2.0
f = open("/tmp/out", "w")
f.write("data")
print("end")
