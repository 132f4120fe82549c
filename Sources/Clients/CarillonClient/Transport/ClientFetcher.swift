import Foundation
import JSON

/// What a client fetches: tokens and signatures from the app's backend, and snapshots from the hub.
struct ClientFetcher: Sendable {
    let options: CarillonOptions
    let transport: any ClientTransport

    /// A fresh token, from the app's backend. Another user's goes nowhere.
    func token() async -> Result<String, CarillonError> {
        do {
            let token = try await options.token()
            if let named = Self.user(of: token), !named.utf8.elementsEqual(options.user.utf8) {
                return .failure(.wrongUser(named))
            }
            return token.isEmpty ? .failure(.noToken) : .success(token)
        } catch {
            return .failure(error as? CarillonError ?? .noToken)
        }
    }

    /// The user whom a token names; nil where that cannot be read: the hub judges such a token.
    private static func user(of token: String) -> String? {
        let parts = token.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count > 1 else { return nil }
        var text = String(parts[1].map { $0 == "-" ? "+" : $0 == "_" ? "/" : $0 })
        text += String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
        guard let claims = Data(base64Encoded: text) else { return nil }
        return (try? JSONTree(String(decoding: claims, as: UTF8.self)))?["sub"]?.string
    }

    /// What the app's backend signs of a channel.
    func authorization(of channel: String, _ socketID: String) async -> Result<CarillonChannelAuth, any Error> {
        do {
            guard let authorize = options.authorize else { throw CarillonError.invalid("there is no authorize") }
            return .success(try await authorize(channel, socketID))
        } catch {
            return .failure(error)
        }
    }

    /// The snapshots, fetched one after the other.
    func fetch(_ parts: [ClientSnapshot.Part]) async -> Result<[ClientSnapshot], CarillonError> {
        var snapshots: [ClientSnapshot] = []
        do {
            for part in parts {
                do {
                    snapshots.append(try await get(part))
                } catch CarillonError.http(404) where part.mayBeAbsent {
                    snapshots.append(.absent(part))
                }
            }
            return .success(snapshots)
        } catch {
            return .failure(CarillonError(error))
        }
    }

    private func get(_ part: ClientSnapshot.Part) async throws -> ClientSnapshot {
        guard let url = options.url(of: part) else { throw CarillonError.invalid("the hub's address") }
        let token = try await token().get()
        let reply = try await transport.get(url, fields: ["Authorization": "Bearer \(token)"])
        guard reply.status == 200 else { throw CarillonError.http(reply.status) }
        guard let position = reply.fields["x-sync-position"], let colon = position.lastIndex(of: ":"),
            let offset = Int64(position[position.index(after: colon)...]),
            let body = try? JSONTree(String(decoding: reply.body, as: UTF8.self))
        else { throw CarillonError.network("the answer has no position") }
        return ClientSnapshot(
            part: part, body: body, position: StoredPosition(epoch: String(position[..<colon]), offset: offset))
    }
}
