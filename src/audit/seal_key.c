/* SPDX-License-Identifier: Apache-2.0 */
/* The key of the seals, by OpenSSL. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "audit/seal.h"
#include "base/sha256.h"
#include "base/util.h"

enum { RAW_KEY = 32, RAW_SIGNATURE = 64, PEM_MAX = 4096 };

struct seal_key {
	EVP_PKEY *pkey;
	char id[SEAL_KEY_ID + 1];
};

void seal_key_free(struct seal_key *k)
{
	if (k)
		EVP_PKEY_free(k->pkey);
	free(k);
}

const char *seal_key_id(const struct seal_key *k)
{
	return k->id;
}

static int crypto_failed(struct cordon_error *err, const char *what)
{
	char text[256] = "libcrypto does not say why";
	unsigned long code = ERR_get_error();

	if (code)
		ERR_error_string_n(code, text, sizeof(text));
	ERR_clear_error();
	return err_set(err, CORDON_ERR_SYSTEM, "%s: %s", what, text);
}

/* Takes pkey over. */
static struct seal_key *make_key(EVP_PKEY *pkey, const char *name, struct cordon_error *err)
{
	unsigned char raw[RAW_KEY], digest[SHA256_SIZE];
	char hex[SHA256_HEX];
	size_t len = sizeof(raw);
	struct seal_key *k = pkey ? calloc(1, sizeof(*k)) : NULL;
	struct sha256 s;

	if (!k || EVP_PKEY_get_id(pkey) != EVP_PKEY_ED25519 || EVP_PKEY_get_raw_public_key(pkey, raw, &len) != 1 || len != sizeof(raw)) {
		if (pkey && k)
			err_set(err, CORDON_ERR_INPUT, "%s is not an Ed25519 key", name);
		else
			crypto_failed(err, name);
		EVP_PKEY_free(pkey);
		free(k);
		return NULL;
	}
	sha256_begin(&s);
	sha256_add(&s, raw, sizeof(raw));
	sha256_end(&s, digest);
	sha256_hex(digest, hex);
	memcpy(k->id, hex, SEAL_KEY_ID);
	k->pkey = pkey;
	return k;
}

/* ---- files ------------------------------------------------------------------------------------------------------------------- */

/* A PEM file in memory; NULL with errno. */
static BIO *read_pem(int dir, const char *path, bool private)
{
	char text[PEM_MAX];
	struct stat st;
	_cleanup_fd_ int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (private ? O_NOFOLLOW : 0));

	if (fd < 0 || fstat(fd, &st) < 0)
		return NULL;
	if (private && (st.st_uid != geteuid() || (st.st_mode & 077))) {
		errno = EPERM;
		return NULL;
	}
	ssize_t n = read(fd, text, sizeof(text));
	BIO *bio = n >= 0 ? BIO_new(BIO_s_mem()) : NULL;
	if (bio)
		BIO_write(bio, text, (int)n);
	OPENSSL_cleanse(text, sizeof(text));
	return bio;
}

/* A question for a passphrase on the terminal would be out of place. */
static int no_passphrase(char *buf, int size, int writing, void *arg)
{
	(void)buf;
	(void)size;
	(void)writing;
	(void)arg;
	return -1;
}

static int write_pem(int dir, const char *name, EVP_PKEY *pkey, bool private, struct cordon_error *err)
{
	static const char temporary[] = "key.new";
	BIO *bio = BIO_new(BIO_s_mem());
	char *data = NULL;
	int made = !bio ? 0 : private ? PEM_write_bio_PrivateKey(bio, pkey, NULL, NULL, 0, NULL, NULL) : PEM_write_bio_PUBKEY(bio, pkey);
	long len = made ? BIO_get_mem_data(bio, &data) : 0;
	int r = len > 0 ? 0 : crypto_failed(err, name);

	if (r == 0) {
		_cleanup_fd_ int fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, private ? 0600 : 0644);

		if (fd < 0 || write(fd, data, (size_t)len) != (ssize_t)len || fsync(fd) < 0 || renameat(dir, temporary, dir, name) < 0 ||
		    fsync(dir) < 0) {
			r = err_sys(err, "cannot write the audit's %s", name);
			unlinkat(dir, temporary, 0);
		}
		OPENSSL_cleanse(data, (size_t)len);
	}
	BIO_free(bio);
	return r;
}

