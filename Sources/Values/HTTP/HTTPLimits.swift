/// The bounds of one HTTP message; all in bytes, except where the name says otherwise.
package struct HTTPLimits: Sendable, Equatable {
    /// The first line and the fields, all line ends included: 431 beyond it. Trailers count as well.
    package var headBytes = 8192
    /// Number of fields: 431 beyond it.
    package var fieldCount = 64
    /// The body, decoded: 413 beyond it.
    package var bodyBytes = 65_536
    /// One chunk's size line with its extensions and its end: 400 beyond it.
    package var chunkLineBytes = 256

    /// The defaults.
    package init() {}

    /// The first line, its end included: 414 beyond it. What the fields of a browser need is left to them.
    package var requestLineBytes: Int { headBytes - headBytes / 8 }

    /// Bytes that a chunked body may take on the wire, sizes and line ends included: 413 beyond it.
    package var chunkedBytes: Int { bodyBytes * 2 + headBytes }

    /// Bytes that a caller must be able to hold for one request: a buffer of this size never fills up in vain.
    /// Behind the chunks, the last size line and the trailers.
    package var messageBytes: Int { 2 + headBytes + chunkedBytes + chunkLineBytes + headBytes }
}
