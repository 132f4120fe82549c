// A server of HTTP/2 that accepts each push, for measurements: it reads the request and answers 200.
//
//     node apns.js KEY CERTIFICATE
//
// Prints its port of 127.0.0.1. GET /count answers with the number of pushes that it has accepted.
const fs = require('node:fs');
const http2 = require('node:http2');

let accepted = 0;
const [key, certificate] = process.argv.slice(2).map((path) => fs.readFileSync(path));
const server = http2.createSecureServer({ key, cert: certificate, settings: { maxConcurrentStreams: 1000 } });
server.on('stream', (stream, headers) => {
    stream.on('error', () => {});
    if (headers[':method'] === 'GET') {
        stream.respond({ ':status': 200 });
        stream.end(String(accepted));
        return;
    }
    stream.resume();
    stream.on('end', () => {
        accepted += 1;
        stream.respond({ ':status': 200, 'apns-id': 'id' }, { endStream: true });
    });
});
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
