// One row for each file that a browser gets, by its path: the web client's modules (Sources/Clients/Web), and the pages of
// the demonstration and of the console, which share two files. Tests hold the rows to the folders. #embed is C23; clang
// accepts it in every mode of the language.
#include "CWebClient.h"

#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wc23-extensions"

static const struct carillon_web_file files[] = {
    {"/client/account.js",
     (const char[]){
#embed "../../Clients/Web/account.js" suffix(, )
         0}},
    {"/client/acting.js",
     (const char[]){
#embed "../../Clients/Web/acting.js" suffix(, )
         0}},
    {"/client/carillon.d.ts",
     (const char[]){
#embed "../../Clients/Web/carillon.d.ts" suffix(, )
         0}},
    {"/client/carillon.js",
     (const char[]){
#embed "../../Clients/Web/carillon.js" suffix(, )
         0}},
    {"/client/channels.js",
     (const char[]){
#embed "../../Clients/Web/channels.js" suffix(, )
         0}},
    {"/client/client.js",
     (const char[]){
#embed "../../Clients/Web/client.js" suffix(, )
         0}},
    {"/client/doserules.js",
     (const char[]){
#embed "../../Clients/Web/doserules.js" suffix(, )
         0}},
    {"/client/entities.js",
     (const char[]){
#embed "../../Clients/Web/entities.js" suffix(, )
         0}},
    {"/client/line.js",
     (const char[]){
#embed "../../Clients/Web/line.js" suffix(, )
         0}},
    {"/client/lists.js",
     (const char[]){
#embed "../../Clients/Web/lists.js" suffix(, )
         0}},
    {"/client/occurrenceid.js",
     (const char[]){
#embed "../../Clients/Web/occurrenceid.js" suffix(, )
         0}},
    {"/client/overlay.js",
     (const char[]){
#embed "../../Clients/Web/overlay.js" suffix(, )
         0}},
    {"/client/payload.js",
     (const char[]){
#embed "../../Clients/Web/payload.js" suffix(, )
         0}},
    {"/client/queue.js",
     (const char[]){
#embed "../../Clients/Web/queue.js" suffix(, )
         0}},
    {"/client/reminderbook.js",
     (const char[]){
#embed "../../Clients/Web/reminderbook.js" suffix(, )
         0}},
    {"/client/schedules.js",
     (const char[]){
#embed "../../Clients/Web/schedules.js" suffix(, )
         0}},
    {"/client/session.js",
     (const char[]){
#embed "../../Clients/Web/session.js" suffix(, )
         0}},
    {"/client/signals.js",
     (const char[]){
#embed "../../Clients/Web/signals.js" suffix(, )
         0}},
    {"/client/store.js",
     (const char[]){
#embed "../../Clients/Web/store.js" suffix(, )
         0}},
    {"/client/streams.js",
     (const char[]){
#embed "../../Clients/Web/streams.js" suffix(, )
         0}},
    {"/client/tabs.js",
     (const char[]){
#embed "../../Clients/Web/tabs.js" suffix(, )
         0}},
    {"/client/times.js",
     (const char[]){
#embed "../../Clients/Web/times.js" suffix(, )
         0}},
    {"/demo/conflict.js",
     (const char[]){
#embed "../../Clients/Demonstration/conflict.js" suffix(, )
         0}},
    {"/demo/demo.css",
     (const char[]){
#embed "../../Clients/Demonstration/demo.css" suffix(, )
         0}},
    {"/demo/demo.js",
     (const char[]){
#embed "../../Clients/Demonstration/demo.js" suffix(, )
         0}},
    {"/demo/dom.js",
     (const char[]){
#embed "../../Clients/Demonstration/dom.js" suffix(, )
         0}},
    {"/demo/icon.svg",
     (const char[]){
#embed "../../Clients/Demonstration/icon.svg" suffix(, )
         0}},
    {"/demo/index.html",
     (const char[]){
#embed "../../Clients/Demonstration/index.html" suffix(, )
         0}},
    {"/demo/month.js",
     (const char[]){
#embed "../../Clients/Demonstration/month.js" suffix(, )
         0}},
    {"/demo/network.js",
     (const char[]){
#embed "../../Clients/Demonstration/network.js" suffix(, )
         0}},
    {"/demo/phone.js",
     (const char[]){
#embed "../../Clients/Demonstration/phone.js" suffix(, )
         0}},
    {"/demo/reminders.js",
     (const char[]){
#embed "../../Clients/Demonstration/reminders.js" suffix(, )
         0}},
    {"/demo/start.js",
     (const char[]){
#embed "../../Clients/Demonstration/start.js" suffix(, )
         0}},
    {"/demo/today.js",
     (const char[]){
#embed "../../Clients/Demonstration/today.js" suffix(, )
         0}},
    {"/demo/wire.js",
     (const char[]){
#embed "../../Clients/Demonstration/wire.js" suffix(, )
         0}},
    {"/console/access.js",
     (const char[]){
#embed "../../Clients/Console/access.js" suffix(, )
         0}},
    {"/console/console.css",
     (const char[]){
#embed "../../Clients/Console/console.css" suffix(, )
         0}},
    {"/console/console.js",
     (const char[]){
#embed "../../Clients/Console/console.js" suffix(, )
         0}},
    {"/console/create.js",
     (const char[]){
#embed "../../Clients/Console/create.js" suffix(, )
         0}},
    {"/console/dom.js",
     (const char[]){
#embed "../../Clients/Demonstration/dom.js" suffix(, )
         0}},
    {"/console/events.js",
     (const char[]){
#embed "../../Clients/Console/events.js" suffix(, )
         0}},
    {"/console/hubs.js",
     (const char[]){
#embed "../../Clients/Console/hubs.js" suffix(, )
         0}},
    {"/console/icon.svg",
     (const char[]){
#embed "../../Clients/Demonstration/icon.svg" suffix(, )
         0}},
    {"/console/index.html",
     (const char[]){
#embed "../../Clients/Console/index.html" suffix(, )
         0}},
    {"/console/lists.js",
     (const char[]){
#embed "../../Clients/Console/lists.js" suffix(, )
         0}},
    {"/console/metrics.js",
     (const char[]){
#embed "../../Clients/Console/metrics.js" suffix(, )
         0}},
    {"/console/overview.js",
     (const char[]){
#embed "../../Clients/Console/overview.js" suffix(, )
         0}},
    {"/console/plots.js",
     (const char[]){
#embed "../../Clients/Console/plots.js" suffix(, )
         0}},
    {"/console/tables.js",
     (const char[]){
#embed "../../Clients/Console/tables.js" suffix(, )
         0}},
    {"/console/way.js",
     (const char[]){
#embed "../../Clients/Console/way.js" suffix(, )
         0}},
};

#pragma clang diagnostic pop

size_t carillon_web_file_count(void) { return sizeof files / sizeof files[0]; }

const struct carillon_web_file *carillon_web_file_at(size_t index) {
    return index < carillon_web_file_count() ? &files[index] : NULL;
}
