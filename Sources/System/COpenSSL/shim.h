#pragma once
#include <openssl/crypto.h>
#include <openssl/md5.h>
#include <openssl/sha.h>
#include "keys.h"
#include "tls.h"

// OpenSSL 3 deprecates the low-level digests in favour of EVP, whose fetch and context cost several times the hash of
// the short strings that a hub signs. They are wrapped here, and used nowhere else.
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wdeprecated-declarations"

static inline void carillon_md5(const void *bytes, size_t count, unsigned char *digest) {
    MD5((const unsigned char *)bytes, count, digest);
}

static inline void carillon_sha1_init(SHA_CTX *context) { SHA1_Init(context); }
static inline void carillon_sha1_block(SHA_CTX *context, const void *block) {
    SHA1_Transform(context, (const unsigned char *)block);
}

static inline void carillon_sha256_init(SHA256_CTX *context) { SHA256_Init(context); }
static inline void carillon_sha256_update(SHA256_CTX *context, const void *bytes, size_t count) {
    SHA256_Update(context, bytes, count);
}
static inline void carillon_sha256_block(SHA256_CTX *context, const void *block) {
    SHA256_Transform(context, (const unsigned char *)block);
}
static inline void carillon_sha256_final(SHA256_CTX *context, unsigned char *digest) { SHA256_Final(digest, context); }

#pragma clang diagnostic pop
