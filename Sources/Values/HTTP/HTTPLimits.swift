/// Limits of one HTTP message, in bytes unless the name says otherwise.
package struct HTTPLimits: Sendable, Equatable {
    /// The first line and the fields, with line ends; trailers may take as much again. More is answered 431.
    package var headBytes = 8192
    /// Number of fields. More is answered 431.
    package var fieldCount = 64
    /// The decoded body. More is answered 413.
    package var bodyBytes = 65_536
    /// One chunk's size line with its extensions and line end. More is answered 400.
    package var chunkLineBytes = 256

    /// The defaults.
    package init() {}

    /// The first line with its end. More is answered 414. The rest of `headBytes` is left for a browser's fields.
    package var requestLineBytes: Int { headBytes - headBytes / 8 }

    /// Bytes of a chunked body on the wire, with sizes and line ends. More is answered 413.
    package var chunkedBytes: Int { bodyBytes * 2 + headBytes }

    /// Buffer bytes that hold any one request: the head, the chunks, then the last size line and the trailers.
    package var messageBytes: Int { 2 + headBytes + chunkedBytes + chunkLineBytes + headBytes }
}
