# SPDX-License-Identifier: Apache-2.0
if __name__ == "__main__":
    print("main")
