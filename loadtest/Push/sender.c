// A bare sender of pushes, to hold the hub against: one thread, libcurl's multi interface, one prebuilt request.
//
//     sender URL CA_FILE REQUESTS IN_FLIGHT
//
// Posts the same push REQUESTS times over HTTP/2, IN_FLIGHT at a time, on as many connections as the hub may have. Prints
// the seconds that it took, and how many were answered with 200. No database, no tokens, no answers read: what no sender
// over libcurl can be faster than, with the same driver.
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const char body[] =
    "{\"aps\":{\"alert\":{\"title\":\"Reminder\",\"body\":\"It is time for your reminder.\"},\"sound\":\"default\"},"
    "\"carillon\":{\"kind\":\"reminder\",\"channel\":\"private-user.user-100000.reminders\",\"epoch\":\"1.1\","
    "\"offset\":\"1\","
    "\"start\":\"2025-11-20T08:00:00Z\",\"occurrenceId\":\"0d4c1f5e-0000-5000-8000-000000000001\",\"ruleId\":\"rule-1\"}}";

static size_t ignore(char *bytes, size_t size, size_t count, void *context) {
    (void)bytes, (void)context;
    return size * count;
}

static CURL *make(const char *url, const char *ca_file, struct curl_slist *fields) {
    CURL *easy = curl_easy_init();
    if (easy == NULL) exit(1);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_CAINFO, ca_file);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, fields);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, ignore);
    return easy;
}

int main(int count, char **arguments) {
    if (count != 5) return 2;
    long requests = atol(arguments[3]), in_flight = atol(arguments[4]), begun = 0, ended = 0, accepted = 0;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    CURLM *multi = curl_multi_init();
    curl_multi_setopt(multi, CURLMOPT_MAX_HOST_CONNECTIONS, 8L);
    curl_multi_setopt(multi, CURLMOPT_MAX_CONCURRENT_STREAMS, 256L);
    struct curl_slist *fields = NULL;
    const char *texts[] = {"authorization: bearer 0123456789012345678901234567890123456789012345678901234567890123456789",
                           "apns-push-type: alert", "apns-priority: 10", "apns-expiration: 1763629200",
                           "apns-collapse-id: 0d4c1f5e-0000-5000-8000-000000000001", "content-type: application/json",
                           "apns-topic: org.example.app", "Expect:"};
    for (size_t index = 0; index < sizeof texts / sizeof *texts; index++) fields = curl_slist_append(fields, texts[index]);
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    while (begun < in_flight && begun < requests) {
        curl_multi_add_handle(multi, make(arguments[1], arguments[2], fields));
        begun++;
    }
    while (ended < requests) {
        int running, left;
        curl_multi_perform(multi, &running);
        CURLMsg *message;
        while ((message = curl_multi_info_read(multi, &left)) != NULL) {
            CURL *easy = message->easy_handle;
            long status = 0;
            curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
            accepted += message->data.result == CURLE_OK && status == 200;
            ended++;
            curl_multi_remove_handle(multi, easy);
            // The same handle again: a sender that makes none anew.
            if (begun < requests) {
                curl_multi_add_handle(multi, easy);
                begun++;
            } else {
                curl_easy_cleanup(easy);
            }
        }
        if (ended < requests) curl_multi_poll(multi, NULL, 0, 1000, NULL);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.6f %ld\n", (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9, accepted);
    return accepted == requests ? 0 : 1;
}