/* The public half is written last: it stands for a whole key. */
static struct seal_key *create(int dir, struct cordon_error *err)
{
	struct seal_key *k = make_key(EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"), "cannot make a key", err);

	if (k && (write_pem(dir, SEAL_KEY, k->pkey, true, err) < 0 || write_pem(dir, SEAL_KEY_PUB, k->pkey, false, err) < 0)) {
		seal_key_free(k);
		return NULL;
	}
	return k;
}

struct seal_key *seal_key_private(int dir, struct cordon_error *err)
{
	BIO *bio = read_pem(dir, SEAL_KEY, true);
	const int saved = errno;
	const bool half = faccessat(dir, SEAL_KEY_PUB, F_OK, AT_SYMLINK_NOFOLLOW) == 0;

	if (!bio && saved == ENOENT && !half)
		return create(dir, err);
	if (!bio) {
		errno = saved;
		if (saved == ENOENT)
			err_set(err, CORDON_ERR_NOT_FOUND, "the audit's key is gone, but its %s is there", SEAL_KEY_PUB);
		else if (saved == EPERM)
			err_set(err, CORDON_ERR_DENIED, "the audit's key belongs to or can be read by somebody else");
		else
			err_sys(err, "cannot read the audit's key");
		err_hint(err, "put it back as it was; what a new key seals cannot be told from a forgery");
		return NULL;
	}
	struct seal_key *k = make_key(PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL), "the audit's key", err);
	BIO_free(bio);
	if (k && !half && write_pem(dir, SEAL_KEY_PUB, k->pkey, false, err) < 0) { /* interrupted between the two */
		seal_key_free(k);
		return NULL;
	}
	return k;
}

struct seal_key *seal_key_public(int dir, const char *path, struct cordon_error *err)
{
	BIO *bio = read_pem(dir, path, false);

	if (!bio) {
		err_sys(err, "cannot read %s", path);
		return NULL;
	}
	struct seal_key *k = make_key(PEM_read_bio_PUBKEY(bio, NULL, no_passphrase, NULL), path, err);
	BIO_free(bio);
	return k;
}

/* ---- signatures -------------------------------------------------------------------------------------------------------------- */

int seal_sign(struct seal *s, const struct seal_key *k, struct cordon_error *err)
{
	_cleanup_buf_ struct buf text = {0};
	unsigned char raw[RAW_SIGNATURE];
	size_t len = sizeof(raw);

	memcpy(s->key, k->id, sizeof(s->key));
	seal_text(s, &text);
	EVP_MD_CTX *ctx = text.failed ? NULL : EVP_MD_CTX_new();
	bool ok = ctx && EVP_DigestSignInit(ctx, NULL, NULL, NULL, k->pkey) == 1 &&
	          EVP_DigestSign(ctx, raw, &len, (const unsigned char *)text.data, text.len) == 1 && len == sizeof(raw);
	EVP_MD_CTX_free(ctx);
	if (!ok)
		return crypto_failed(err, "cannot sign a segment of the audit");
	EVP_EncodeBlock((unsigned char *)s->signature, raw, sizeof(raw));
	return 0;
}

const char *seal_check(const struct seal *s, const struct seal_key *k)
{
	_cleanup_buf_ struct buf text = {0};
	unsigned char raw[RAW_SIGNATURE + 3], again[SEAL_SIGNATURE + 1];

	if (strcmp(s->key, k->id) != 0)
		return "it was made with another key";
	/* one spelling per signature */
	if (EVP_DecodeBlock(raw, (const unsigned char *)s->signature, SEAL_SIGNATURE) != RAW_SIGNATURE + 2 ||
	    EVP_EncodeBlock(again, raw, RAW_SIGNATURE) != SEAL_SIGNATURE || memcmp(again, s->signature, SEAL_SIGNATURE) != 0)
		return "its signature is not one";
	seal_text(s, &text);
	EVP_MD_CTX *ctx = text.failed ? NULL : EVP_MD_CTX_new();
	bool good = ctx && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, k->pkey) == 1 &&
	            EVP_DigestVerify(ctx, raw, RAW_SIGNATURE, (const unsigned char *)text.data, text.len) == 1;
	EVP_MD_CTX_free(ctx);
	ERR_clear_error();
	return good ? NULL : "its signature does not belong to what it says: it is forged";
}
