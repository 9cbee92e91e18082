/* SPDX-License-Identifier: Apache-2.0 */
/* Records as CSV (RFC 4180), so that a spreadsheet takes nothing in them for a formula. */
#ifndef CORDON_AUDIT_CSV_H
#define CORDON_AUDIT_CSV_H

#include "audit/scan.h"

/* The line of titles. */
void audit_csv_titles(struct buf *out);
/* Strings as text, detail as JSON, null as nothing. Always UTF-8: bytes that are none stay U+EFxx, see audit.h. */
void audit_csv_add(struct buf *out, const struct audit_line *l);

#endif
