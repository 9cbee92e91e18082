/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/resolv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/units.h"
#include "base/util.h"

#define PORT 53
#define TIMEOUT_S 3 /* where the file says nothing: what is lost is asked for again while somebody still waits */
#define TIMEOUT_MAX_S 30
#define ATTEMPTS 2
#define ATTEMPTS_MAX 5
#define PIECE ((size_t)16 << 10)
#define BLANKS " \t\r"

/* Its contents, with a NUL behind. NULL with errno. */
static char *read_file(const char *path, size_t max)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	_cleanup_buf_ struct buf text = {.cap = max + PIECE};
	ssize_t n = fd < 0 ? -1 : 1;
	while (n > 0) {
		char *room = buf_reserve(&text, PIECE);
		n = room ? read(fd, room, PIECE) : -1;
		text.len += n > 0 ? (size_t)n : 0;
	}
	if (text.failed)
		errno = EFBIG;
	return n < 0 ? NULL : buf_steal(&text);
}

/* ---- resolv.conf --------------------------------------------------------------------------------------------------------------- */

static bool parse_address(const char *text, union resolv_address *out)
{
	char plain[INET6_ADDRSTRLEN];
	const char *percent = strchr(text, '%');
	const size_t len = percent ? (size_t)(percent - text) : strlen(text);
	*out = (union resolv_address){0};
	if (len >= sizeof(plain))
		return false;
	memcpy(plain, text, len);
	plain[len] = '\0';
	if (!percent && inet_pton(AF_INET, plain, &out->v4.sin_addr) == 1) {
		out->v4.sin_family = AF_INET;
		out->v4.sin_port = htons(PORT);
		return true;
	}
	out->v6.sin6_family = AF_INET6;
	out->v6.sin6_port = htons(PORT);
	out->v6.sin6_scope_id = percent ? if_nametoindex(percent + 1) : 0;
	return inet_pton(AF_INET6, plain, &out->v6.sin6_addr) == 1 && (!percent || out->v6.sin6_scope_id);
}

static void take_number(const char *word, const char *option, unsigned max, unsigned *out)
{
	const size_t len = strlen(option);
	uint64_t n;
	if (strncmp(word, option, len) == 0 && units_parse_count(word + len, 1, UINT32_MAX, &n, NULL) == 0)
		*out = (unsigned)MIN(n, (uint64_t)max);
}

static void take_options(struct resolv *r, char *rest)
{
	char *save;
	for (char *word = strtok_r(rest, BLANKS, &save); word; word = strtok_r(NULL, BLANKS, &save)) {
		take_number(word, "timeout:", TIMEOUT_MAX_S, &r->timeout_s);
		take_number(word, "attempts:", ATTEMPTS_MAX, &r->attempts);
		if (strcmp(word, "use-vc") == 0)
			r->by_stream = true;
	}
}

/* Search domains are left alone: what is resolved is the name that was matched. */
static void take_line(struct resolv *r, char *line)
{
	char *save, *word = strtok_r(line, BLANKS, &save);
	if (!word)
		return;
	if (strcmp(word, "options") == 0) {
		take_options(r, save);
	} else if (strcmp(word, "nameserver") == 0 && r->server_count < RESOLV_SERVERS_MAX) {
		word = strtok_r(NULL, BLANKS, &save);
		if (word && parse_address(word, &r->servers[r->server_count]))
			r->server_count++;
	}
}

/* Changes the text. */
static void take_conf(struct resolv *r, char *text)
{
	char *save;
	r->server_count = 0;
	r->timeout_s = TIMEOUT_S;
	r->attempts = ATTEMPTS;
	r->by_stream = false;
	for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save))
		take_line(r, line);
	if (r->server_count == 0 && parse_address("127.0.0.1", &r->servers[0]))
		r->server_count = 1;
}

static int read_conf(struct resolv *r, const char *named, struct cordon_error *err)
{
	const char *path = named ? named : "/etc/resolv.conf";
	_cleanup_free_ char *text = read_file(path, RESOLV_CONF_MAX);
	if (!text && (named || errno != ENOENT))
		return err_sys(err, "the broker cannot read %s", path);
	take_conf(r, text);
	return 0;
}

int resolv_renew(struct resolv *r, const char *text)
{
	_cleanup_free_ char *copy = strdup(text);
	if (!copy)
		return -1;
	take_conf(r, copy);
	return 0;
}

/* ---- hosts --------------------------------------------------------------------------------------------------------------------- */

static void lower(char *name)
{
	size_t len = strlen(name);
	if (len > 1 && name[len - 1] == '.')
		name[len - 1] = '\0';
	for (; *name; name++)
		if (*name >= 'A' && *name <= 'Z')
			*name = (char)(*name | 0x20);
}

static int add_host(struct resolv *r, size_t *room, const struct hosts_entry *e)
{
	if (r->host_count == *room) {
		const size_t more = MAX(*room * 2, (size_t)64);
		struct hosts_entry *grown = reallocarray(r->hosts, more, sizeof(*grown));
		if (!grown)
			return -1;
		r->hosts = grown;
		*room = more;
	}
	r->hosts[r->host_count++] = *e;
	return 0;
}

static int take_names(struct resolv *r, size_t *room, char *line, size_t number)
{
	char *save, *word = strtok_r(line, BLANKS, &save);
	union resolv_address a;
	if (!word || !parse_address(word, &a))
		return 0;
	struct hosts_entry e = {.family = a.any.sa_family, .line = number};
	if (e.family == AF_INET)
		memcpy(e.address, &a.v4.sin_addr, 4);
	else
		memcpy(e.address, &a.v6.sin6_addr, 16);
	while ((word = strtok_r(NULL, BLANKS, &save))) {
		lower(word);
		e.name = word;
		if (add_host(r, room, &e) < 0)
			return -1;
	}
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct hosts_entry *x = a, *y = b;
	const int names = strcmp(x->name, y->name);
	return names ? names : (x->line > y->line) - (x->line < y->line);
}

static int read_hosts(struct resolv *r, const char *named, struct cordon_error *err)
{
	const char *path = named ? named : "/etc/hosts";
	size_t room = 0, number = 0;
	r->text = read_file(path, RESOLV_HOSTS_MAX);
	if (!r->text)
		return named || errno != ENOENT ? err_sys(err, "the broker cannot read %s", path) : 0;
	for (char *next = r->text, *line; (line = strsep(&next, "\n")); number++) {
		line[strcspn(line, "#")] = '\0';
		if (take_names(r, &room, line, number) < 0)
			return err_set(err, CORDON_ERR_SYSTEM, "out of memory");
	}
	if (r->host_count)
		qsort(r->hosts, r->host_count, sizeof(r->hosts[0]), by_name);
	return 0;
}

const struct hosts_entry *resolv_host(const struct resolv *r, const char *name, size_t *count)
{
	size_t low = 0, high = r->host_count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (strcmp(r->hosts[middle].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (*count = 0; low + *count < r->host_count && strcmp(r->hosts[low + *count].name, name) == 0;)
		(*count)++;
	return *count ? &r->hosts[low] : NULL;
}

/* ------------------------------------------------------------------------------------------------------------------------------- */

int resolv_read(struct resolv *r, const char *resolv, const char *hosts, struct cordon_error *err)
{
	*r = (struct resolv){0};
	if (read_conf(r, resolv, err) == 0 && read_hosts(r, hosts, err) == 0)
		return 0;
	resolv_clear(r);
	return -1;
}

void resolv_clear(struct resolv *r)
{
	free(r->hosts);
	free(r->text);
	*r = (struct resolv){0};
}
