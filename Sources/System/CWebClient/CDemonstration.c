// One entry for each file of Sources/Clients/Demonstration; a test holds the list to the folder.
#include "CWebClient.h"

#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wc23-extensions"

static const char conflict_js[] = {
#embed "../../Clients/Demonstration/conflict.js" suffix(, )
    0};
static const char demo_css[] = {
#embed "../../Clients/Demonstration/demo.css" suffix(, )
    0};
static const char demo_js[] = {
#embed "../../Clients/Demonstration/demo.js" suffix(, )
    0};
static const char dom_js[] = {
#embed "../../Clients/Demonstration/dom.js" suffix(, )
    0};
static const char icon_svg[] = {
#embed "../../Clients/Demonstration/icon.svg" suffix(, )
    0};
static const char index_html[] = {
#embed "../../Clients/Demonstration/index.html" suffix(, )
    0};
static const char month_js[] = {
#embed "../../Clients/Demonstration/month.js" suffix(, )
    0};
static const char network_js[] = {
#embed "../../Clients/Demonstration/network.js" suffix(, )
    0};
static const char phone_js[] = {
#embed "../../Clients/Demonstration/phone.js" suffix(, )
    0};
static const char reminders_js[] = {
#embed "../../Clients/Demonstration/reminders.js" suffix(, )
    0};
static const char today_js[] = {
#embed "../../Clients/Demonstration/today.js" suffix(, )
    0};
static const char wire_js[] = {
#embed "../../Clients/Demonstration/wire.js" suffix(, )
    0};

#pragma clang diagnostic pop

static const struct carillon_web_module files[] = {
    {"conflict.js", conflict_js, sizeof conflict_js - 1},
    {"demo.css", demo_css, sizeof demo_css - 1},
    {"demo.js", demo_js, sizeof demo_js - 1},
    {"dom.js", dom_js, sizeof dom_js - 1},
    {"icon.svg", icon_svg, sizeof icon_svg - 1},
    {"index.html", index_html, sizeof index_html - 1},
    {"month.js", month_js, sizeof month_js - 1},
    {"network.js", network_js, sizeof network_js - 1},
    {"phone.js", phone_js, sizeof phone_js - 1},
    {"reminders.js", reminders_js, sizeof reminders_js - 1},
    {"today.js", today_js, sizeof today_js - 1},
    {"wire.js", wire_js, sizeof wire_js - 1},
};

size_t carillon_demonstration_file_count(void) { return sizeof files / sizeof files[0]; }

const struct carillon_web_module *carillon_demonstration_file_at(size_t index) {
    return index < carillon_demonstration_file_count() ? &files[index] : NULL;
}
