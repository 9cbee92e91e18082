# SPDX-License-Identifier: Apache-2.0
f = open("/tmp/x", "w")
f.write("kept?")
