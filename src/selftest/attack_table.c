/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of attack_list.h with their functions. */
#include "selftest/attack.h"

#include "base/util.h"

const struct attack attack_table[] = {
#define ATTACK(function, name, what, stops, control, absent, why) {name, what, stops, control, absent, why, attack_##function},
#include "selftest/attack_list.h"
#undef ATTACK
};

const size_t attack_count = ARRAY_SIZE(attack_table);
