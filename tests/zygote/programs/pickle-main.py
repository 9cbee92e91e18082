# SPDX-License-Identifier: Apache-2.0
import pickle

class Point:
    def __init__(self, x):
        self.x = x

p = pickle.loads(pickle.dumps(Point(3)))
print(p.x, type(p).__module__, pickle.dumps(Point, 0))
