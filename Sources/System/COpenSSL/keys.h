// Private keys that sign tokens (RFC 7518): ES256 and RS256.
#pragma once
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <string.h>

enum { CARILLON_KEY_OTHER = 0, CARILLON_KEY_P256 = 1, CARILLON_KEY_RSA = 2 };

/// Asks nobody for a password.
static int carillon_no_password(char *bytes, int count, int is_written, void *context) {
    (void)bytes, (void)count, (void)is_written, (void)context;
    return -1;
}

/// The private key of a PEM text without a password; NULL where there is none.
static inline EVP_PKEY *carillon_private_key(const void *pem, int count) {
    BIO *bio = BIO_new_mem_buf(pem, count);
    if (bio == NULL) return NULL;
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, carillon_no_password, NULL);
    BIO_free(bio);
    ERR_clear_error();
    return key;
}

static inline int carillon_key_kind(const EVP_PKEY *key) {
    char curve[32];
    size_t count = 0;
    switch (EVP_PKEY_get_base_id(key)) {
    case EVP_PKEY_EC:
        if (EVP_PKEY_get_group_name(key, curve, sizeof curve, &count) != 1) return CARILLON_KEY_OTHER;
        return strcmp(curve, "prime256v1") == 0 ? CARILLON_KEY_P256 : CARILLON_KEY_OTHER;
    case EVP_PKEY_RSA:
        return EVP_PKEY_get_bits(key) >= 2048 ? CARILLON_KEY_RSA : CARILLON_KEY_OTHER;
    default:
        return CARILLON_KEY_OTHER;
    }
}

/// The signature of bytes with SHA-256: PKCS #1 v1.5 of an RSA key, R and S of a P-256 key in 32 bytes each (RFC 7518
/// §3.4). Returns its size; 0 where it fails or `room` is too small.
static inline size_t carillon_sign(EVP_PKEY *key, const void *bytes, size_t count, unsigned char *signature, size_t room) {
    unsigned char made[1024];
    size_t size = sizeof made, written = 0;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (context == NULL) return 0;
    int is_made = EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, key) == 1 &&
                  EVP_DigestSign(context, made, &size, (const unsigned char *)bytes, count) == 1;
    EVP_MD_CTX_free(context);
    if (is_made && carillon_key_kind(key) == CARILLON_KEY_P256) {
        const unsigned char *at = made;
        ECDSA_SIG *pair = d2i_ECDSA_SIG(NULL, &at, (long)size);
        if (pair != NULL && room >= 64 && BN_bn2binpad(ECDSA_SIG_get0_r(pair), signature, 32) == 32 &&
            BN_bn2binpad(ECDSA_SIG_get0_s(pair), signature + 32, 32) == 32)
            written = 64;
        ECDSA_SIG_free(pair);
    } else if (is_made && size <= room) {
        memcpy(signature, made, size);
        written = size;
    }
    ERR_clear_error();
    return written;
}
