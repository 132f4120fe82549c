// What Swift cannot see of libssl, its macros above all, and the two ends of a TLS connection's wire.
#pragma once
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <time.h>

/// Ciphertext between sockets and libssl: what has come and is not read yet, and what is to be sent. One for each loop,
/// used for one connection at a time: libssl then needs neither a descriptor nor a BIO of each connection's own.
typedef struct {
    const unsigned char *incoming;
    size_t incoming_count;
    unsigned char *outgoing;
    size_t outgoing_count;
    size_t outgoing_capacity;
    /// New keys that the peer has asked for, of those that it may ask for.
    size_t key_updates;
    size_t key_updates_max;
} carillon_tls_wire;

static int carillon_wire_read(BIO *bio, char *bytes, int count) {
    carillon_tls_wire *wire = (carillon_tls_wire *)BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (count <= 0) return 0;
    if (wire->incoming_count == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    size_t moved = (size_t)count < wire->incoming_count ? (size_t)count : wire->incoming_count;
    memcpy(bytes, wire->incoming, moved);
    wire->incoming += moved;
    wire->incoming_count -= moved;
    return (int)moved;
}

static int carillon_wire_write(BIO *bio, const char *bytes, int count) {
    carillon_tls_wire *wire = (carillon_tls_wire *)BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (count <= 0) return 0;
    if ((size_t)count > wire->outgoing_capacity - wire->outgoing_count) {
        BIO_set_retry_write(bio);
        return -1;
    }
    memcpy(wire->outgoing + wire->outgoing_count, bytes, (size_t)count);
    wire->outgoing_count += (size_t)count;
    return count;
}

static long carillon_wire_control(BIO *bio, int command, long number, void *pointer) {
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static inline BIO_METHOD *carillon_wire_method(void) {
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "wire");
    if (method == NULL) return NULL;
    BIO_meth_set_read(method, carillon_wire_read);
    BIO_meth_set_write(method, carillon_wire_write);
    BIO_meth_set_ctrl(method, carillon_wire_control);
    return method;
}

static inline BIO *carillon_wire_bio(const BIO_METHOD *method, carillon_tls_wire *wire) {
    BIO *bio = BIO_new(method);
    if (bio == NULL) return NULL;
    BIO_set_data(bio, wire);
    BIO_set_init(bio, 1);
    return bio;
}

/// libssl has read or written a message. It sets no bound to key updates (RFC 8446 §4.6.3), and takes all that are there
/// within one SSL_read: beyond the bound it finds nothing more to read.
static void carillon_wire_message(int is_written, int version, int type, const void *bytes, size_t count, SSL *ssl,
                                  void *argument) {
    (void)version, (void)ssl;
    if (is_written || type != SSL3_RT_HANDSHAKE || count == 0 || *(const unsigned char *)bytes != SSL3_MT_KEY_UPDATE)
        return;
    carillon_tls_wire *wire = (carillon_tls_wire *)argument;
    wire->key_updates += 1;
    if (wire->key_updates > wire->key_updates_max) wire->incoming_count = 0;
}

/// Reads and writes through `bio`, of which the connection holds references from now on.
static inline void carillon_tls_attach(SSL *ssl, BIO *bio) {
    // SSL_set_bio(3): of one BIO given twice it takes one reference, and makes the other itself.
    BIO_up_ref(bio);
    SSL_set_bio(ssl, bio, bio);
    SSL_set_msg_callback(ssl, carillon_wire_message);
    SSL_set_msg_callback_arg(ssl, BIO_get_data(bio));
}

static inline int carillon_tls_versions(SSL_CTX *context, int least, int most) {
    return SSL_CTX_set_min_proto_version(context, least) && SSL_CTX_set_max_proto_version(context, most);
}

static inline void carillon_tls_mode(SSL_CTX *context) {
    // Without NO_AUTO_CHAIN a chain is searched for, with all its signatures, in every single handshake.
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_NO_AUTO_CHAIN);
}

static inline void carillon_tls_server_options(SSL_CTX *context) {
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                     SSL_OP_PRIORITIZE_CHACHA);
}

static inline void carillon_tls_cache_mode(SSL_CTX *context, long mode) {
    SSL_CTX_set_session_cache_mode(context, mode);
}

static inline int carillon_tls_groups(SSL_CTX *context, const char *names) {
    return (int)SSL_CTX_set1_groups_list(context, names);
}

static inline void carillon_tls_on_name(SSL_CTX *context, int (*chosen)(SSL *, int *, void *), void *argument) {
    SSL_CTX_set_tlsext_servername_callback(context, chosen);
    SSL_CTX_set_tlsext_servername_arg(context, argument);
}

static inline int carillon_tls_name(SSL *ssl, const char *name) {
    return (int)SSL_set_tlsext_host_name(ssl, name);
}

static inline int carillon_error_library(unsigned long code) { return ERR_GET_LIB(code); }
static inline int carillon_error_reason(unsigned long code) { return ERR_GET_REASON(code); }

static inline int carillon_general_name_count(const GENERAL_NAMES *names) { return sk_GENERAL_NAME_num(names); }

/// The DNS name at `index` of a certificate's alternative names; NULL where that is a name of another kind.
static inline const unsigned char *carillon_dns_name(const GENERAL_NAMES *names, int index, int *count) {
    const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, index);
    if (name == NULL || name->type != GEN_DNS) return NULL;
    *count = ASN1_STRING_length(name->d.dNSName);
    return ASN1_STRING_get0_data(name->d.dNSName);
}

/// Seconds since 1970; -1 where it is no time.
static inline long long carillon_unix_time(const ASN1_TIME *time) {
    struct tm parts;
    if (time == NULL || ASN1_TIME_to_tm(time, &parts) != 1) return -1;
    return (long long)timegm(&parts);
}

/// Readies a ticket's cipher and its MAC: AES-256-CBC, and HMAC with SHA-256 (RFC 5077 §4). Keys of 32 bytes each.
static inline int carillon_ticket_ciphers(EVP_CIPHER_CTX *cipher_context, EVP_MAC_CTX *mac_context,
                                          const EVP_CIPHER *cipher, const unsigned char *cipher_key,
                                          const unsigned char *mac_key, const unsigned char *iv, int encrypts) {
    OSSL_PARAM parameters[3];
    parameters[0] = OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *)mac_key, 32);
    parameters[1] = OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, "SHA256", 0);
    parameters[2] = OSSL_PARAM_construct_end();
    return EVP_CipherInit_ex(cipher_context, cipher, NULL, cipher_key, iv, encrypts) == 1 &&
           EVP_MAC_CTX_set_params(mac_context, parameters) == 1;
}
