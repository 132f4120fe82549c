import Glibc

/// Resolves host names off the loops, since the system's resolver blocks and cannot be interrupted.
///
/// One thread per name at a time: a hanging resolver holds no more threads than the settings have names. A
/// connection that gives up is forgotten; its next attempt finds the same thread still at work.
package final class HostResolver: Sendable {
    /// Asks the system (getaddrinfo(3)).
    package static let system = HostResolver(systemAddresses)
    /// Addresses taken of one host name.
    package static let addressesMax = 32

    /// The addresses of a name, or why there are none.
    package typealias Answer = Result<[String], HostNotFound>

    private let find: @Sendable (String) -> Answer
    /// The lookups that wait for each name being resolved; the list may be empty.
    private let underWay = Locked<[String: [HostLookUp]]>([:])

    /// - Parameter find: the addresses of a name as text, in the order to try them. Called on a thread that may block.
    package init(_ find: @escaping @Sendable (String) -> Answer) {
        self.find = find
    }

    /// Starts to resolve names; the answer tells when all are.
    ///
    /// - Throws: if the system has no descriptor left.
    package func lookUp(_ names: Set<String>) throws(ReactorError) -> HostLookUp {
        let lookUp = try HostLookUp(names, of: self)
        for name in names {
            let isFirst = underWay.withLock { waiting in
                let isFirst = waiting[name] == nil
                waiting[name, default: []].append(lookUp)
                return isFirst
            }
            if isFirst { begin(name) }
        }
        return lookUp
    }

    private func begin(_ name: String) {
        do throws(ReactorError) {
            try SystemThread(name: "resolver") { [self] in finish(name, find(name)) }.detach()
        } catch {
            finish(name, .failure(HostNotFound(reason: String(cString: strerror(error.code)))))
        }
    }

    private func finish(_ name: String, _ answer: Answer) {
        // A later lookup finds no thread for this name and starts another.
        for lookUp in underWay.withLock({ $0.removeValue(forKey: name) }) ?? [] { lookUp.received(answer, of: name) }
    }

    fileprivate func forget(_ lookUp: HostLookUp) {
        underWay.withLock { waiting in
            for name in lookUp.names { waiting[name]?.removeAll { $0 === lookUp } }
        }
    }

    /// At most `addressesMax` addresses of the name.
    private static func systemAddresses(_ name: String) -> Answer {
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(name, nil, &hints, &list)
        guard code == 0, let list else { return .failure(HostNotFound(reason: String(cString: gai_strerror(code)))) }
        defer { freeaddrinfo(list) }
        var addresses: [String] = []
        var next: UnsafeMutablePointer<addrinfo>? = list
        while let entry = next, addresses.count < addressesMax {
            next = entry.pointee.ai_next
            let text = withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(NI_MAXHOST)) { room -> String? in
                guard let base = room.baseAddress,
                    getnameinfo(
                        entry.pointee.ai_addr, entry.pointee.ai_addrlen, base, socklen_t(room.count), nil, 0,
                        NI_NUMERICHOST) == 0
                else { return nil }
                return String(cString: base)
            }
            if let text, !addresses.contains(text) { addresses.append(text) }
        }
        guard !addresses.isEmpty else { return .failure(HostNotFound(reason: "it has no address")) }
        return .success(addresses)
    }
}

/// Why a host name has no address.
package struct HostNotFound: Error, Sendable, Equatable {
    /// The system's words.
    package let reason: String

    /// A reason in words.
    package init(reason: String) { self.reason = reason }
}

/// The names being resolved for one connection. Its descriptor becomes and stays readable when all are answered.
package final class HostLookUp: Sendable {
    /// What is resolved.
    package let names: Set<String>
    private let resolver: HostResolver
    private let waker: Waker
    private let answers = Locked<[String: HostResolver.Answer]>([:])

    fileprivate init(_ names: Set<String>, of resolver: HostResolver) throws(ReactorError) {
        self.names = names
        self.resolver = resolver
        waker = try Waker()
    }

    /// For the loop to watch.
    package var descriptor: Int32 { waker.descriptor }

    fileprivate func received(_ answer: HostResolver.Answer, of name: String) {
        let areAll = answers.withLock { answers in
            answers[name] = answer
            return answers.count == names.count
        }
        if areAll { waker.signal() }
    }

    /// Stops waiting, and returns the answers so far.
    package func end() -> [String: HostResolver.Answer] {
        resolver.forget(self)
        return answers.withLock { $0 }
    }
}
