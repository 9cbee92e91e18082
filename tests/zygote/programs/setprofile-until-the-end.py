# SPDX-License-Identifier: Apache-2.0
import sys

def profile(frame, event, arg):
    sys.__stdout__.write(f"{event} {frame.f_code.co_name}\n")

sys.setprofile(profile)
len([])
