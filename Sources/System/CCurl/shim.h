// libcurl, whose setters take a variable number of arguments, which Swift cannot call.
#pragma once
#include <curl/curl.h>
#include <sys/socket.h>

/// What one request is made of. Strings and the body are copied by libcurl; `headers` must outlive the transfer.
struct carillon_curl_request {
    const char *url;
    const char *user_agent;
    struct curl_slist *headers;
    const void *body;
    size_t body_count;
    /// A value of CURLOPT_HTTP_VERSION.
    long http_version;
    /// 1: it waits for a connection that it can share, until it is known whether the host speaks HTTP/2.
    long waits_to_share;
    /// PEM certificates trusted in place of the system's; NULL: the system's.
    const char *ca_file;
    /// How long certificates that were read are good for, in seconds; 0: they are read for each connection.
    long ca_seconds;
    long connect_milliseconds;
    long total_milliseconds;
    /// Given to the three functions below.
    void *context;
    curl_opensocket_callback open_socket;
    curl_write_callback receive_head;
    curl_write_callback receive_body;
};

/// The file of the system's certificates, as libcurl was built; NULL where it knows none.
static inline const char *carillon_curl_system_ca_file(void) {
    const curl_version_info_data *info = curl_version_info(CURLVERSION_NOW);
    return info && info->age >= CURLVERSION_SEVENTH ? info->cainfo : NULL;
}

#define carillon_set(option, value) \
    if ((code = curl_easy_setopt(easy, option, value)) != CURLE_OK) return code

/// What all requests of a handle have in common.
static inline CURLcode carillon_curl_prepare(CURL *easy, const struct carillon_curl_request *request) {
    CURLcode code = CURLE_OK;
    carillon_set(CURLOPT_PRIVATE, request->context);
    // Nothing but what the URL names: no redirect, no proxy of the environment, no other protocol.
    carillon_set(CURLOPT_PROTOCOLS_STR, "http,https");
    carillon_set(CURLOPT_FOLLOWLOCATION, 0L);
    carillon_set(CURLOPT_PROXY, "");
    // No signals, and no waiting for a resolver's thread when a transfer is given up.
    carillon_set(CURLOPT_NOSIGNAL, 1L);
    carillon_set(CURLOPT_QUICK_EXIT, 1L);
    carillon_set(CURLOPT_CONNECTTIMEOUT_MS, request->connect_milliseconds);
    carillon_set(CURLOPT_TIMEOUT_MS, request->total_milliseconds);
    carillon_set(CURLOPT_SSL_VERIFYPEER, 1L);
    carillon_set(CURLOPT_SSL_VERIFYHOST, 2L);
    carillon_set(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    // libcurl keeps what it has read of a file, and nothing where a folder is set beside it: reading the system's takes
    // 30 to 60 ms of processor time for each connection, and its folder holds the same certificates.
    const char *ca_file = request->ca_file ? request->ca_file : carillon_curl_system_ca_file();
    if (ca_file) {
        carillon_set(CURLOPT_CAINFO, ca_file);
        carillon_set(CURLOPT_CAPATH, (char *)NULL);
    }
    carillon_set(CURLOPT_CA_CACHE_TIMEOUT, request->ca_seconds);
    carillon_set(CURLOPT_POST, 1L);
    carillon_set(CURLOPT_USERAGENT, request->user_agent);
    carillon_set(CURLOPT_OPENSOCKETFUNCTION, request->open_socket);
    carillon_set(CURLOPT_OPENSOCKETDATA, request->context);
    carillon_set(CURLOPT_HEADERFUNCTION, request->receive_head);
    carillon_set(CURLOPT_HEADERDATA, request->context);
    carillon_set(CURLOPT_WRITEFUNCTION, request->receive_body);
    carillon_set(CURLOPT_WRITEDATA, request->context);
    return code;
}

/// What the next request of a prepared handle is.
static inline CURLcode carillon_curl_aim(CURL *easy, const struct carillon_curl_request *request) {
    CURLcode code = CURLE_OK;
    carillon_set(CURLOPT_URL, request->url);
    carillon_set(CURLOPT_HTTP_VERSION, request->http_version);
    carillon_set(CURLOPT_PIPEWAIT, request->waits_to_share);
    carillon_set(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_count);
    carillon_set(CURLOPT_COPYPOSTFIELDS, request->body);
    carillon_set(CURLOPT_HTTPHEADER, request->headers);
    return code;
}
#undef carillon_set

/// What was given as `context`; NULL where there is none.
static inline void *carillon_curl_context(CURL *easy) {
    char *context = NULL;
    return curl_easy_getinfo(easy, CURLINFO_PRIVATE, &context) == CURLE_OK ? context : NULL;
}

/// The last status line's code; 0 where none came.
static inline long carillon_curl_status(CURL *easy) {
    long status = 0;
    return curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK ? status : 0;
}

/// Whether the address is known: the name was resolved, or the URL holds it, or a connection was there.
static inline int carillon_curl_has_resolved(CURL *easy) {
    curl_off_t microseconds = 0;
    return curl_easy_getinfo(easy, CURLINFO_NAMELOOKUP_TIME_T, &microseconds) == CURLE_OK && microseconds > 0;
}

static inline CURLMcode carillon_curl_limit_connections(CURLM *multi, long count, long of_host, long streams) {
    CURLMcode code = curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, count);
    if (code == CURLM_OK) code = curl_multi_setopt(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, count);
    if (code == CURLM_OK) code = curl_multi_setopt(multi, CURLMOPT_MAX_HOST_CONNECTIONS, of_host);
    return code != CURLM_OK ? code : curl_multi_setopt(multi, CURLMOPT_MAX_CONCURRENT_STREAMS, streams);
}

/// The address that a socket is to be connected to; libcurl keeps as much room behind it as its length says.
static inline const struct sockaddr *carillon_curl_address(const struct curl_sockaddr *address) {
    return &address->addr;
}

/// The result of a message that tells of one.
static inline CURLcode carillon_curl_result(const CURLMsg *message) { return message->data.result; }
