// One entry for each module of Sources/Clients/Web; a test holds the list to the folder. #embed is C23; clang accepts it in
// every mode of the language.
#include "CWebClient.h"

#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wc23-extensions"

static const char account_js[] = {
#embed "../../Clients/Web/account.js" suffix(, )
    0};
static const char acting_js[] = {
#embed "../../Clients/Web/acting.js" suffix(, )
    0};
static const char carillon_d_ts[] = {
#embed "../../Clients/Web/carillon.d.ts" suffix(, )
    0};
static const char carillon_js[] = {
#embed "../../Clients/Web/carillon.js" suffix(, )
    0};
static const char client_js[] = {
#embed "../../Clients/Web/client.js" suffix(, )
    0};
static const char doserules_js[] = {
#embed "../../Clients/Web/doserules.js" suffix(, )
    0};
static const char entities_js[] = {
#embed "../../Clients/Web/entities.js" suffix(, )
    0};
static const char line_js[] = {
#embed "../../Clients/Web/line.js" suffix(, )
    0};
static const char lists_js[] = {
#embed "../../Clients/Web/lists.js" suffix(, )
    0};
static const char overlay_js[] = {
#embed "../../Clients/Web/overlay.js" suffix(, )
    0};
static const char payload_js[] = {
#embed "../../Clients/Web/payload.js" suffix(, )
    0};
static const char queue_js[] = {
#embed "../../Clients/Web/queue.js" suffix(, )
    0};
static const char reminderbook_js[] = {
#embed "../../Clients/Web/reminderbook.js" suffix(, )
    0};
static const char session_js[] = {
#embed "../../Clients/Web/session.js" suffix(, )
    0};
static const char signals_js[] = {
#embed "../../Clients/Web/signals.js" suffix(, )
    0};
static const char store_js[] = {
#embed "../../Clients/Web/store.js" suffix(, )
    0};
static const char streams_js[] = {
#embed "../../Clients/Web/streams.js" suffix(, )
    0};
static const char tabs_js[] = {
#embed "../../Clients/Web/tabs.js" suffix(, )
    0};
static const char times_js[] = {
#embed "../../Clients/Web/times.js" suffix(, )
    0};

#pragma clang diagnostic pop

static const struct carillon_web_module modules[] = {
    {"account.js", account_js, sizeof account_js - 1},
    {"acting.js", acting_js, sizeof acting_js - 1},
    {"carillon.d.ts", carillon_d_ts, sizeof carillon_d_ts - 1},
    {"carillon.js", carillon_js, sizeof carillon_js - 1},
    {"client.js", client_js, sizeof client_js - 1},
    {"doserules.js", doserules_js, sizeof doserules_js - 1},
    {"entities.js", entities_js, sizeof entities_js - 1},
    {"line.js", line_js, sizeof line_js - 1},
    {"lists.js", lists_js, sizeof lists_js - 1},
    {"overlay.js", overlay_js, sizeof overlay_js - 1},
    {"payload.js", payload_js, sizeof payload_js - 1},
    {"queue.js", queue_js, sizeof queue_js - 1},
    {"reminderbook.js", reminderbook_js, sizeof reminderbook_js - 1},
    {"session.js", session_js, sizeof session_js - 1},
    {"signals.js", signals_js, sizeof signals_js - 1},
    {"store.js", store_js, sizeof store_js - 1},
    {"streams.js", streams_js, sizeof streams_js - 1},
    {"tabs.js", tabs_js, sizeof tabs_js - 1},
    {"times.js", times_js, sizeof times_js - 1},
};

size_t carillon_web_module_count(void) { return sizeof modules / sizeof modules[0]; }

const struct carillon_web_module *carillon_web_module_at(size_t index) {
    return index < carillon_web_module_count() ? &modules[index] : NULL;
}
