/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/answer.h"

#include "base/json.h"

void answer_error(struct answer *a, const char *status, const char *code, const char *message, const char *hint)
{
	_cleanup_buf_ struct buf body = {0};
	struct json j = {.out = &body};
	json_object(&j);
	json_key(&j, "error");
	json_object(&j);
	json_kstr(&j, "code", code);
	json_kstr(&j, "message", message);
	json_kstr(&j, "hint", hint);
	json_end(&j);
	json_end(&j);
	buf_add_str(&body, "\n");
	buf_addf(
		&a->text,
		"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n",
		status, body.len);
	buf_add(&a->text, body.data, body.len);
	if (body.failed || a->text.failed)
		buf_free(&a->text);
}

/* CHANNEL_OK: what was waited for has been heard. */
static enum channel_result hear(struct answer *a, struct channel *client, void *piece, size_t size, bool first_word)
{
	while (!first_word || a->heard == 0) {
		size_t got;
		const enum channel_result r = channel_read(client, piece, size, &got);
		a->heard += got;
		if (r == CHANNEL_BLOCKED)
			return r;
		if (r != CHANNEL_OK || a->heard > ANSWER_HEARD_MAX)
			return CHANNEL_ENDED;
	}
	return CHANNEL_OK;
}

static enum channel_result write_text(struct answer *a, struct channel *client, void *piece, size_t size)
{
	enum channel_result r = channel_handshake(client);
	if (r == CHANNEL_OK && !a->asked)
		r = hear(a, client, piece, size, true);
	while (r == CHANNEL_OK && a->at < a->text.len) {
		size_t put;
		r = channel_write(client, a->text.data + a->at, a->text.len - a->at, &put);
		a->at += put;
	}
	return r;
}

enum channel_result answer_give(struct answer *a, struct channel *client, void *piece, size_t size)
{
	enum channel_result r = a->text.len ? write_text(a, client, piece, size) : CHANNEL_OK;
	if (r == CHANNEL_OK)
		r = channel_end(client, true);
	if (r == CHANNEL_OK)
		r = hear(a, client, piece, size, false);
	return r == CHANNEL_BLOCKED ? r : CHANNEL_ENDED;
}
