# SPDX-License-Identifier: Apache-2.0
from os import no_such_name
