# SPDX-License-Identifier: Apache-2.0
import logging

logging.basicConfig(format="%(levelname)s %(name)s %(module)s %(lineno)d %(message)s")
logging.warning("careful %d", 1)
logging.getLogger("x").error("bad", exc_info=False)
try:
    1 / 0
except ZeroDivisionError:
    logging.exception("caught")
