# args: --bad
# SPDX-License-Identifier: Apache-2.0
import argparse

p = argparse.ArgumentParser()
p.parse_args()
