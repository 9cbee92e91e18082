# SPDX-License-Identifier: Apache-2.0
keep = [[i] for i in range(100000)]

class C:
    def __del__(self):
        print("del after many")

keep.append(C())
keep += [[i] for i in range(100000)]
print(len(keep))
